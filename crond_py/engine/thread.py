"""The thread around the state machine: one inbox, one loop of ten lines.

Whatever happens is put into the inbox, by any thread, without waiting; requests wait for their
answer. All events that lie there are handled as one batch, so that what falls due together is
committed together.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import NoReturn, TypeVar

from crond_py.crontab.model import Crontab
from crond_py.engine.core import Core
from crond_py.engine.events import Call, ClockChanged, TimersFired
from crond_py.engine.gathering import Gathering
from crond_py.engine.view import Cancelled, EngineStatus
from crond_py.errors import RequestRefusedError
from crond_py.logfields import fields
from crond_py.model import Run
from crond_py.ports import NewTask, Submitted
from crond_py.vital import VitalThread

MAX_BATCH = 2000
"""How many events are committed together at most."""

CLAIM_PATIENCE = timedelta(seconds=10)
"""How long a request to run a job waits for the ledger."""

T = TypeVar("T")

log = logging.getLogger("pycron.engine")


class Engine:
    """The engine as the rest of the daemon sees it. Every method may be called from any thread.

    ``start`` and ``close`` are idempotent; ``close`` without ``start`` is legal. Requests raise
    what ``Core`` raises, and RequestRefusedError once the engine is closed.
    """

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[object | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._core: Core | None = None
        self._is_closed = False

    # --- what happens ---------------------------------------------------------------------

    def timers_fired(self, items: list[object], popped_ns: int) -> None:
        """Take a batch of timers from the dispatcher."""
        self._inbox.put(TimersFired(items, popped_ns))

    def process_event(self, event: object) -> None:
        """Take word of a process from the runner, or what was to come after such."""
        self._inbox.put(event)

    def clock_changed(self) -> None:
        """Have the engine look at the clock at once."""
        self._inbox.put(ClockChanged())

    def call(self, function: Callable[[], None]) -> None:
        """Have the engine's thread call something, after all that lies in the inbox.

        It is not called where the engine does not get on, or not any more.
        """
        self._inbox.put(Call(function))

    # --- the thread -----------------------------------------------------------------------

    def start(self, core: Core) -> None:
        """Begin to handle events; ``core.begin`` has been called."""
        with self._lock:
            if self._thread is not None or self._is_closed:
                return
            self._core = core
            self._thread = VitalThread(target=self._loop, args=(core,), name="pycron-engine")
            self._thread.start()

    def close(self) -> None:
        """End the thread once all that lies in the inbox is handled. Runs are left as they are."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            thread = self._thread
        if not was_closed:
            self._inbox.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _loop(self, core: Core) -> None:
        while True:
            batch = self._next_batch(core.gathering)
            core.handle([event for event in batch if event is not None])
            if None in batch:
                return

    def _next_batch(self, gathering: Gathering) -> list[object | None]:
        """Take all that has come, and wait for what is to be handled together with that."""
        batch = [self._inbox.get()]
        gathering.open()
        while len(batch) < MAX_BATCH:
            patience_s = _patience_s(gathering, batch[-1])
            try:
                if patience_s > 0:
                    batch.append(self._inbox.get(timeout=patience_s))
                else:
                    batch.append(self._inbox.get_nowait())
            except queue.Empty:
                break
        return batch

    # --- requests -------------------------------------------------------------------------

    def status(self) -> EngineStatus:
        """Return the engine's view of everything."""
        return self._ask(lambda core: core.status())

    def trigger(self, name: str, *, force: bool) -> int:
        """Run a job now and return the run's id."""
        claimed: Future[int] = Future()
        self._ask(
            lambda core: core.trigger(
                name, is_forced=force, then=lambda active: claimed.set_result(active.run.id)
            )
        )
        try:
            return claimed.result(CLAIM_PATIENCE.total_seconds())
        except TimeoutError:
            message = f"a run of {name} waits for the ledger, which cannot be written now"
            raise RequestRefusedError(message) from None

    def cancel_run(self, run_id: int) -> Cancelled:
        """Cancel one run; its process, if it has one, ends a little later."""
        return self._ask(lambda core: core.cancel_run(run_id))

    def cancel_job(self, name: str) -> list[Cancelled]:
        """Cancel every unfinished run of a job."""
        return self._ask(lambda core: core.cancel_job(name))

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Enter tasks, all or none, durable once it returns; nothing else goes on meanwhile.

        Due instants are readings of the wall clock, there and back.
        """
        return self._ask(lambda core: core.submit(tasks))

    def cancel_task(self, task_id: int) -> list[Cancelled]:
        """Cancel what is to come of a task, and its runs; a process ends a little later."""
        return self._ask(lambda core: core.cancel_task(task_id))

    def wait_run(self, run_id: int, timeout: timedelta) -> Run | None:
        """Wait until a run has its outcome and return it; None if it has none in time."""
        outcome: Future[Run] = Future()
        callback = outcome.set_result
        self._ask(lambda core: core.on_end(run_id, callback))
        try:
            return outcome.result(timeout.total_seconds())
        except TimeoutError:
            self._ask(lambda core: core.forget_end(run_id, callback))
            return outcome.result(0) if outcome.done() else None

    def wait_task(self, task_id: int, timeout: timedelta) -> tuple[bool, Run | None]:
        """Wait until a task is over; return whether it is, and then the newest of its runs."""
        ended: Future[Run | None] = Future()
        callback = ended.set_result
        self._ask(lambda core: core.task_ends.wait(task_id, callback))
        try:
            return True, ended.result(timeout.total_seconds())
        except TimeoutError:
            self._ask(lambda core: core.task_ends.forget(task_id, callback))
            return ended.done(), ended.result(0) if ended.done() else None

    def reload(self, crontab: Crontab) -> None:
        """Put another crontab in force."""
        self._ask(lambda core: core.reload(crontab))

    def stop(
        self,
        limit: timedelta | None,
        on_stopped: Callable[[], None],
        on_stopping: Callable[[], None],
    ) -> None:
        """Start nothing more; call back, in the engine's thread, then and once it has ended."""
        self._ask(lambda core: core.stop(limit, on_stopped, on_stopping))

    def end_runs(self, reason: str) -> None:
        """End every process but those that are to be left to the next daemon."""
        self._ask(lambda core: core.end_runs(reason))

    def _ask(self, question: Callable[[Core], T]) -> T:
        """Have ``question`` put to the core in the engine's thread and wait for the answer."""
        # No Future: that is loaded when it is first used, and a stop may have no descriptor for it.
        answers: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
        with self._lock:
            core = self._core
            if core is None or self._is_closed:
                message = "pycron is not running any more"
                raise RequestRefusedError(message)
            self._inbox.put(Call(partial(_put, question, core, answers)))
        return answers.get()()


def _patience_s(gathering: Gathering, event: object) -> float:
    try:
        return gathering.patience_s(event)
    except Exception:  # the boundary of one event, as in ``Core``: it is dealt with at once
        log.exception("events are not gathered", extra=fields(event=repr(event)))
        return 0.0


def _put(
    question: Callable[[Core], T], core: Core, answers: queue.SimpleQueue[Callable[[], T]]
) -> None:
    try:
        answer = question(core)
    except Exception as error:  # noqa: BLE001 - handed to the caller, whose it is
        answers.put(partial(_raise, error))
    else:
        answers.put(lambda: answer)


def _raise(error: Exception) -> NoReturn:
    raise error
