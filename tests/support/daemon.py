"""Drives the installed program as a daemon with real processes, for the end-to-end tests.

A ``Daemon`` is a state directory, a crontab and, one after the other, the processes that are
started on them. What happens is learned from its log, in JSON, which a thread takes from the pipe
as it comes; nothing here looks again and again. What jobs did is told by themselves: they append a
line to a file (``stamps``), write to a FIFO (``Bell``) or wait for one (``Gate``).
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from crond_py.errors import LedgerError
from crond_py.ledger.sqlite import open_reader
from crond_py.places import Places
from crond_py.runner.proctree import find_survivors
from tests.support.inplace import OWN_PROGRAM, run_in_place

PATIENCE_S = 60.0
"""How long anything is waited for that should come. Only a failing test waits that long."""

PROGRAMS = Path(__file__).parent / "programs"

ENDS = ("run succeeded", "run failed", "run timed out", "run cancelled", "run lost", "run skipped")
"""What is logged when a run has its outcome."""

Event = dict[str, Any]


class EventLog:
    """What one daemon process logs: events as they come, and lines that are none."""

    def __init__(self, pipe: int) -> None:
        self.events: list[Event] = []
        self.noise: list[str] = []
        self._changed = threading.Condition()
        self._has_ended = False
        self._reader = threading.Thread(target=self._read, args=(pipe,), name="e2e-log")
        self._reader.start()

    def _read(self, pipe: int) -> None:
        with os.fdopen(pipe, encoding="utf-8", errors="backslashreplace") as lines:
            for line in lines:
                self._take(line.rstrip("\n"))
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _take(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        with self._changed:
            if isinstance(event, dict):
                self.events.append(event)
            else:
                self.noise.append(line)
            self._changed.notify_all()

    def wait(
        self, text: str | tuple[str, ...], *, count: int = 1, since: int = 0, **fields: object
    ) -> Event:
        """Return the ``count``-th event whose message has ``text`` in it, and these fields.

        Of several texts any one will do. ``since`` is the number of events that had come before
        (``len(log.events)``). Fails where the log ends without it, or nothing comes for too long.
        """
        event = self.wait_or_end(text, count=count, since=since, **fields)
        if event is None:
            found = len(self.all(text, since=since, **fields))
            message = f"no event {text!r} {fields} ({found} of {count}): the log has ended"
            raise AssertionError(f"{message}\n{self.text()}")
        return event

    def wait_or_end(
        self, text: str | tuple[str, ...], *, count: int = 1, since: int = 0, **fields: object
    ) -> Event | None:
        """Return such an event, or None where the log ends without it."""
        found: list[Event] = []
        seen = since

        def has_come() -> bool:
            nonlocal seen
            found.extend(e for e in self.events[seen:] if _matches(e, text, fields))
            seen = max(seen, len(self.events))
            return self._has_ended or len(found) >= count

        with self._changed:
            is_over = self._changed.wait_for(has_come, timeout=PATIENCE_S)
        if not is_over:
            message = f"no event {text!r} {fields} ({len(found)} of {count}) for {PATIENCE_S} s"
            raise AssertionError(f"{message}\n{self.text()}")
        return found[count - 1] if len(found) >= count else None

    def wait_end(self) -> None:
        """Wait until the process, and whoever else holds its standard error, has closed it."""
        self._reader.join(PATIENCE_S)
        assert not self._reader.is_alive(), "something keeps the daemon's standard error open"

    def all(self, text: str | tuple[str, ...], *, since: int = 0, **fields: object) -> list[Event]:
        """Return the events so far whose message has ``text`` in it, and these fields."""
        with self._changed:
            return [e for e in self.events[since:] if _matches(e, text, fields)]

    def text(self, lines: int = 60) -> str:
        """Return the newest lines, for a person."""
        events = [json.dumps(event) for event in self.events[-lines:]]
        return "\n".join([*self.noise[-lines:], *events])


def _matches(event: Event, text: str | tuple[str, ...], fields: Mapping[str, object]) -> bool:
    texts = (text,) if isinstance(text, str) else text
    is_meant = any(part in event["event"] for part in texts)
    return is_meant and all(event.get(key) == fields[key] for key in fields)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A line that a job has written about itself; see ``programs/e2e_stamp.sh``."""

    at: datetime
    pid: int
    job: str
    run: str
    due: datetime
    attempt: int
    word: str


class Daemon:
    """A state directory, a crontab, and at most one process at a time on them.

    Jobs find $OUT (the file of their stamps), $STAMP (the program that writes one), and $PROGRAMS,
    and begin in ``directory``.
    """

    def __init__(self, directory: Path, command: Sequence[str]) -> None:
        self.directory = directory
        self.command = tuple(command)
        self.state = directory / "state"
        self.crontab = directory / "crontab.toml"
        self.ledger = Places(self.crontab, self.state).ledger
        self.out = directory / "out"
        self.environment = {
            # Coverage is carried on where the tests are measured.
            **{key: value for key, value in os.environ.items() if key.startswith("COV")},
            "HOME": str(directory),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "PYCRON_STATE_DIR": str(self.state),
            "PYCRON_CRONTAB": str(self.crontab),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._log: EventLog | None = None

    # --- the crontab ----------------------------------------------------------------------

    def write(self, jobs: str, *, head: str = "") -> None:
        """Put a crontab in place by renaming; ``head`` goes before its tables."""
        new = self.directory / ".crontab.new"
        new.write_text(self.crontab_text(jobs, head=head), encoding="utf-8")
        new.replace(self.crontab)

    def crontab_text(self, jobs: str, *, head: str = "") -> str:
        """Return a crontab whose jobs can write stamps."""
        quoted = {"OUT": self.out, "STAMP": PROGRAMS / "e2e_stamp.sh", "PROGRAMS": PROGRAMS}
        env = "\n".join(f"{key} = {json.dumps(str(value))}" for key, value in quoted.items())
        cwd = json.dumps(str(self.directory))
        return f"{head}\n[env]\n{env}\n\n[defaults]\ncwd = {cwd}\n\n{jobs}\n"

    # --- the process ----------------------------------------------------------------------

    def start(
        self,
        jobs: str | None = None,
        *options: str,
        under: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        is_up: bool = True,
    ) -> EventLog:
        """Start a process, with ``jobs`` as its crontab if given, and wait until it is up.

        ``under`` is what the command is given to (``unshare``, ``sh -c 'exec "$@"'``).
        """
        assert self.process is None or self.process.returncode is not None
        if jobs is not None:
            self.write(jobs)
        reader, writer = os.pipe()
        self.process = subprocess.Popen(
            [*under, *self.command, "run", "--log-format", "json", *options],
            env={**self.environment, **(env or {})},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=writer,
        )
        os.close(writer)
        self._log = EventLog(reader)
        if is_up:
            self._log.wait("is up")
        return self._log

    @property
    def log(self) -> EventLog:
        """The log of the newest process."""
        assert self._log is not None
        return self._log

    @property
    def pid(self) -> int:
        """The process that was started last."""
        assert self.process is not None
        return self.process.pid

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        os.kill(self.pid, number)

    def wait_exit(self) -> int:
        """Wait for the end of the process and return its exit status."""
        assert self.process is not None
        status = self.process.wait(PATIENCE_S)
        self.log.wait_end()
        return status

    def stop(self) -> None:
        """End the process as an init system does; it must end well."""
        self.signal(signal.SIGTERM)
        assert self.wait_exit() == 0, self.log.text()

    def kill(self) -> None:
        """End the process without warning; its jobs stay."""
        self.signal(signal.SIGKILL)
        assert self.wait_exit() == -signal.SIGKILL

    def freeze(self) -> None:
        """Stop the process as a debugger or a cgroup does; returns once it stands still."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self.signal(signal.SIGCONT)

    # --- what is asked of it --------------------------------------------------------------

    def cli(self, *arguments: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a command of the program; ``check`` is the exit code that it must have."""
        done = subprocess.run(
            [*self.command, *arguments],
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return self._checked(done, check)

    def tell(self, *arguments: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Do as ``cli``, but without a start where the program of these sources is under test."""
        if self.command != OWN_PROGRAM:
            return self.cli(*arguments, check=check)
        return self._checked(run_in_place(arguments, self.environment), check)

    @staticmethod
    def _checked(
        done: subprocess.CompletedProcess[str], check: int | None
    ) -> subprocess.CompletedProcess[str]:
        assert "Traceback" not in done.stderr, done.stderr
        if check is not None:
            assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
        return done

    def history(self, *arguments: str) -> list[Event]:
        """Return what ``pycron history`` tells, oldest due first."""
        text = self.tell("history", "--json", "-n", "0", *arguments).stdout
        return list(reversed(json.loads(text)))

    def settle(self) -> None:
        """Wait until no run goes on or waits. For a crontab in which nothing new is due."""
        while active := self.status()["active"]:
            for run in active:
                self.log.wait(ENDS, run=run["run"])

    def status(self) -> Event:
        """Return what ``pycron status`` tells."""
        answer: Event = json.loads(self.tell("status", "--json").stdout)
        return answer

    def stamps(self, job: str | None = None, word: str | None = None) -> list[Stamp]:
        """Return what jobs have written about themselves, in the order of the writing."""
        try:
            lines = self.out.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        stamps = map(_stamp, lines)
        return [s for s in stamps if job in {None, s.job} and word in {None, s.word}]

    # --- the end --------------------------------------------------------------------------

    def clean_up(self) -> None:
        """Let nothing live on, and show the log to whoever looks into a failure."""
        if self.process is not None:
            if self.process.returncode is None:
                self.process.kill()
                self.process.wait(PATIENCE_S)
            sys.stdout.write(f"{self.log.text()}\n")
        for pid in self._left_behind():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _left_behind(self) -> list[int]:
        try:
            with closing(open_reader(self.ledger)) as ledger:
                identity = ledger.identity
        except LedgerError:
            return []
        return [survivor.pid for survivor in find_survivors(identity)]


def _stamp(line: str) -> Stamp:
    at, pid, job, run, due, attempt, word = line.split(" ")
    seconds, nanoseconds = at.split(".")
    moment = datetime.fromtimestamp(int(seconds), UTC)
    moment += timedelta(microseconds=int(nanoseconds) // 1000)
    return Stamp(moment, int(pid), job, run, datetime.fromisoformat(due), int(attempt), word)


def job_text(name: str, command: str, *lines: str) -> str:
    """Return a job for the crontab, with more lines of it."""
    return "\n".join([f"[jobs.{name}]", f"command = {json.dumps(command)}", *lines, ""])


# --- programs that tell and wait ----------------------------------------------------------------


class Bell:
    """A FIFO that jobs write lines to, so that a test knows how far they have come."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Open for writing too: no writer then waits for a reader, and no reader sees an end.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""

    def wait(self) -> str:
        """Wait for the next line and return it."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while b"\n" not in self._rest:
            assert poll.poll(PATIENCE_S * 1000), f"nobody has written to {self.path}"
            self._rest += os.read(self._descriptor, 65536)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        """Let go of the FIFO."""
        os.close(self._descriptor)


class Gate:
    """A FIFO that jobs read a line from (``read x < gate``), so that a test says when they go on.

    With the end of the test it is closed, and whoever still waits goes on.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def open(self, number: int = 1) -> None:
        """Let ``number`` readers pass."""
        os.write(self._descriptor, b"go\n" * number)

    def close(self) -> None:
        """Let go of the FIFO."""
        os.close(self._descriptor)


# --- what is found in /proc ---------------------------------------------------------------------


def processes_with(argument: str) -> list[int]:
    """Return the pids of all processes that have ``argument`` as a part of their command line."""
    wanted, found = os.fsencode(argument), []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (directory / "cmdline").read_bytes():
                found.append(int(directory.name))
    return found


def may_run(*under: str) -> bool:
    """Whether a program can be run under another one, such as unshare(1)."""
    try:
        done = subprocess.run([*under, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def kill_session(pid: int) -> None:
    """End a process, which need not be a child, with its whole session; return when it is gone."""
    process = os.pidfd_open(pid)
    try:
        os.killpg(os.getsid(pid), signal.SIGKILL)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        assert poll.poll(PATIENCE_S * 1000), f"process {pid} lives on"
    finally:
        os.close(process)


# --- the oracle for promise P1 ------------------------------------------------------------------


def occurrences(rows: Sequence[Event], step: timedelta) -> list[datetime]:
    """Return the due instants that the rows account for, stretches spread out in steps.

    A stretch stands for what lies between its first and last instant and has no row of its own;
    its count must say how many those are.
    """
    single = [datetime.fromisoformat(row["due"]) for row in rows if row["count"] == 1]
    instants = list(single)
    for row in rows:
        if row["count"] > 1:
            first, last = map(datetime.fromisoformat, (row["due"], row["last_due"]))
            between = [first + step * n for n in range((last - first) // step + 1)]
            stretch = sorted(set(between) - set(single))
            assert row["count"] == len(stretch), row
            instants += stretch
    return instants


def begun(rows: Sequence[Event]) -> list[Event]:
    """Return the rows of what was begun or settled, where the daemon was told to stop.

    What is due just then may have been claimed and not started: it waits for the next daemon (P1).
    So does what was recalled before its instant, which has an attempt that never started.
    """
    waiting = [row for row in rows if row["state"] == "queued"]
    for row in waiting:
        assert not row["outcome"], row
        assert not [each for each in row["attempts"] if each["started_at"]], row
    return [row for row in rows if row not in waiting]


def assert_accounted(rows: Sequence[Event], step: timedelta) -> None:
    """Hold that the rows account for every instant from first to last exactly once (P1, P2)."""
    instants = sorted(occurrences(rows, step))
    assert instants, "nothing is accounted for"
    number = (instants[-1] - instants[0]) // step + 1
    assert instants == [instants[0] + step * n for n in range(number)]
