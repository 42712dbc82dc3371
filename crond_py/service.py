"""The composition root: builds the parts of the daemon, starts and stops them in order.

``python -m crond_py.service JSON`` is the long-running process. It imports neither typer nor rich:
``pycron run`` checks its options and then replaces itself by this. The main thread waits for
signals; what they ask for is done here, one after the other:

* SIGHUP: read the crontab again; a bad one changes nothing.
* SIGTERM, SIGINT: start nothing more, wait for what runs, at most ``stop_timeout``; a second one
  ends what runs.

Order of the start: crontab, state lock, ledger, runner, dispatcher, engine (recovery, missed runs),
clock watch, control socket, READY. The stop goes the other way round.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until it is caught an interrupt ends the process, as SIGTERM does. As a KeyboardInterrupt it
    # could come in a callback of the import system, and be lost.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

if __name__ == "__main__":
    from crond_py.lean import leave_texts_out, put_off_modules

    put_off_modules()  # before the imports that follow
    leave_texts_out()

    import json
    import sys
    from pathlib import Path

    from crond_py.crontab.apart import Reading
    from crond_py.descriptors import occupy_standard_descriptors
    from crond_py.runner.errands import ERRANDS

    occupy_standard_descriptors()  # before anything is opened
    given, reading = json.loads(sys.argv[1]), None
    if not given["daemonize"]:
        # The crontab is read while the rest is imported. What is to go to the background will be
        # another process then, whose child this would not be.
        reading = Reading(Path(given["crontab"]), ERRANDS.start)

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import crond_py
from crond_py.clock import SystemClock, to_ns
from crond_py.clockwatch import ClockWatch
from crond_py.control.handlers import Handlers
from crond_py.control.protocol import Changed, Reloaded
from crond_py.control.server import ControlServer, check_unserved
from crond_py.crontab.apart import Reading, load_apart
from crond_py.crontab.model import Crontab
from crond_py.crontab.on_demand import TaskJobsOnDemand
from crond_py.crontab.summary import TableDiff, diff_crontabs, forget_fingerprints
from crond_py.dataclass import dataclass
from crond_py.dispatcher import Dispatcher
from crond_py.engine.core import Core
from crond_py.engine.outbox import Outbox
from crond_py.engine.parts import Parts
from crond_py.engine.thread import Engine
from crond_py.engine.timekeeper import Timekeeper
from crond_py.errors import CrontabError, PycronError, RequestRefusedError
from crond_py.inbox import SAME_REQUEST, Inbox
from crond_py.janitor import Janitor
from crond_py.launch import Launchpad, own_outputs
from crond_py.lean import collecting_later, forget_texts, give_back_memory, keep_one_heap
from crond_py.ledger.journaled import JournaledLedger
from crond_py.ledger.lock import StateLock, make_private_directory
from crond_py.ledger.opening import open_ledger
from crond_py.logfields import fields
from crond_py.logs import Log, configure_logging
from crond_py.model import OutputMode
from crond_py.pidfile import PidFile
from crond_py.places import Places
from crond_py.ports import LineSink
from crond_py.runner.errands import ERRANDS
from crond_py.runner.letgo import LetGo
from crond_py.runner.output import remove_outputs
from crond_py.runner.process import ProcessRunner
from crond_py.runner.procfile import check_mounted
from crond_py.runner.proctree import boot_id, process_era
from crond_py.runner.quota import Quota
from crond_py.runner.subreaper import become_subreaper
from crond_py.schedule import clear_zone_cache, forget_parsed, format_duration
from crond_py.sdnotify import Notifier
from crond_py.vital import ending_by

try:  # this alone, without the module in Python around it
    from _random import Random
except ImportError:
    from random import Random  # type: ignore[assignment]

if TYPE_CHECKING:
    from crond_py.daemonize import Readiness

log = logging.getLogger("pycron.service")

LOG_PATIENCE = timedelta(seconds=2)
"""How long the end waits for the log's last lines to be taken."""

JANITOR_PATIENCE = timedelta(seconds=2)
"""How long the end waits for a file that is just being removed; the disk may hang."""

LISTEN_EVERY = timedelta(seconds=5)
"""How often a control socket is tried for again, where there is none any more."""

_READ_LIMIT: Final = timedelta(seconds=20)
"""How long a reload may read; whoever asks for one waits for its answer a little longer."""
_RELOAD_TURN: Final = timedelta(seconds=2)
"""How long a request waits for the reload that is under way."""

_BEAT: Final = object()
_STOPPED: Final = object()
_LISTEN: Final = object()


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Somebody wants the daemon to stop; ``now``: without waiting for what runs."""

    source: str
    received_ns: int
    is_signal: bool = True
    now: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """What ``pycron run`` was told. ``stop_timeout`` None: wait for as long as it takes."""

    places: Places
    log_format: str = "text"
    clock_check: timedelta | None = None
    stop_timeout: timedelta | None = timedelta(seconds=30)
    is_daemonized: bool = False
    pid_file: Path | None = None
    log_file: Path | None = None

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Read what ``pycron run`` wrote; spans are seconds."""
        given = json.loads(text)
        return cls(
            places=Places(Path(given["crontab"]), Path(given["state_dir"])),
            log_format=given["log_format"],
            clock_check=_seconds(given["clock_check"]),
            stop_timeout=_seconds(given["stop_timeout"]),
            is_daemonized=given["daemonize"],
            pid_file=_path(given["pid_file"]),
            log_file=_path(given["log_file"]),
        )


class Service:
    """The daemon: everything between the options and the exit status.

    ``reading`` is its crontab, where that is being read already.
    """

    def __init__(
        self, options: Options, daemon_log: LineSink, reading: Reading | None = None
    ) -> None:
        self._options = options
        self._reading = reading
        self._log = daemon_log
        self._crontab = Crontab(MappingProxyType({}), MappingProxyType({}))
        self._clock = SystemClock()
        self._engine = Engine()
        self._dispatcher = Dispatcher(self._clock, self._deliver, name="pycron-dispatcher")
        self._runner: ProcessRunner | None = None
        self._let_go = LetGo(options.places.let_go, boot_id(), self._clock)
        self._notifier = Notifier.from_environment()
        self._inbox = Inbox()
        self._janitor = Janitor()
        self._reloader = Janitor("pycron-reloader")
        self._reload_lock = threading.Lock()
        self._server: ControlServer | None = None
        self._is_deaf = False
        self._stopped_ns = 0
        self._refusal = ""

    # --- the daemon's life ----------------------------------------------------------------

    def run(self, on_up: Callable[[], None]) -> None:
        """Be the daemon until it is told to stop; ``on_up`` is called once it is up.

        Raises PycronError where it cannot start: the crontab is refused, another daemon holds the
        state directory, the ledger cannot be used, the control socket cannot be made.
        """
        with ExitStack() as stack:
            stack.callback(self._inbox.close)
            # First: a signal that comes during the start is heeded after it.
            caught = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
            stack.enter_context(self._inbox.catching(caught, self._signalled))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))  # see cli.main
            with collecting_later():
                reading = self._reading or Reading(self._options.places.crontab, ERRANDS.start)
                self._crontab = reading.result()
                self._start(stack)
            _forget_reading()
            give_back_memory()
            on_up()
            self._notifier.ready(self._summary())
            log.info("pycron %s is up", crond_py.__version__, extra=self._fields())
            self._serve()
            self._notifier.status("stopping")
        log.info("pycron has stopped", extra=fields())

    def _start(self, stack: ExitStack) -> None:
        places = self._options.places
        check_mounted()
        # The lock does not keep a second daemon out once its file has been deleted; and whoever
        # takes the lock for a moment is in the first one's way when that makes its file again.
        check_unserved(places.socket)
        lock = StateLock(places.state_dir)
        lock.acquire(self._clock.now())
        stack.callback(lock.release)
        if self._options.pid_file is not None:
            # Under the lock: a second daemon must not replace the first one's file.
            stack.enter_context(PidFile(self._options.pid_file))
        ledger = stack.enter_context(
            closing(
                open_ledger(
                    places.ledger,
                    self._clock,
                    keep_hold=partial(self._keep, lock),
                    boot_id=boot_id(),
                )
            )
        )
        become_subreaper()
        sinks = {OutputMode.STREAM: self._log}
        runner = self._runner = ProcessRunner(
            self._engine.process_event,
            self._clock,
            sinks=sinks,
            let_go=self._let_go,
        )
        runner.open()
        stack.callback(runner.close)
        self._dispatcher.start()
        stack.callback(self._stop_dispatcher)
        core = self._build_core(ledger, runner)
        core.begin(self._crontab)
        ledger.let_pages_go()
        self._engine.start(core)
        stack.callback(self._janitor.close, JANITOR_PATIENCE)
        stack.callback(self._engine.close)
        watch = ClockWatch(self._clock, self._clock_changed, check_every=self._options.clock_check)
        watch.start()
        stack.callback(watch.stop)
        self._server = self._listen()
        stack.callback(self._stop_listening)
        self._begin_watchdog()

    def _listen(self) -> ControlServer:
        socket = self._options.places.socket
        server = ControlServer(socket, Handlers(self._engine, self, self._clock), self._clock)
        server.start()
        return server

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.stop()  # by then it may be another than at the start

    def _keep(self, lock: StateLock, now: datetime) -> None:
        """Keep the state directory, also where somebody has deleted it while it was in use."""
        if lock.keep(now):
            log.warning("the lock file was deleted; it is there again", extra=fields())
        if not (self._is_deaf or self._is_listening):
            self._inbox.put(_LISTEN)

    @property
    def _is_listening(self) -> bool:
        """Whether the control socket is in its place, or is yet to be made."""
        return self._server is None or self._server.is_in_place

    def _listen_again(self) -> None:
        """Have a control socket in its place again."""
        if self._is_listening and not self._is_deaf:
            return
        self._stop_listening()
        try:
            self._server = self._listen()
        except PycronError as error:
            if not self._is_deaf:
                log.error("there is no control socket any more: %s", error, extra=fields())
            self._is_deaf = True
            again_ns = self._clock.monotonic_ns() + to_ns(LISTEN_EVERY)
            self._dispatcher.call_at(again_ns, _LISTEN)
        else:
            self._is_deaf = False
            log.warning("the control socket was deleted; it is there again", extra=fields())

    def _build_core(self, ledger: JournaledLedger, runner: ProcessRunner) -> Core:
        parts = Parts(
            timekeeper=Timekeeper(self._clock),
            timers=self._dispatcher,
            outbox=Outbox(ledger),
            processes=runner,
            specify=Launchpad(self._options.places.state_dir, ledger.identity),
            boot_id=boot_id(),
            process_era=process_era(),
            remove_outputs=self._remove_outputs,
            bound_outputs=Quota(self._options.places.state_dir, self._janitor.submit).note,
            task_reader=TaskJobsOnDemand,
            random=Random().random,  # noqa: S311 - spreads retries, guards nothing
        )
        return Core(parts, ledger)

    def _remove_outputs(self, outputs: Sequence[str]) -> None:
        """Remove files of forgotten runs, in a thread of its own: the disk may be slow."""
        paths = own_outputs(self._options.places.state_dir, outputs)

        def remove() -> None:
            for fault in remove_outputs(paths):
                log.warning("%s", fault, extra=fields())

        self._janitor.submit(remove)

    def _stop_dispatcher(self) -> None:
        self._dispatcher.stop()
        self._dispatcher.wait()

    def _serve(self) -> None:
        """Do what signals and requests ask for, until nothing runs any more."""
        while (item := self._inbox.get()) is not _STOPPED:
            match item:
                case signal.SIGHUP:
                    self._reloader.submit(self._reload_on_signal)  # a dead disk keeps no stop off
                case StopRequest():
                    self._stop(item)
                case _ if item is _LISTEN:
                    self._listen_again()

    # --- stop -----------------------------------------------------------------------------

    def stop(self, *, now: bool) -> None:
        """Begin to stop and return; ``now``: end what runs."""
        request = StopRequest("request", self._clock.monotonic_ns(), is_signal=False, now=now)
        self._inbox.put(request)

    def _stop(self, request: StopRequest) -> None:
        is_same = request.received_ns - self._stopped_ns < to_ns(SAME_REQUEST)
        is_first = self._stopped_ns == 0
        if is_first:
            self._stopped_ns = request.received_ns
            self._notifier.stopping()
            self._engine.stop(
                self._options.stop_timeout,
                on_stopped=lambda: self._inbox.put(_STOPPED),
                on_stopping=lambda: self._tell_stopping(request),
            )
        is_repeated = request.is_signal and not is_first and not is_same
        if request.now or is_repeated:
            log.warning("ending what runs", extra=fields(on=request.source))
            self._engine.end_runs("pycron was told to stop at once")

    def _tell_stopping(self, request: StopRequest) -> None:
        limit = self._options.stop_timeout
        waits = format_duration(limit) if limit is not None else "as long as it takes"
        values = fields(on=request.source, waits_for_runs=waits)
        log.info("stopping: nothing more is started", extra=values)

    # --- reload ---------------------------------------------------------------------------

    @property
    def crontab(self) -> Crontab:
        """The crontab in force."""
        return self._crontab

    @property
    def crontab_files(self) -> Sequence[Path]:
        """The files that the crontab in force was read from."""
        return self._crontab.files

    @property
    def troubles(self) -> Sequence[str]:
        """What lasts and is not as it should be, around the engine."""
        return tuple(filter(None, (self._refusal, self._let_go.trouble)))

    @property
    def stop_timeout(self) -> timedelta | None:
        """How long a stop waits for runs before it ends them; None: as long as they take."""
        return self._options.stop_timeout

    def reload(self, turn: timedelta | None = _RELOAD_TURN) -> Reloaded:
        """Read the crontab and put it in force. Raises CrontabError, and keeps the old one.

        Raises RequestRefusedError where another reload is not done within ``turn``; None: waits.
        """
        # A pile of requests that wait for one that hangs would take up every connection.
        if not self._reload_lock.acquire(timeout=-1 if turn is None else turn.total_seconds()):
            raise RequestRefusedError("another reload is under way; ask again once it is done")
        try:
            self._notifier.reloading(self._clock)
            try:
                clear_zone_cache()
                new = load_apart(self._options.places.crontab, ERRANDS.start, _READ_LIMIT)
                changes = diff_crontabs(self._crontab, new)
                self._engine.reload(new)
                self._crontab = new
                self._refusal = ""
            except PycronError as error:
                self._tell_refusal(error)
                raise
            finally:
                _forget_reading()
                if self._stopped_ns == 0:
                    self._notifier.ready(self._summary())
        finally:
            self._reload_lock.release()
        jobs, pools, groups = changes.jobs, changes.pools, changes.groups
        differs = {
            **_named("", jobs),
            **_named("pools_", pools),
            **_named("groups_", groups),
        }
        log.info("crontab reloaded", extra=fields(jobs=len(new.jobs), **differs))
        return Reloaded(
            added=jobs.added,
            removed=jobs.removed,
            changed=jobs.changed,
            unchanged=len(new.jobs) - len(jobs.added) - len(jobs.changed),
            pools=Changed(pools.added, pools.removed, pools.changed),
            groups=Changed(groups.added, groups.removed, groups.changed),
        )

    def _tell_refusal(self, error: PycronError) -> None:
        """Say why the crontab in force is still the old one, in the log and in the status."""
        faults = error.faults if isinstance(error, CrontabError) else (error,)
        for fault in faults:
            log.error("%s", fault, extra=fields())
        log.error("the crontab was not reloaded; the jobs stay as they are", extra=fields())
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        when = self._clock.now().isoformat(timespec="seconds")
        self._refusal = f"the crontab was refused at {when}, the old one holds: {faults[0]}{more}"

    def _reload_on_signal(self) -> None:
        with suppress(PycronError):  # it has been told
            self.reload(turn=None)  # what was changed since the one under way began counts

    # --- signals, clock, watchdog ---------------------------------------------------------

    def _signalled(self, received: signal.Signals) -> object:
        """Return what a signal asks for."""
        if received is signal.SIGHUP:
            return received
        return StopRequest(received.name, self._clock.monotonic_ns())

    def _clock_changed(self) -> None:
        self._dispatcher.recheck()
        self._engine.clock_changed()

    def _begin_watchdog(self) -> None:
        period = self._notifier.watchdog_period
        if period is not None:
            self._dispatcher.call_at(self._clock.monotonic_ns(), _BEAT)

    def _give_sign_of_life(self) -> None:
        """Feed the watchdog; the next time it goes from the dispatcher by the engine to the runner.

        So none of them can hang, or be gone, and the daemon pass for alive.
        """
        self._notifier.alive()
        period = self._notifier.watchdog_period
        if period is not None:
            next_ns = self._clock.monotonic_ns() + to_ns(period) // 2
            self._dispatcher.call_at(next_ns, _BEAT)

    def _pass_beat_on(self) -> None:
        if self._runner is not None:
            self._runner.call(self._give_sign_of_life)

    def _deliver(self, items: list[object], popped_ns: int) -> None:
        """Pass on what is due."""
        if _LISTEN in items:
            items = [item for item in items if item is not _LISTEN]
            self._inbox.put(_LISTEN)
        if _BEAT in items:
            items = [item for item in items if item is not _BEAT]
            self._engine.call(self._pass_beat_on)
        if items:
            self._engine.timers_fired(items, popped_ns)

    def _summary(self) -> str:
        number = len(self._crontab.jobs)
        return f"{number} job{'' if number == 1 else 's'} in {self._options.places.crontab}"

    def _fields(self) -> dict[str, Any]:
        places = self._options.places
        return fields(
            pid=os.getpid(),
            jobs=len(self._crontab.jobs),
            crontab=str(places.crontab),
            state_dir=str(places.state_dir),
        )


def main(arguments: Sequence[str], reading: Reading | None = None) -> int:
    """Run the daemon that ``arguments`` (one JSON object) describe; return its exit status.

    ``reading`` is its crontab, where that is being read already.
    """
    options = Options.from_json(arguments[0])
    readiness: Readiness | None = None
    try:
        if options.is_daemonized:
            make_private_directory(options.places.state_dir)  # where the log file usually is
            # Only here: python-daemon stays in memory, and most daemons are in the foreground.
            from crond_py.daemonize import daemonize  # noqa: PLC0415

            readiness = daemonize(options.log_file)
        _take_name()
        keep_one_heap()
        daemon_log = configure_logging(options.log_format, stream=sys.stderr, file=options.log_file)
        try:
            with ending_by(partial(_give_up, daemon_log)):
                service = Service(options, daemon_log, reading)
                service.run(readiness.up if readiness is not None else _nothing)
        finally:
            daemon_log.close(LOG_PATIENCE)
    except PycronError as error:
        text = "\n".join(f"pycron: {line}" for line in str(error).splitlines())
        if readiness is not None:
            readiness.failed(text, error.exit_code)  # standard error is the log by now
        elif sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
        return error.exit_code
    return 0


def _give_up(daemon_log: Log) -> None:
    """End the process as a crash does: what is half done is left to the next one."""
    daemon_log.close(LOG_PATIENCE)
    os._exit(PycronError.exit_code)


def _take_name() -> None:
    """Be found as ``pycron`` by ps(1) and pgrep(1), not as an interpreter, if that can be had."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text("pycron", encoding="ascii")


def _seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


def _path(value: str | None) -> Path | None:
    return None if value is None else Path(value)


def _named(prefix: str, table: TableDiff) -> dict[str, str | None]:
    """Return what has changed of a table as fields of the log, names joined; None: nothing."""
    return {
        f"{prefix}added": ",".join(table.added) or None,
        f"{prefix}removed": ",".join(table.removed) or None,
        f"{prefix}changed": ",".join(table.changed) or None,
    }


def _forget_reading() -> None:
    """Let go of what was of use only while a crontab was taken up."""
    forget_parsed()
    forget_fingerprints()


def _nothing() -> None:
    """Be what is called where nobody waits for the daemon to be up."""


if __name__ == "__main__":
    forget_texts()
    sys.exit(main(sys.argv[1:], reading))
