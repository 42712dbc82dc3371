"""What the service manager is told, by sd_notify(3), and that telling it is never in the way."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.clock import SystemClock
from crond_py.sdnotify import Notifier

PATIENCE_S = 60.0


class Manager:
    """The service manager's end: a socket that datagrams arrive at."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(PATIENCE_S)
        self._socket.bind(address.replace("@", "\0", 1))

    def environment(self, **others: str) -> dict[str, str]:
        """Return what the manager puts into a service's environment."""
        return {"NOTIFY_SOCKET": self.address, "PATH": "/bin", **others}

    def heard(self) -> list[str]:
        """Wait for the next datagram; return its assignments."""
        return self._socket.recv(4096).decode().split("\n")

    def close(self) -> None:
        """Go away."""
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    """Stand in for systemd, at an address of either kind."""
    made = Manager(
        str(tmp_path / "notify") if request.param == "path" else f"@pycron-test-{os.getpid()}"
    )
    yield made
    made.close()


def test_a_life_is_told_as_systemd_wants_to_hear_it(manager: Manager) -> None:
    """Each state is the assignment that sd_notify(3) gives for it."""
    notifier = Notifier.from_environment(manager.environment())
    notifier.ready("3 jobs")
    assert manager.heard() == ["READY=1", "STATUS=3 jobs"]
    notifier.status("busy")
    assert manager.heard() == ["STATUS=busy"]
    notifier.alive()
    assert manager.heard() == ["WATCHDOG=1"]
    notifier.stopping()
    assert manager.heard() == ["STOPPING=1"]
    notifier.close()


def test_a_reload_carries_the_time_it_began(manager: Manager) -> None:
    """RELOADING=1 comes with CLOCK_MONOTONIC in microseconds, as Type=notify-reload needs it."""
    notifier = Notifier.from_environment(manager.environment())
    clock = SystemClock()
    before = clock.awake_ns()
    notifier.reloading(clock)
    after = clock.awake_ns()
    first, second = manager.heard()
    assert first == "RELOADING=1"
    name, usec = second.split("=")
    assert name == "MONOTONIC_USEC"
    assert before // 1000 <= int(usec) <= after // 1000
    notifier.close()


def test_a_status_is_one_assignment_whatever_is_in_it(manager: Manager) -> None:
    """P9: a path with a newline in it cannot tell the manager something else."""
    notifier = Notifier.from_environment(manager.environment())
    notifier.status("jobs in /a\nMAINPID=1\udc80")
    assert manager.heard() == ["STATUS=jobs in /a\\nMAINPID=1\\udc80"]
    notifier.close()


def test_the_variables_are_taken_away(manager: Manager) -> None:
    """P9: no child can speak for the daemon, or believe that it is watched."""
    environment = manager.environment(WATCHDOG_USEC="30000000", WATCHDOG_PID=str(os.getpid()))
    Notifier.from_environment(environment).close()
    assert environment == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("usec", "pid", "period"),
    [
        ("30000000", "ours", timedelta(seconds=30)),
        ("1", "", timedelta(microseconds=1)),
        ("30000000", "1", None),
        ("", "", None),
        ("0", "", None),
        ("-5", "", None),
        ("soon", "", None),
        ("9" * 5000, "", None),
    ],
)
def test_the_watchdog_is_fed_only_where_one_watches(
    usec: str, pid: str, period: timedelta | None
) -> None:
    """The period is WATCHDOG_USEC if WATCHDOG_PID is this process or absent."""
    pid = pid.replace("ours", str(os.getpid()))
    environment = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid}
    notifier = Notifier.from_environment(environment)
    assert notifier.watchdog_period == period
    notifier.close()


def tell_everything(notifier: Notifier) -> None:
    """Call every method."""
    notifier.ready("status")
    notifier.reloading(SystemClock())
    notifier.status("status")
    notifier.alive()
    notifier.stopping()


@pytest.mark.parametrize("address", [None, "", "vsock:2:1234", "relative"])
def test_without_a_manager_nothing_happens(address: str | None) -> None:
    """In a terminal, or where the address is of no kind that is known, every call is a no-op."""
    notifier = Notifier.from_environment({} if address is None else {"NOTIFY_SOCKET": address})
    tell_everything(notifier)
    notifier.close()


@pytest.mark.parametrize("address", ["/nowhere/notify", "/" + "x" * 200, "@nobody-listens"])
def test_a_manager_that_cannot_be_reached_is_no_trouble(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: nothing is raised, and it is logged once and not at every sign of life."""
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": address})
    tell_everything(notifier)
    notifier.close()
    assert len(caplog.records) == 1


def test_a_sign_of_life_does_not_wait_for_a_busy_manager(manager: Manager) -> None:
    """P4: with the manager's queue full the thread that starts jobs goes on at once."""
    notifier = Notifier.from_environment(manager.environment())
    for _ in range(2000):  # far more than net.unix.max_dgram_qlen: a wait would meet the time limit
        notifier.alive()
    for _ in range(5):
        assert manager.heard() == ["WATCHDOG=1"]
    notifier.close()


def test_nothing_is_told_after_close(manager: Manager) -> None:
    """A closed notifier is silent, and closing it again is legal."""
    notifier = Notifier.from_environment(manager.environment())
    notifier.close()
    notifier.close()
    tell_everything(notifier)


def test_it_needs_no_further_descriptor(manager: Manager) -> None:
    """P8: a daemon that has run out of descriptors still shows that it lives."""
    notifier = Notifier.from_environment(manager.environment())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        notifier.alive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert manager.heard() == ["WATCHDOG=1"]
    notifier.close()
