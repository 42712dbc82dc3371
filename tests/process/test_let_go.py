"""The note of which starts have been let go: who makes it, when, and what is believed of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crond_py.clock import EPOCH, SystemClock
from crond_py.ports import ProcessSpec
from crond_py.runner import process
from crond_py.runner.letgo import AGAIN_NS, MOST_LENT, LetGo, Loan
from crond_py.runner.spawn import spawn
from tests.process.conftest import PATIENCE_S, Harness
from tests.process.test_bursts import assert_recalled, held_back, usher_all
from tests.support.clock import FakeClock

CLOCK = SystemClock()
NOON = datetime.fromisoformat("2026-03-01T12:00:00Z")
SECOND = timedelta(seconds=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the note is."""
    return tmp_path / "let-go"


def write(loan: Loan) -> None:
    """Note what an usher was told to."""
    os.pwrite(loan.descriptor, loan.value, loan.place)


# --- the file -------------------------------------------------------------------------------------


def test_without_a_note_nobody_knows(path: Path) -> None:
    """P2: none is there, or none can be."""
    assert LetGo(path, "boot").until() is None
    for without in (LetGo(), LetGo(None, "boot"), LetGo(path, "")):
        without.begin()
        without.note(NOON)
        assert without.until() is None
        assert without.lend(NOON) is None
        without.close()
    assert not path.exists()


def test_the_next_daemon_finds_what_was_noted(path: Path) -> None:
    """P2: whoever is killed has let go nothing that is later than that, and the next goes on."""
    first = LetGo(path, "boot")
    first.begin()
    assert LetGo(path, "boot").until() == EPOCH
    first.note(NOON)
    second = LetGo(path, "boot")
    assert second.until() == NOON
    second.begin()
    second.note(NOON - SECOND)  # the clock was set back
    assert second.until() == NOON
    second.note(NOON + SECOND / 1000)
    assert LetGo(path, "boot").until() == NOON + SECOND / 1000
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["let-go"]
    first.close()
    second.close()


def test_a_note_of_another_boot_says_nothing(path: Path) -> None:
    """P2: it was in the kernel's memory, and what of it was on the disk may be older."""
    before = LetGo(path, "before")
    before.note(NOON)
    before.close()
    now = LetGo(path, "boot")
    assert now.until() is None
    now.begin()
    assert now.until() == EPOCH
    now.close()


@pytest.mark.parametrize("size", [0, 1, 63, 64, 575])
def test_a_torn_note_says_nothing(path: Path, size: int) -> None:
    """P2: nor does junk; it is begun anew."""
    whole = LetGo(path, "boot")
    whole.note(NOON)
    whole.close()
    os.truncate(path, size)
    again = LetGo(path, "boot")
    assert again.until() is None
    again.note(NOON - SECOND)
    assert again.until() == NOON - SECOND
    again.close()


def test_ushers_note_in_places_of_their_own(path: Path) -> None:
    """P2: whatever the order in which they write, the largest is the note."""
    let_go = LetGo(path, "boot")
    later, earlier = let_go.lend(NOON + SECOND), let_go.lend(NOON)
    assert later is not None
    assert earlier is not None
    assert let_go.until() == EPOCH
    write(later)
    write(earlier)
    assert let_go.until() == NOON + SECOND
    let_go.give_back(later)
    again = let_go.lend(NOON)  # the same place: it is not lowered
    assert again is not None
    write(again)
    assert let_go.until() == NOON + SECOND
    let_go.note(NOON + 2 * SECOND)
    assert let_go.lend(NOON + SECOND) is None
    let_go.close()


def test_where_there_is_no_place_left_it_is_noted_at_once(path: Path) -> None:
    """P2: rather than not at all."""
    let_go = LetGo(path, "boot")
    assert all(let_go.lend(NOON) for _ in range(MOST_LENT))
    assert let_go.lend(NOON) is None
    assert let_go.until() == NOON
    let_go.close()


@pytest.mark.parametrize("is_begun", [True, False])
def test_what_cannot_be_noted_leaves_no_note(
    path: Path, caplog: pytest.LogCaptureFixture, *, is_begun: bool
) -> None:
    """P2, P8: starts are made all the same, and nobody says that they had not begun."""
    let_go = LetGo(path, "boot")
    if is_begun:
        let_go.note(NOON)
        os.close(let_go._descriptor)
        let_go._descriptor = os.open(path, os.O_RDONLY)  # as of a disk that went read-only
    else:
        path.mkdir()
        (path / "x").touch()
    let_go.note(NOON + SECOND)
    let_go.note(NOON + 2 * SECOND)
    assert let_go.lend(NOON + 3 * SECOND) is None
    assert let_go.until() is None
    assert LetGo(path, "boot").until() is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert let_go.trouble.startswith("that starts are let go cannot be noted: [Errno ")


@pytest.mark.parametrize("is_lent", [True, False])
def test_what_could_not_be_noted_is_when_that_can_be_again(path: Path, *, is_lent: bool) -> None:
    """P2, P8: a note is there again with a later start, and says of none that it had not begun."""
    clock = FakeClock()
    let_go = LetGo(path, "boot", clock)
    loan = let_go.lend(NOON + 3 * SECOND) if is_lent else None
    let_go.note(NOON)
    os.close(let_go._descriptor)
    let_go._descriptor = os.open(path, os.O_RDONLY)  # as of a disk that went read-only
    let_go.note(NOON + SECOND)
    let_go.note(NOON + 2 * SECOND)
    clock.advance_ns(AGAIN_NS - 1)
    let_go.note(NOON + 2 * SECOND)
    assert let_go.trouble
    assert LetGo(path, "boot").until() is None
    clock.advance_ns(1)
    let_go.note(NOON)
    assert let_go.trouble == ""
    for each in (let_go, LetGo(path, "boot")):
        assert each.until() == NOON + (3 if is_lent else 2) * SECOND
    if loan is not None:
        let_go.give_back(loan)
    let_go.close()


# --- who makes it ---------------------------------------------------------------------------------


def held(harness: Harness, number: int, due: datetime = NOON) -> list[ProcessSpec]:
    """Return specs that were held, each for an instant of its own."""
    return [
        replace(harness.spec(("/bin/true",)), held_for=due + n * SECOND / 1000)
        for n in range(number)
    ]


def run_all(harness: Harness, specs: Sequence[ProcessSpec]) -> None:
    """Wait for all of them."""
    for spec in specs:
        assert harness.ended(spec.key).exit.code == 0


@pytest.fixture
def harness(reaping: Harness) -> Harness:
    """Give a runner as the daemon has it, with a note."""
    reaping.runner.note_starts()
    assert reaping.runner.let_go_until() == EPOCH
    return reaping


def test_a_thread_notes_before_it_starts(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: and only what was held for an instant long before it (P4)."""
    noted: list[datetime | None] = []

    def noting(spec: ProcessSpec, **more: Any) -> object:
        noted.append(harness.runner.let_go_until())
        return spawn(spec, **more)

    monkeypatch.setattr(process, "spawn", noting)
    harness.run(("/bin/true",))
    for spec in held(harness, 2):
        harness.runner.start(spec)
        harness.ended(spec.key)
    assert noted == [EPOCH, NOON, NOON + SECOND / 1000]


def test_an_usher_notes_at_the_instant(harness: Harness) -> None:
    """P2: what it holds counts as not begun until then, and all of it as begun from then on."""
    specs = held(harness, 30)
    usher_all(harness, specs, ahead_ns=400_000_000)
    assert harness.runner.let_go_until() == EPOCH
    run_all(harness, specs)
    assert harness.runner.let_go_until() == NOON + 29 * SECOND / 1000
    while len(harness.runner._let_go._free) < MOST_LENT:  # given back a moment after the ends
        os.sched_yield()


def test_what_is_recalled_is_not_noted(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: an usher that sees that it is recalled has let nothing go."""
    is_there, may_begin = held_back(monkeypatch)
    specs = held(harness, 30)
    usher_all(harness, specs, ahead_ns=3_600_000_000_000)
    assert is_there.wait(PATIENCE_S)
    harness.runner.recall()
    may_begin.set()
    assert_recalled(harness, specs)
    assert harness.runner.let_go_until() == EPOCH


def test_many_of_one_instant(harness: Harness) -> None:
    """P2, P4: as the daemon starts them; who is not held by then is noted by a thread."""
    at_ns = CLOCK.monotonic_ns() + 300_000_000
    specs = held(harness, 60)
    harness.runner.start_all([(spec, at_ns) for spec in specs])
    run_all(harness, specs)
    assert harness.runner.let_go_until() == NOON + 59 * SECOND / 1000
