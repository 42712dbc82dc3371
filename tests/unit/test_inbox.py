"""The main thread's inbox: whoever puts something in, and however, it comes out."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from crond_py.inbox import Inbox

PATIENCE_S = 60.0


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """Give an empty inbox."""
    inbox = Inbox()
    yield inbox
    inbox.close()


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Leave the signal as the test found it."""
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_items_come_in_order(inbox: Inbox) -> None:
    """What is put in comes out in the same order."""
    for item in (1, None, "three"):
        inbox.put(item)
    assert [inbox.get() for _ in range(3)] == [1, None, "three"]


def test_another_thread_wakes_the_reader(inbox: Inbox) -> None:
    """An item that another thread puts in ends the wait for it."""
    thread = threading.Thread(target=inbox.put, args=("hello",))
    thread.start()
    assert inbox.get() == "hello"
    thread.join(PATIENCE_S)


def test_more_items_than_the_pipe_has_room_for(inbox: Inbox) -> None:
    """Nobody who puts something in is held up by a reader that is busy, and nothing is lost."""
    number = 70_000  # a pipe takes 64 KiB, see pipe(7)
    for item in range(number):
        inbox.put(item)
    assert [inbox.get() for _ in range(number)] == list(range(number))


def test_signal_that_does_not_interrupt_the_reader(inbox: Inbox) -> None:
    """A signal is heeded at once also where the kernel gives it to another thread.

    So it is heeded, too, where it comes just before the main thread begins to wait: in both cases
    no system call of the main thread is interrupted.
    """
    begun = threading.Event()

    def signal_itself() -> None:
        begun.wait(PATIENCE_S)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    with inbox.catching([signal.SIGUSR1], lambda received: received.name):
        thread = threading.Thread(target=signal_itself)
        thread.start()
        begun.set()
        assert inbox.get() == "SIGUSR1"
        thread.join(PATIENCE_S)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    assert signal.set_wakeup_fd(-1) == -1
