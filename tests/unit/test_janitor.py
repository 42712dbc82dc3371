"""The thread for what may take long: in order, outliving faults, and no hindrance to an end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from crond_py.janitor import Janitor

PATIENCE_S = 60.0
AT_ONCE = timedelta(0)


@pytest.fixture
def janitor() -> Iterator[Janitor]:
    """Give a janitor, and close it."""
    janitor = Janitor()
    yield janitor
    janitor.close(timedelta(seconds=PATIENCE_S))


def test_one_after_the_other(janitor: Janitor) -> None:
    """What is handed in is done in its order, in a thread of its own."""
    done: list[tuple[int, int]] = []
    is_over = threading.Event()
    for number in range(20):
        janitor.submit(lambda number=number: done.append((number, threading.get_ident())))
    janitor.submit(is_over.set)
    assert is_over.wait(PATIENCE_S)
    assert [number for number, _ in done] == list(range(20))
    assert len({thread for _, thread in done} - {threading.get_ident()}) == 1


def test_a_fault_is_logged_and_outlived(janitor: Janitor, caplog: pytest.LogCaptureFixture) -> None:
    """P8: what goes wrong with one thing is said, and the next is done."""
    is_over = threading.Event()

    def fail() -> None:
        raise OSError(5, "Input/output error")

    janitor.submit(fail)
    janitor.submit(is_over.set)
    assert is_over.wait(PATIENCE_S)
    assert "something was not cleared away" in caplog.text
    assert "Input/output error" in caplog.text


def test_without_a_thread_it_waits(janitor: Janitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: where no thread is to be had nothing fails, and it is done with what comes next."""
    done: list[str] = []
    is_over = threading.Event()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        janitor.submit(lambda: done.append("first"))
    assert done == []
    janitor.submit(is_over.set)
    assert is_over.wait(PATIENCE_S)
    assert done == ["first"]


def test_what_hangs_is_not_waited_for() -> None:
    """P8: an end waits as long as it wants to, and nothing is begun after it."""
    janitor = Janitor()
    hangs, gate, began = threading.Event(), threading.Event(), []

    def hang() -> None:
        hangs.set()
        gate.wait(PATIENCE_S)

    janitor.submit(hang)
    janitor.submit(lambda: began.append("next"))
    assert hangs.wait(PATIENCE_S)
    janitor.close(AT_ONCE)
    janitor.submit(lambda: began.append("after"))
    gate.set()
    janitor.close(timedelta(seconds=PATIENCE_S))
    assert began == []


def test_what_was_handed_in_is_done_before_the_end(janitor: Janitor) -> None:
    """An end waits until all is done that was handed in, where that goes quickly."""
    gate, done = threading.Event(), []
    janitor.submit(lambda: done.append(gate.wait(PATIENCE_S)))
    janitor.submit(lambda: done.append(True))
    gate.set()
    janitor.close(timedelta(seconds=PATIENCE_S))
    assert done == [True, True]


def test_closed_unused() -> None:
    """One that had nothing to do ends at once, also twice."""
    janitor = Janitor()
    janitor.close(timedelta(seconds=PATIENCE_S))
    janitor.close(AT_ONCE)


def test_a_process_ends_though_its_janitor_hangs() -> None:
    """P8: the interpreter does not wait for it either."""
    program = (
        "import threading\n"
        "from datetime import timedelta\n"
        "from crond_py.janitor import Janitor\n"
        "janitor, hangs = Janitor(), threading.Event()\n"
        "def hang():\n"
        "    hangs.set()\n"
        "    threading.Event().wait()\n"
        "janitor.submit(hang)\n"
        "hangs.wait()\n"
        "janitor.close(timedelta(0))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S, check=False)
    assert done.returncode == 0
