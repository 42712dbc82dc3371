"""The marks that a process carries: environment and brand (P5, P6)."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.model import Limits
from crond_py.runner.brand import Branding
from crond_py.runner.execute import popen
from crond_py.runner.marks import Marks, brand_for, brand_in, read_marks, tag_of_brand
from tests.process.conftest import Harness

LOCKS = 10  # RLIMIT_LOCKS in asm-generic/resource.h
LIMIT = resource.getrlimit(LOCKS)
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
    (Marks("a-71", 1, brand_for("a-7", 1)), False, ("a-71", 1)),
    (Marks("a-71", 0, brand_for("a-7", 1)), False, None),
    (Marks("a-7", 1, brand_for("a-71", 1)), True, ("a-7", 1)),
    (Marks("a-7", 2, brand_for("a-7", 1)), False, ("a-7", 2)),
    (Marks("a-7", 0, brand_for("a-7", 1)), True, ("a-7", 1)),
    (Marks("b-7", 1, brand_for("b-7", 1)), False, None),
    (Marks(), False, None),
]


@pytest.mark.parametrize(("shown", "is_ours", "attempt"), NAMES)
def test_which_attempt_marks_name(
    shown: Marks, is_ours: bool, attempt: tuple[str, int] | None
) -> None:
    """Either mark is enough, and both tell ledgers, runs and attempts apart (P2).

    Of two that contradict each other the environment counts.
    """
    assert shown.name("a-7", 1) is is_ours
    assert shown.attempt_of("a") == attempt


@pytest.mark.parametrize(
    ("shown", "is_ours"),
    [
        (Marks("a-7", 1), True),
        (Marks("a-7", 3), True),
        (Marks("a-7", 4), False),
        (Marks("a-6", 1), False),
        (Marks(brand=brand_for("a-7", 1)), True),
        (Marks(brand=brand_for("a-7", 4)), False),
        (Marks(brand=brand_for("a-6", 3)), False),
        (Marks("a-6", 3, brand_for("a-7", 1)), False),
        (Marks(), False),
    ],
)
def test_marks_name_an_attempt_up_to_one(shown: Marks, is_ours: bool) -> None:
    """The attempts of a run up to one are told from later ones and from other runs' (P6)."""
    assert shown.name("a-7", 3, or_earlier=True) is is_ours


def test_a_quick_child_has_the_brand_of_its_run(harness: Harness) -> None:
    """However soon a process clears its environment and leaves, it has its run's brand (P6)."""
    shown = "env -i setsid grep 'Max file locks' /proc/self/limits"
    keys = [
        harness.start(shown, output=harness.directory / f"out-{number}") for number in range(40)
    ]
    for number, key in enumerate(keys):
        assert harness.ended(key).exit.code == 0
        brand = brand_for(f"{harness.identity}-{key.run_id}", 1)
        assert str(brand) in (harness.directory / f"out-{number}").read_text().split()
    assert resource.getrlimit(LOCKS) == LIMIT, "ours is what it was"


def test_a_process_with_limits_has_the_brand_too(harness: Harness) -> None:
    """What is started by way of another program carries the same mark (P6)."""
    spec = harness.spec("sleep 999; true")
    harness.runner.start(replace(spec, limits=Limits(open_files=32)))
    pid = harness.started(spec.key).pid
    assert read_marks(pid).brand == brand_for(spec.tag, 1)
    harness.runner.stop(spec.key, force=True)
    harness.ended(spec.key)


def test_who_may_not_have_so_many_locks_goes_without() -> None:
    """Where the hard limit is lower there is no brand, and nothing else is different (P8)."""
    program = (
        "import resource\n"
        f"resource.setrlimit({LOCKS}, (1000, 1000))\n"
        "from crond_py.runner.brand import BRANDING\n"
        "with BRANDING.put(2**62):\n"
        f"    print(resource.getrlimit({LOCKS}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"(1000, 1000)\n"


def test_a_turn_that_hangs_holds_nobody_up() -> None:
    """A start that hangs gives its turn up, and others have their own brand (P4).

    One that comes back after that does not touch what is the others' by now.
    """
    branding = Branding()
    hangs, entered = threading.Event(), threading.Event()

    def hang() -> None:
        with branding.put(2**62 + 1):
            entered.set()
            hangs.wait()

    thread = threading.Thread(target=hang)
    thread.start()
    entered.wait()
    with branding.put(2**62 + 2):
        hangs.set()
        thread.join()
        assert resource.getrlimit(LOCKS)[0] == 2**62 + 2
    assert resource.getrlimit(LOCKS) == LIMIT
    with branding.put(None):
        assert resource.getrlimit(LOCKS) == LIMIT


@pytest.mark.parametrize("tag", ["k-7", None])
def test_a_child_that_was_started_in_the_turn_of_another_is_corrected(
    tag: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that lost its turn before it forked has no process of another run's (P2, P6)."""
    real = subprocess.Popen
    stranger = brand_for("k-8", 1)
    assert stranger is not None

    def lose_turn(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(subprocess, "Popen", real)
        resource.setrlimit(LOCKS, (stranger, LIMIT[1]))  # as the other's turn does
        return real(*arguments, **more)

    monkeypatch.setattr(subprocess, "Popen", lose_turn)
    env = {} if tag is None else {"PYCRON_RUN_ID": tag, "PYCRON_ATTEMPT": "1"}
    pid = popen([b"/bin/sleep", b"999"], streams=(subprocess.DEVNULL, subprocess.DEVNULL), env=env)
    try:
        assert read_marks(pid).brand == (None if tag is None else brand_for(tag, 1))
        assert resource.prlimit(pid, LOCKS)[1] == LIMIT[1]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


ENVIRONMENTS: list[tuple[dict[str, str] | dict[bytes, bytes], int | None]] = [
    ({"PYCRON_RUN_ID": "k-1", "PYCRON_ATTEMPT": "2", "A": "b"}, brand_for("k-1", 2)),
    ({b"PYCRON_RUN_ID": b"k-1", b"PYCRON_ATTEMPT": b"2"}, brand_for("k-1", 2)),
    ({"PYCRON_RUN_ID": "k-1"}, None),
    ({"PYCRON_ATTEMPT": "2"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("env", "expected"), ENVIRONMENTS)
def test_the_brand_is_that_of_the_environment(
    env: dict[str, str] | dict[bytes, bytes], expected: int | None
) -> None:
    """Both marks say the same, and where the one is missing so is the other."""
    assert brand_in(env) == expected


def test_what_overwrites_its_environment_is_found(harness: Harness) -> None:
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
