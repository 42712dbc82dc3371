"""Threads that the daemon does not outlive."""

from __future__ import annotations

import logging
import sys
import threading

import pytest

from crond_py.vital import VitalThread, ending_by


@pytest.mark.parametrize("fault", [MemoryError("planted"), SystemExit(0)])
def test_a_fault_ends_the_process(fault: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """P8: what cannot go on says so and ends, for another to take its place."""
    ended = []

    def fail() -> None:
        raise fault

    with ending_by(lambda: ended.append(threading.current_thread().name)):
        thread = VitalThread(target=fail, name="pycron-test")
        thread.start()
        thread.join()
    assert ended == ["pycron-test"]
    (told,) = caplog.records
    assert told.levelno == logging.CRITICAL
    assert told.exc_info is not None
    assert told.exc_info[1] is fault


def test_a_thread_that_returns_ends_alone() -> None:
    """As at the end of the daemon."""
    ended: list[bool] = []
    with ending_by(lambda: ended.append(True)):
        thread = VitalThread(target=lambda: None)
        thread.start()
        thread.join()
    assert ended == []


def test_in_a_program_of_others_it_is_a_thread_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who uses the library keeps the process."""
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    thread = VitalThread(target=lambda: sys.intern(0))  # type: ignore[arg-type]
    thread.start()
    thread.join()
    assert [args.exc_type for args in told] == [TypeError]
