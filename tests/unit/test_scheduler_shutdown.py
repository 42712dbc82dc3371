"""How a scheduler ends: what is waited for, what is dropped, and nobody waits for himself."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from crond_py.errors import SchedulerShutdownError
from crond_py.model import Overlap, Retry
from crond_py.scheduler import Scheduler, Task, TaskState
from tests.support.scheduling import PATIENCE, Bench


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """See that no thread is left behind."""
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def nothing() -> None:
    """Do nothing."""


# --- what becomes of tasks ----------------------------------------------------------------------


def test_a_scheduler_that_is_shut_down_takes_no_tasks() -> None:
    """Every way to schedule is refused, with the error made for it."""
    bench = Bench()
    scheduler = bench.scheduler
    scheduler.shutdown()
    for schedule in (
        lambda: scheduler.schedule(0, nothing),
        lambda: scheduler.schedule(datetime(2030, 1, 1, tzinfo=UTC), nothing),
        lambda: scheduler.schedule_after(1, nothing),
        lambda: scheduler.schedule_every(1, nothing),
        lambda: scheduler.schedule_cron("* * * * *", nothing),
    ):
        with pytest.raises(SchedulerShutdownError, match="shut down"):
            schedule()


def test_running_tasks_are_waited_for_and_the_rest_is_dropped() -> None:
    """Shutdown returns when what runs has ended; nothing else begins, queued or due later."""
    bench = Bench()
    gate = bench.gate()
    running = bench.scheduler.schedule_after(0, gate)
    gate.await_entry()
    queued = bench.scheduler.schedule_after(0, bench.note("queued"))
    later = bench.scheduler.schedule_after(5, bench.note("later"))
    every = bench.scheduler.schedule_every(5, bench.note("every"))
    bench.await_state(queued, TaskState.QUEUED)
    ended: list[TaskState] = []

    def shut_down() -> None:
        bench.scheduler.shutdown()
        ended.append(running.state)

    thread = threading.Thread(target=shut_down)
    thread.start()
    assert later.wait(PATIENCE)
    assert ended == []
    gate.open()
    thread.join()
    assert ended == [TaskState.FINISHED]
    bench.clock.advance(timedelta(hours=1))
    assert [task.state for task in (queued, later, every)] == [TaskState.CANCELLED] * 3
    assert bench.calls == []


def test_on_request_one_off_tasks_still_run() -> None:
    """With cancel_pending=False what is due once is run when due, and what repeats has no beat."""
    bench = Bench()
    attempts: list[int] = []

    def flaky() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError

    once = bench.scheduler.schedule_after(5, bench.note("once"))
    retried = bench.scheduler.schedule_after(
        5, flaky, retry=Retry(attempts=2, delay=timedelta(seconds=5))
    )
    every = bench.scheduler.schedule_every(1, bench.note("every"))
    bench.settle()
    bench.scheduler.shutdown(wait=False, cancel_pending=False)
    assert every.state is TaskState.FINISHED
    with pytest.raises(SchedulerShutdownError):
        bench.scheduler.schedule_after(0, nothing)
    bench.clock.advance(timedelta(seconds=5))
    assert once.wait(PATIENCE)
    bench.await_state(retried, TaskState.WAITING_RETRY)
    bench.clock.advance(timedelta(seconds=5))
    bench.scheduler.shutdown(cancel_pending=False)
    assert bench.calls == [("once", 5)]
    assert (retried.state, len(attempts)) == (TaskState.FINISHED, 2)


def test_a_second_shutdown_may_drop_what_the_first_waited_for() -> None:
    """Whoever loses patience with a soft shutdown can do a hard one."""
    bench = Bench()
    task = bench.scheduler.schedule_after(5, bench.note("a"))
    bench.scheduler.shutdown(wait=False, cancel_pending=False)
    assert task.state is TaskState.SCHEDULED
    bench.scheduler.shutdown()
    assert task.state is TaskState.CANCELLED
    assert bench.calls == []


def test_without_wait_it_returns_at_once() -> None:
    """The running task ends by itself, and the threads after it; a later call can wait for it."""
    bench = Bench()
    gate = bench.gate()
    task = bench.scheduler.schedule_after(0, gate)
    gate.await_entry()
    bench.scheduler.shutdown(wait=False)
    assert task.state is TaskState.RUNNING
    gate.open()
    bench.scheduler.shutdown()
    assert task.state is TaskState.FINISHED


def test_a_with_block_shuts_down() -> None:
    """Leaving the block, also by an exception, is a shutdown."""
    scheduler = Bench().scheduler
    task = scheduler.schedule_after(1, nothing)
    with pytest.raises(ZeroDivisionError), scheduler:
        raise ZeroDivisionError
    assert task.state is TaskState.CANCELLED
    with pytest.raises(SchedulerShutdownError):
        scheduler.schedule_after(1, nothing)


def test_shutdown_without_use_and_twice() -> None:
    """It is legal at any time and any number of times."""
    scheduler = Bench().scheduler
    scheduler.shutdown()
    scheduler.shutdown()
    scheduler.shutdown(wait=False)


# --- from inside --------------------------------------------------------------------------------


def test_shutdown_from_inside_a_task_does_not_wait_for_itself() -> None:
    """Also two tasks that both do it do not wait for each other."""
    bench = Bench(workers=2)
    both = threading.Barrier(2)

    def shut_down() -> None:
        both.wait(PATIENCE)
        bench.scheduler.shutdown(wait=True)

    tasks = [bench.scheduler.schedule_after(0, shut_down) for _ in range(2)]
    for task in tasks:
        assert task.wait(PATIENCE)
        assert task.last_error is None
    bench.scheduler.shutdown()


def test_a_task_that_schedules_after_the_shutdown_fails_alone() -> None:
    """The refusal is that task's own error."""
    bench = Bench()
    gate = bench.gate()

    def late() -> None:
        gate()
        bench.scheduler.schedule_after(0, nothing)

    task = bench.scheduler.schedule_after(0, late)
    gate.await_entry()
    bench.scheduler.shutdown(wait=False)
    gate.open()
    bench.scheduler.shutdown()
    assert isinstance(task.last_error, SchedulerShutdownError)


def test_who_waits_for_a_task_is_told_of_the_shutdown() -> None:
    """A waiter does not wait for a run that was dropped."""
    bench = Bench()
    task = bench.scheduler.schedule_after(60, nothing)
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(task.wait(PATIENCE, runs=1)))
    waiter.start()
    bench.scheduler.shutdown()
    waiter.join()
    assert answers == [False]


# --- many threads -------------------------------------------------------------------------------


def test_many_threads_schedule_cancel_and_shut_down() -> None:
    """Whatever the order: no deadlock, no run after a cancel that said True, no run twice."""
    for seed in range(5):
        stress(seed)


def stress(seed: int) -> None:
    """Use one scheduler on the real clock from eight threads, and shut it down in between."""
    scheduler = Scheduler(workers=3)
    lock = threading.Lock()
    calls: dict[int, int] = {}
    kept: list[tuple[int, Task]] = []
    withdrawn: list[int] = []

    def work(number: int) -> None:
        with lock:
            calls[number] = calls.get(number, 0) + 1

    def use(thread: int) -> None:
        rng = random.Random(f"{seed}/{thread}")
        for n in range(150):
            number = thread * 1_000 + n
            overlap = Overlap.SKIP if n % 2 else Overlap.QUEUE
            try:
                if n % 10 == 0:
                    scheduler.schedule_every(0.001, nothing, overlap=overlap)
                task = scheduler.schedule_after(rng.uniform(-0.001, 0.003), work, number)
            except SchedulerShutdownError:
                return
            if rng.random() < 0.4 and scheduler.cancel(task):
                withdrawn.append(number)
            else:
                kept.append((number, task))
            if thread == 0 and n == 140:
                scheduler.shutdown(wait=rng.random() < 0.5, cancel_pending=False)

    users = [threading.Thread(target=use, args=(thread,)) for thread in range(8)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    scheduler.shutdown(cancel_pending=False)
    assert not set(withdrawn) & set(calls)
    assert all(count == 1 for count in calls.values())
    assert {number for number, task in kept} == set(calls)
    assert all(task.state is TaskState.FINISHED for _, task in kept)


# --- the interpreter ends -----------------------------------------------------------------------


def run_program(text: str) -> subprocess.CompletedProcess[str]:
    """Run a program that leaves its scheduler alone; it must end by itself."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_interpreter_does_not_hang_on_what_is_to_come() -> None:
    """A program that forgets to shut down ends all the same, in peace."""
    done = run_program("""
        from crond_py import Scheduler
        scheduler = Scheduler()
        scheduler.schedule_every(0.001, int, first=0).wait(runs=3)
        scheduler.schedule_after(3600, print, "never")
        scheduler.schedule_cron("* * * * *", print, "never")
        print("end of main")
    """)
    assert (done.stdout, done.stderr, done.returncode) == ("end of main\n", "", 0)


def test_the_interpreter_waits_for_what_is_running() -> None:
    """A run that has begun ends before the interpreter does, with all that it prints."""
    done = run_program("""
        import threading
        from crond_py import Scheduler
        begun, main_ended = threading.Event(), threading.Event()

        def work():
            begun.set()
            threading.main_thread().join()
            print("after main")

        scheduler = Scheduler()
        scheduler.schedule_after(0, work)
        begun.wait()
        print("end of main")
    """)
    assert (done.stdout, done.stderr, done.returncode) == ("end of main\nafter main\n", "", 0)


def test_importing_the_package_is_cheap() -> None:
    """The command line and the daemon do not pay for the Python API, nor for a cron library."""
    done = run_program("""
        import sys
        import crond_py
        heavy = {"crond_py.scheduler", "crond_py.schedule", "croniter", "logging"}
        print(sorted(heavy & set(sys.modules)))
        crond_py.Scheduler
        print("croniter" in sys.modules, "crond_py.scheduler" in sys.modules)
    """)
    assert done.stdout == "[]\nFalse True\n", done.stderr
