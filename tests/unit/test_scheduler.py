"""The Python API as its user sees it: tasks that run once, their order, their faults."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

import crond_py
from crond_py.errors import PycronError, ScheduleError
from crond_py.model import Retry
from crond_py.scheduler import Scheduler, Task, TaskState
from crond_py.scheduler.task import Run
from tests.support.clock import FakeClock
from tests.support.scheduling import PATIENCE, Bench

Bad = Callable[[Scheduler], object]


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give a scheduler with one worker on a fake clock."""
    with Bench() as bench:
        yield bench


def nothing() -> None:
    """Do nothing."""


# --- when ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [5, 5.0, timedelta(seconds=5)], ids=repr)
def test_a_delay_is_kept(bench: Bench, delay: timedelta | float) -> None:
    """P4: a task comes after its delay and not before, once, whichever way it is written."""
    bench.scheduler.schedule_after(delay, bench.note("a"))
    bench.advance(4.999999)
    assert bench.calls == []
    bench.advance(0.000001, 100)
    assert bench.calls == [("a", 5)]


def test_an_instant_of_the_schedulers_own_clock(bench: Bench) -> None:
    """A number is an instant of now(), in seconds."""
    bench.scheduler.schedule(bench.scheduler.now() + 2, bench.note("a"))
    bench.advance(1, 1, 1)
    assert bench.calls == [("a", 2)]


def test_an_aware_datetime(bench: Bench) -> None:
    """A datetime means its instant, in whatever zone it is given."""
    zone = timezone(timedelta(hours=5, minutes=45))
    when = (bench.clock.now() + timedelta(seconds=3)).astimezone(zone)
    bench.scheduler.schedule(when, bench.note("a"))
    bench.advance(2.999, 0.001, 1)
    assert bench.calls == [("a", 2.999 + 0.001)]


@pytest.mark.parametrize(
    "schedule",
    [
        lambda s, f: s.schedule_after(-1, f),
        lambda s, f: s.schedule_after(timedelta(days=-9), f),
        lambda s, f: s.schedule(s.now() - 1, f),
        lambda s, f: s.schedule(-5, f),
        lambda s, f: s.schedule(datetime(1970, 1, 1, tzinfo=UTC), f),
        lambda s, f: s.schedule(datetime(1, 1, 1, tzinfo=UTC), f),
    ],
)
def test_what_has_passed_is_due_at_once(
    bench: Bench, schedule: Callable[[Scheduler, Callable[[], None]], Task]
) -> None:
    """A time in the past is no error and no wait."""
    schedule(bench.scheduler, bench.note("a"))
    bench.settle()
    assert bench.calls == [("a", 0)]


def test_arguments_are_handed_over(bench: Bench) -> None:
    """Positional arguments go to the callable; what it returns can be read."""
    task = bench.scheduler.schedule_after(1, divmod, 17, 5)
    named = bench.scheduler.schedule_after(1, partial(int, "ff", base=16))
    bench.advance(1)
    assert task.last_result == (3, 2)
    assert named.last_result == 255


# --- in which order -----------------------------------------------------------------------------


def test_ties_run_in_the_order_they_were_scheduled(bench: Bench) -> None:
    """Tasks of one due instant and priority start in the order of the calls, all of them."""
    due = bench.scheduler.now() + 1
    for n in range(200):
        bench.scheduler.schedule(due, bench.note(str(n)))
    bench.advance(1)
    assert [name for name, _ in bench.calls] == [str(n) for n in range(200)]


def test_higher_priority_goes_first_at_one_instant(bench: Bench) -> None:
    """Of one due instant the more urgent start first; an earlier instant beats any priority."""
    due = bench.scheduler.now() + 2
    bench.scheduler.schedule(due, bench.note("plain"))
    bench.scheduler.schedule(due, bench.note("patient"), priority=-1)
    bench.scheduler.schedule(due, bench.note("urgent"), priority=7)
    bench.scheduler.schedule(due - 1, bench.note("earlier"), priority=-7)
    bench.advance(1, 1)
    assert bench.calls == [("earlier", 1), ("urgent", 2), ("plain", 2), ("patient", 2)]


def test_higher_priority_goes_first_where_workers_are_short(bench: Bench) -> None:
    """A free worker takes the most urgent of all that wait, not the one that waits longest."""
    gate = bench.gate()
    bench.scheduler.schedule_after(0, gate)
    gate.await_entry()
    for name, priority in [("a", 0), ("b", 3), ("c", 0), ("d", 9)]:
        bench.scheduler.schedule_after(0, bench.note(name), priority=priority)
    gate.open()
    bench.settle()
    assert [name for name, _ in bench.calls] == ["d", "b", "a", "c"]


# --- threads ------------------------------------------------------------------------------------


def test_a_scheduler_that_is_not_used_has_no_thread() -> None:
    """Making one costs no thread; the workers come as they are needed."""
    before = threading.active_count()
    with Bench(workers=8) as bench:
        assert threading.active_count() == before
        bench.scheduler.schedule_after(10, nothing)
        assert threading.active_count() == before + 1
        for workers in (1, 2, 3):
            gate = bench.gate()
            bench.scheduler.schedule_after(0, gate)
            gate.await_entry()
            assert threading.active_count() == before + 1 + workers
    assert threading.active_count() == before


def test_there_are_never_more_workers_than_asked_for() -> None:
    """The limit holds for a burst; the rest waits and runs."""
    running, most, lock = 0, 0, threading.Lock()
    both = threading.Barrier(2)

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait(PATIENCE)
        with lock:
            running -= 1

    with Bench(workers=2) as bench:
        tasks = [bench.scheduler.schedule_after(0, work) for _ in range(50)]
        assert all(task.wait(PATIENCE) for task in tasks)
    assert most == 2


def test_the_dispatcher_calls_no_task() -> None:
    """P4: a task that hangs delays no other; each runs in a worker, none in the dispatcher."""
    names: list[str] = []
    with Bench(workers=3) as bench:
        for gate in [bench.gate(), bench.gate()]:
            bench.scheduler.schedule_after(1, gate)
        bench.scheduler.schedule_after(2, lambda: names.append(threading.current_thread().name))
        bench.advance(1)
        bench.advance(1)
    assert len(names) == 1
    assert "worker" in names[0]


def test_without_a_thread_to_be_had_the_run_fails_and_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: where no worker can be started the run is a failed one; later ones run."""
    start = threading.Thread.start

    def refuse_workers(thread: threading.Thread) -> None:
        if "worker" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse_workers)
        task = bench.scheduler.schedule_after(0, bench.note("a"), name="unlucky")
        assert task.wait(PATIENCE)
    assert isinstance(task.last_error, RuntimeError)
    assert (task.runs, task.failures) == (1, 1)
    assert "task 'unlucky' could not be run" in caplog.text
    bench.scheduler.schedule_after(0, bench.note("b"))
    bench.settle()
    assert bench.calls == [("b", 0)]


def test_a_thread_less_is_borne(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: where no further worker can be started, those there are run everything."""
    start = threading.Thread.start

    def one_worker(thread: threading.Thread) -> None:
        if thread.name.endswith("worker-2"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", one_worker)
    with Bench(workers=4) as bench:
        gate = bench.gate()
        bench.scheduler.schedule_after(0, gate)
        gate.await_entry()
        task = bench.scheduler.schedule_after(0, bench.note("a"))
        bench.await_state(task, TaskState.QUEUED)
        gate.open()
        assert task.wait(PATIENCE)
        assert bench.calls == [("a", 0)]
    assert "1 workers must do" in caplog.text


# --- faults of a task ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ValueError("broken"), SystemExit("broken"), KeyboardInterrupt("broken")], ids=repr
)
def test_a_task_that_raises_is_logged_and_harms_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """Whatever is raised is logged with its traceback and kept; the only worker works on."""

    def fail() -> None:
        raise error

    with caplog.at_level(logging.ERROR):
        task = bench.scheduler.schedule_after(0, fail, name="fragile")
        other = bench.scheduler.schedule_after(0, bench.note("other"))
        assert other.wait(PATIENCE)
    assert task.last_error is error
    assert task.state is TaskState.FINISHED
    assert (task.runs, task.failures) == (1, 1)
    assert bench.calls == [("other", 0)]
    [record] = caplog.records
    assert record.name == "pycron.scheduler"
    assert "task 'fragile' failed" in record.getMessage()
    assert "Traceback" in caplog.text
    assert "raise error" in caplog.text
    assert "broken" in caplog.text


def test_a_log_handler_may_use_the_scheduler(bench: Bench) -> None:
    """A handler that schedules, as one that sends mail would, does not deadlock."""

    class Mailer(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            bench.scheduler.schedule_after(0, bench.note("mail"))

    def fail() -> None:
        raise ValueError

    logger = logging.getLogger("pycron.scheduler")
    handler = Mailer(logging.INFO)
    logger.addHandler(handler)
    previous, logger.level = logger.level, logging.INFO
    try:
        bench.scheduler.schedule_after(0, fail)
        bench.advance(0)
        gate = bench.gate()
        task = bench.scheduler.schedule_every(1, gate, first=0)
        gate.await_entry()
        bench.clock.advance(timedelta(seconds=1))
        bench.await_that(task, lambda: task.skipped == 1)  # which is logged under the lock
        gate.open()
        bench.settle()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(previous)
    assert len(bench.calls) == 2


# --- from inside a task -------------------------------------------------------------------------


def test_a_task_may_schedule(bench: Bench) -> None:
    """What a task schedules for now runs, and so on."""

    def chain(left: int) -> None:
        bench.calls.append((str(left), bench.second()))
        if left:
            bench.scheduler.schedule_after(0, chain, left - 1)

    bench.scheduler.schedule_after(1, chain, 3)
    bench.advance(1, 0, 0, 0)
    assert [name for name, _ in bench.calls] == ["3", "2", "1", "0"]


def test_a_task_may_cancel_another(bench: Bench) -> None:
    """The first of two that are due together cancels the second, which then never runs."""
    answers: list[bool] = []
    bench.scheduler.schedule_after(
        1, lambda: answers.extend([victim.cancel(), bench.scheduler.cancel(victim)])
    )
    victim = bench.scheduler.schedule_after(1, bench.note("victim"))
    bench.advance(1, 10)
    assert answers == [True, False]
    assert bench.calls == []
    assert victim.state is TaskState.CANCELLED


@pytest.mark.parametrize("mode", ["fixed-rate", "fixed-delay"])
def test_a_repeating_task_that_cancels_itself_never_runs_again(bench: Bench, mode: Any) -> None:
    """Cancelled from inside its own run, it is over with that run."""
    answers: list[bool] = []

    def third_time() -> None:
        bench.note("a")()
        if len(bench.calls) == 3:
            answers.append(task.cancel())

    task = bench.scheduler.schedule_every(1, third_time, mode=mode)
    bench.advance(1, 1, 1, 1, 1, 60)
    assert bench.called_at("a") == [1, 2, 3]
    assert answers == [True]
    assert task.state is TaskState.CANCELLED
    assert task.wait(0)


# --- cancel -------------------------------------------------------------------------------------


def test_cancel_before_it_is_due(bench: Bench) -> None:
    """Cancel says that there was something to cancel, the first time; the task never runs."""
    task = bench.scheduler.schedule_after(1, bench.note("a"))
    assert task.state is TaskState.SCHEDULED
    assert bench.scheduler.cancel(task) is True
    assert bench.scheduler.cancel(task) is False
    assert task.state is TaskState.CANCELLED
    assert task.next_due is None
    bench.advance(10)
    assert bench.calls == []


def test_cancel_of_a_run_that_waits_for_a_worker(bench: Bench) -> None:
    """A run that is due and not begun counts as something cancelled, and does not begin."""
    gate = bench.gate()
    bench.scheduler.schedule_after(0, gate)
    gate.await_entry()
    task = bench.scheduler.schedule_after(0, bench.note("a"))
    bench.await_state(task, TaskState.QUEUED)
    assert task.cancel() is True
    assert task.wait(0)
    gate.open()
    bench.settle()
    assert bench.calls == []


def test_cancel_of_a_run_that_a_worker_has_just_taken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the call begins a cancel holds, whichever thread has the run in hand."""
    lifecycle = bench.scheduler._lifecycle
    taken, go_on = threading.Event(), threading.Event()

    def work(run: Run) -> None:
        taken.set()
        assert go_on.wait(PATIENCE)
        lifecycle._work(run)

    monkeypatch.setattr(lifecycle._workers, "_work", work)
    task = bench.scheduler.schedule_after(0, bench.note("a"))
    assert taken.wait(PATIENCE)
    assert task.cancel() is True
    go_on.set()
    bench.settle()
    assert bench.calls == []
    assert (task.state, task.runs) == (TaskState.CANCELLED, 0)


def test_cancel_of_what_is_being_delivered(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken off the heap and not yet looked at, a task or a retry can still be cancelled."""
    lifecycle = bench.scheduler._lifecycle
    popped, go_on = threading.Event(), threading.Event()

    def deliver(items: list[object], popped_ns: int) -> None:
        popped.set()
        assert go_on.wait(PATIENCE)
        lifecycle._deliver(items, popped_ns)

    def fail() -> None:
        bench.note("failed")()
        raise ValueError

    due = bench.scheduler.schedule_after(1, bench.note("due"))
    every = bench.scheduler.schedule_every(1, bench.note("every"))
    retry = Retry(attempts=2, delay=timedelta(seconds=1))
    failing = bench.scheduler.schedule_after(0, fail, retry=retry)
    bench.await_state(failing, TaskState.WAITING_RETRY)
    monkeypatch.setattr(lifecycle._dispatcher, "_deliver", deliver)
    bench.clock.advance(timedelta(seconds=1))
    assert popped.wait(PATIENCE)
    assert [task.cancel() for task in (due, every, failing)] == [True, True, True]
    assert [task.wait(0) for task in (due, every, failing)] == [True, True, True]
    go_on.set()
    bench.advance(0, 10)
    assert bench.calls == [("failed", 0)]


def test_cancel_of_what_runs_or_has_run(bench: Bench) -> None:
    """A call that has begun cannot be taken back: False, and it ends as it would have."""
    gate = bench.gate()
    task = bench.scheduler.schedule_after(0, gate)
    gate.await_entry()
    assert task.state is TaskState.RUNNING
    assert task.cancel() is False
    gate.open()
    assert task.wait(PATIENCE)
    assert task.state is TaskState.FINISHED
    assert task.cancel() is False


def test_cancel_of_a_strangers_task_is_refused(bench: Bench) -> None:
    """A mix-up of schedulers or objects is an error, not a False."""
    with Bench() as other:
        task = other.scheduler.schedule_after(1, nothing)
        with pytest.raises(ValueError, match="another scheduler"):
            bench.scheduler.cancel(task)
    with pytest.raises(TypeError, match="not a task"):
        bench.scheduler.cancel("a")  # type: ignore[arg-type]  # what is tested


def test_ten_thousand_cancelled_tasks_leave_nothing(bench: Bench) -> None:
    """The heap is small again and the callables are free."""

    class Job:
        def __call__(self) -> None:
            pass

    job = Job()
    alive = weakref.ref(job)
    tasks = [bench.scheduler.schedule_after(3_600 + n % 77, job) for n in range(10_000)]
    assert all(bench.scheduler.cancel(task) for task in tasks)
    lifecycle = bench.scheduler._lifecycle
    assert lifecycle._dispatcher.heap_size <= 64
    assert not lifecycle._records
    del tasks, job
    gc.collect()
    assert alive() is None


def test_a_task_that_is_over_is_free(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler keeps nothing of a task that has run, nor does the task's own error."""
    # pytest keeps what is logged, with its traceback.
    monkeypatch.setattr(logging.getLogger("pycron.scheduler"), "disabled", True)

    class Job:
        def __call__(self) -> None:
            raise ValueError("over")

    job = Job()
    alive = weakref.ref(job)
    task = bench.scheduler.schedule_after(0, job)
    assert task.wait(PATIENCE)
    bench.settle()
    error = task.last_error
    assert isinstance(error, ValueError)
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_frame.f_code is Job.__call__.__code__
    error.__traceback__ = None  # that frame holds the job
    del task, job
    gc.disable()
    try:
        bench.settle()
        assert alive() is None
    finally:
        gc.enable()


# --- the handle ---------------------------------------------------------------------------------


def test_a_task_tells_where_it_stands(bench: Bench) -> None:
    """Name, priority, next due instant, counts and last result can be read at any time."""
    start = bench.clock.now()
    task = bench.scheduler.schedule_every(60, lambda: 7, name="seven", priority=2)
    assert (task.name, task.priority, task.runs) == ("seven", 2, 0)
    assert task.next_due == start + timedelta(seconds=60)
    assert task.next_due.tzinfo is UTC
    bench.advance(60)
    assert (task.runs, task.failures, task.skipped) == (1, 0, 0)
    assert task.last_result == 7
    assert task.last_error is None
    assert task.next_due == start + timedelta(seconds=120)
    assert repr(task) == "<Task 'seven' scheduled>"


def test_a_task_is_named_after_its_callable(bench: Bench) -> None:
    """Without a name the callable's own serves, or its type's; arguments are not shown."""

    class Job:
        def __call__(self) -> None:
            pass

    secret = partial(partial(int, "secret"), base=16)
    names = [bench.scheduler.schedule_after(9, func).name for func in (nothing, secret, Job())]
    assert names == ["nothing", "int", Job.__qualname__]


def test_waiting_for_a_run_or_for_the_end(bench: Bench) -> None:
    """Waiting ends when so many runs have ended or the task is over, and says if they have not."""
    task = bench.scheduler.schedule_every(1, nothing)
    assert task.wait(0, runs=1) is False
    bench.advance(1)
    assert task.wait(0, runs=1) is True
    assert task.wait(0) is False
    waited: list[bool] = []
    waiter = threading.Thread(target=lambda: waited.append(task.wait(PATIENCE, runs=2)))
    waiter.start()
    bench.advance(1)
    waiter.join()
    task.cancel()
    assert waited == [True]
    assert task.wait(0) is True
    assert task.wait(PATIENCE, runs=3) is False


# --- bad arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda s: s.schedule_after(1, "f"), TypeError, "must be callable"),
        (lambda s: s.schedule_after(1, None), TypeError, "must be callable"),
        (lambda s: s.schedule_every(1, nothing()), TypeError, "must be callable"),
        (lambda s: s.schedule_after("1", nothing), TypeError, "delay must be a timedelta"),
        (lambda s: s.schedule_after(None, nothing), TypeError, "delay must be a timedelta"),
        (lambda s: s.schedule_after(True, nothing), TypeError, "delay must be a timedelta"),
        (lambda s: s.schedule_after(float("nan"), nothing), ValueError, "finite"),
        (lambda s: s.schedule_after(float("inf"), nothing), ValueError, "finite"),
        (lambda s: s.schedule_after(1e18, nothing), ValueError, "nanoseconds"),
        (lambda s: s.schedule_after(timedelta.max, nothing), ValueError, "292 years"),
        (lambda s: s.schedule(86_400 * 10**9, nothing), ValueError, "nanoseconds"),
        (lambda s: s.schedule("tomorrow", nothing), TypeError, "when must be"),
        (
            lambda s: s.schedule(datetime(2026, 1, 1), nothing),  # noqa: DTZ001 - what is tested
            ValueError,
            "no time zone",
        ),
        (
            lambda s: s.schedule(
                datetime.max.replace(tzinfo=timezone(timedelta(hours=-9))), nothing
            ),
            ValueError,
            "beyond the calendar",
        ),
        (lambda s: s.schedule_every(0, nothing), ValueError, "longer than nothing"),
        (lambda s: s.schedule_every(-1, nothing), ValueError, "longer than nothing"),
        (lambda s: s.schedule_every(1e-10, nothing), ValueError, "longer than nothing"),
        (lambda s: s.schedule_every(timedelta(0), nothing), ValueError, "longer than nothing"),
        (lambda s: s.schedule_every(float("nan"), nothing), ValueError, "finite"),
        (lambda s: s.schedule_every("1s", nothing), TypeError, "period must be"),
        (lambda s: s.schedule_every(1, nothing, mode="hourly"), ValueError, "'fixed-rate'"),
        (lambda s: s.schedule_every(1, nothing, first="now"), TypeError, "first must be"),
        (lambda s: s.schedule_every(1, nothing, overlap="replace"), ValueError, "'queue'"),
        (lambda s: s.schedule_every(1, nothing, overlap=None), ValueError, "'queue'"),
        (lambda s: s.schedule_every(1, nothing, missed="never"), ValueError, "'once'"),
        (lambda s: s.schedule_every(1, nothing, queue_limit=-1), ValueError, "at least 0"),
        (lambda s: s.schedule_every(1, nothing, queue_limit=1.5), TypeError, "whole number"),
        (lambda s: s.schedule_after(1, nothing, overlap="skip"), TypeError, "no option 'overlap'"),
        (lambda s: s.schedule_after(1, nothing, prio=1), TypeError, "name, priority, retry"),
        (lambda s: s.schedule_after(1, nothing, priority="high"), TypeError, "whole number"),
        (lambda s: s.schedule_after(1, nothing, priority=True), TypeError, "whole number"),
        (lambda s: s.schedule_after(1, nothing, name=3), TypeError, "name must be a string"),
        (lambda s: s.schedule_after(1, nothing, retry=3), TypeError, "must be a Retry"),
        (lambda s: s.schedule_after(1, nothing, retry=Retry(0)), ValueError, "at least 1"),
        (lambda s: s.schedule_after(1, nothing, retry=Retry(2.5)), TypeError, "whole number"),
        (
            lambda s: s.schedule_after(1, nothing, retry=Retry(2, timedelta(-1))),
            ValueError,
            "negative",
        ),
        (lambda s: s.schedule_after(1, nothing, retry=Retry(2, 5)), TypeError, "a timedelta"),
        (
            lambda s: s.schedule_after(1, nothing, retry=Retry(2, backoff=float("nan"))),
            ValueError,
            "positive number",
        ),
        (lambda s: s.schedule_after(1, nothing, retry=Retry(2, backoff="2")), TypeError, "backoff"),
    ],
)
def test_bad_arguments_are_refused_at_once(
    bench: Bench, call: Bad, error: type[Exception], words: str
) -> None:
    """A request that makes no sense is an error of the call, in words, and enters nothing."""
    with pytest.raises(error, match=words):
        call(bench.scheduler)
    assert not bench.scheduler._lifecycle._records


def test_a_coroutine_function_is_refused(bench: Bench) -> None:
    """Calling one runs nothing, so it is no task."""

    async def never_run() -> None:
        pass

    with pytest.raises(TypeError, match="coroutine function"):
        bench.scheduler.schedule_after(1, never_run)


@pytest.mark.parametrize(
    ("workers", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_a_scheduler_needs_a_worker(workers: Any, error: type[Exception]) -> None:
    """A number of workers with which nothing could ever run is refused."""
    with pytest.raises(error, match="workers"):
        Scheduler(workers)


def test_a_bad_time_is_an_error_of_the_projects_tree(bench: Bench) -> None:
    """What cannot be read is a ScheduleError: both a PycronError and a ValueError."""
    with pytest.raises(ScheduleError) as caught:
        bench.scheduler.schedule(datetime(2026, 1, 1), nothing)  # noqa: DTZ001 - what is tested
    assert caught.value.field == "timezone"
    assert isinstance(caught.value, PycronError)


# --- the package --------------------------------------------------------------------------------


def test_the_public_names_are_there() -> None:
    """Everything that the package says it has can be had from it."""
    assert crond_py.Scheduler is Scheduler
    assert crond_py.Retry is Retry
    for name in crond_py.__all__:
        assert getattr(crond_py, name) is not None
        assert name in dir(crond_py)
    with pytest.raises(AttributeError, match="no attribute 'Sheduler'"):
        crond_py.Sheduler  # noqa: B018 - what is tested


def test_one_scheduler_on_the_system_clock() -> None:
    """P4: on the real clock nothing is early, and everything comes."""
    with Scheduler(workers=2) as scheduler:
        lateness: list[float] = []
        due = scheduler.now() + 0.002
        task = scheduler.schedule(due, lambda: lateness.append(scheduler.now() - due))
        assert task.wait(PATIENCE)
        every = scheduler.schedule_every(0.001, nothing, first=0)
        assert every.wait(PATIENCE, runs=5)
    assert lateness[0] >= 0


def test_a_clock_of_ones_own_is_used() -> None:
    """Scheduler takes any Clock by position or name; the system's clock is then not looked at."""
    clock = FakeClock()
    with Scheduler(1, clock) as scheduler:
        assert scheduler.now() == 86_400
        clock.advance(timedelta(seconds=1))
        assert scheduler.now() == 86_401
