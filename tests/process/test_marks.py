"""The marks that a process carries: environment and brand (P5, P6)."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.runner import marks
from crond_py.runner.marks import Marks, brand_for, put_brand, read_marks, tag_of_brand
from tests.process.conftest import Harness

LOCKS = 10  # RLIMIT_LOCKS in asm-generic/resource.h
IDENTITIES = st.text("0123456789abcdef", min_size=8, max_size=12)
RUNS = st.integers(1, 2**28 - 1)
ATTEMPTS = st.integers(1, 255)


@given(IDENTITIES, RUNS, ATTEMPTS)
def test_a_brand_means_one_attempt(identity: str, run: int, attempt: int) -> None:
    """What a brand was made from can be read from it, by the ledger that it is of (P5)."""
    brand = brand_for(f"{identity}-{run}", attempt)
    assert brand is not None
    assert 2**62 <= brand < 2**63, "the kernel takes 63 bits, and nobody asks for so many locks"
    assert tag_of_brand(brand, identity) == (f"{identity}-{run}", attempt)


def test_another_ledger_does_not_know_a_brand() -> None:
    """Two daemons on one machine do not take each other's processes for their own (P2)."""
    brand = brand_for("0123456789ab-7", 1)
    assert brand is not None
    assert tag_of_brand(brand, "ba9876543210") is None


@pytest.mark.parametrize(
    ("tag", "attempt"),
    [("a-268435456", 1), ("a-1", 256), ("a-x", 1), ("a-", 1), ("-1", 1), ("1", 1), ("a-²", 1)],
)
def test_what_does_not_fit_has_no_brand(tag: str, attempt: int) -> None:
    """A number that is too large for a brand is not cut off: that would be another run's (P2)."""
    assert brand_for(tag, attempt) is None


NAMES = [
    (Marks("a-7", 1), True, ("a-7", 1)),
    (Marks("a-7", 0), True, None),
    (Marks("a-7", 2), False, ("a-7", 2)),
    (Marks("a-71", 1), False, ("a-71", 1)),
    (Marks(brand=brand_for("a-7", 1)), True, ("a-7", 1)),
    (Marks(brand=brand_for("a-7", 2)), False, ("a-7", 2)),
    (Marks("b-1", 1, brand_for("a-7", 1)), True, ("a-7", 1)),
    (Marks("b-7", 1, brand_for("b-7", 1)), False, None),
    (Marks(), False, None),
]


@pytest.mark.parametrize(("shown", "is_ours", "attempt"), NAMES)
def test_which_attempt_marks_name(
    shown: Marks, is_ours: bool, attempt: tuple[str, int] | None
) -> None:
    """Either mark is enough, and both tell ledgers, runs and attempts apart (P2)."""
    assert shown.name("a-7", 1) is is_ours
    assert shown.attempt_of("a") == attempt


@contextmanager
def _process(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that has just been executed, and end it."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_brand_is_put_on_what_a_process_has_started_by_then() -> None:
    """However late it comes, the children that are there have it as well (P6)."""
    brand = brand_for("k-1", 1)
    with _process(
        "sh", "-c", "sleep 999 & echo $!; read x; env -i setsid grep locks /proc/self/limits"
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdin is not None
        child = int(shell.stdout.readline())
        put_brand(shell.pid, brand)
        assert read_marks(shell.pid).brand == read_marks(child).brand == brand
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        assert str(brand).encode() in shell.stdout.readline(), "no environment and session hide it"
        os.kill(child, 9)


def test_who_may_not_have_so_many_locks_goes_without() -> None:
    """Where the hard limit is lower there is no brand, and nothing else is different (P8)."""
    with _process("sh", "-c", "ulimit -c 0; echo up; read x") as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        resource.prlimit(shell.pid, LOCKS, (1000, 1000))
        put_brand(shell.pid, brand_for("k-1", 1))
        assert resource.prlimit(shell.pid, LOCKS) == (1000, 1000)
        assert read_marks(shell.pid) == Marks()
    put_brand(shell.pid, brand_for("k-1", 1))  # it has ended
    put_brand(os.getpid(), None)
    assert read_marks(os.getpid()).brand is None


def test_short_of_descriptors_a_start_goes_on(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A brand that cannot be passed on costs no run (P8)."""

    def refuse(_pid: int) -> list[int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(marks.procfile, "list_children_of", refuse)
    assert harness.run("exit 3").exit.code == 3


def test_what_overwrites_its_environment_is_found(harness: Harness, tmp_path: Path) -> None:
    """A survivor whose program has written over its environment is known by its brand (P5)."""
    ready = harness.fifo("ready")
    key = harness.start(f"exec env -i sh -c 'echo up >{ready}; read x <{ready}'")
    started = harness.started(key)
    assert ready.read_text() == "up\n"
    assert read_marks(started.pid).tag == ""
    (survivor,) = harness.runner.survivors(harness.identity)
    assert (survivor.pid, survivor.tag, survivor.attempt, survivor.leader) == (
        started.pid,
        f"{harness.identity}-{key.run_id}",
        1,
        True,
    )
    harness.runner.stop(key, force=True)
    harness.ended(key)
