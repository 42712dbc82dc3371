"""Threads whose start fails where they do not begin."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from crond_py import threads
from crond_py.threads import Thread
from crond_py.vital import VitalThread


@pytest.mark.parametrize("kind", [Thread, VitalThread])
def test_one_that_begins_does_its_work(kind: type[Thread]) -> None:
    """With its arguments and its name, as any other."""
    done: list[object] = []
    thread = kind(target=lambda *given: done.extend(given), args=(1, 2), name="worker", daemon=True)
    thread.start()
    thread.join()
    assert (done, thread.name, thread.daemon) == ([1, 2], "worker", True)
    with pytest.raises(RuntimeError, match="only be started once"):
        thread.start()


@pytest.mark.parametrize("kind", [Thread, VitalThread])
def test_one_that_dies_before_it_begins_is_no_start(
    kind: type[Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: as where there is no memory for it; whoever starts it does not wait for ever."""
    monkeypatch.setattr(threads, "PATIENCE_S", 0.01)
    thread = kind(target=lambda: None, name="stillborn")
    monkeypatch.setattr(thread, "_bootstrap", lambda: None)
    with pytest.raises(RuntimeError, match="does not begin"):
        thread.start()
    assert thread not in threading.enumerate(), "and nothing keeps it"


def test_one_that_begins_too_late_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its work may have been given to another by then."""
    monkeypatch.setattr(threads, "PATIENCE_S", 0.01)
    begun, gate, over = list[bool](), threading.Event(), threading.Event()
    thread = Thread(target=lambda: begun.append(True), name="late", daemon=True)
    bootstrap: Callable[[], None] = thread._bootstrap  # type: ignore[attr-defined]

    def begin_late() -> None:
        gate.wait()
        bootstrap()
        over.set()

    monkeypatch.setattr(thread, "_bootstrap", begin_late)
    with pytest.raises(RuntimeError, match="does not begin"):
        thread.start()
    gate.set()
    over.wait()
    assert begun == []
