"""The simulation is itself tested: each fault that is planted in the engine must be caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crond_py.engine import recovery
from crond_py.engine.agenda import Agenda
from crond_py.engine.attempts import Attempts
from crond_py.engine.outbox import Outbox
from crond_py.engine.records import JobState, Stage
from crond_py.engine.stopping import Stopper
from crond_py.model import State
from crond_py.policy import Load, Recovery
from tests.simulation.fakes import FakeProcesses
from tests.simulation.test_simulation import play, play_many

ENOUGH_SEEDS = 60


def effects_first(old: Callable[[Outbox], None]) -> Callable[[Outbox], None]:
    """Start processes before their claims are written."""

    def flush(outbox: Outbox) -> None:
        effects, outbox._effects = outbox._effects, []
        for effect in effects:
            effect()
        old(outbox)

    return flush


def rerun_what_is_lost(old: Callable[..., Recovery]) -> Callable[..., Recovery]:
    """Run again what a crash cut short, without being asked to."""

    def decide(state: State, *, survives: bool, **rest: object) -> Recovery:
        if state is State.RUNNING and not survives:
            return Recovery.RERUN
        return old(state, survives=survives, **rest)

    return decide


def forget_to_cancel_retries(old: Callable[..., bool]) -> Callable[..., bool]:
    """Say that a waiting retry is cancelled, and do nothing."""

    def cancel(self: Stopper, active: object, reason: str, *, is_forced: bool = False) -> bool:
        if active.stage is Stage.RETRY:
            return False
        return old(self, active, reason, is_forced=is_forced)

    return cancel


FAULTS = {
    "no adoption": (FakeProcesses, "survivors", lambda _: lambda *_: []),
    "start before the claim": (Outbox, "flush", effects_first),
    "attempt not recorded before its start": (
        Attempts,
        "write_and_launch",
        lambda _: lambda self, active: self._parts.outbox.then(lambda: self.launch(active)),
    ),
    "cursor not saved": (
        Agenda,
        "_save",
        lambda _: lambda _self, state, cursor: setattr(state, "cursor", cursor),
    ),
    "a run that waits for its retry does not count": (
        JobState,
        "load",
        lambda _: property(
            lambda s: Load(sum(a.stage is not Stage.RETRY for a in s.active), len(s.queued))
        ),
    ),
    "lost runs are run again": (recovery, "decide_recovery", rerun_what_is_lost),
    "retry after a cancel": (Stopper, "cancel", forget_to_cancel_retries),
    "missed occurrences go unsaid": (Agenda, "_record_dropped", lambda _: lambda *_: None),
    "slots leak": (Attempts, "give_slot_back", lambda _: lambda *_: None),
    "overlap ignores adopted runs": (
        recovery.Recoverer,
        "_recover",
        lambda old: (
            lambda self, run, survivor: (
                old(self, run, survivor),
                [s.active.clear() for s in self._register.states.values()],
            )
        ),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken engine does not get through a few dozen histories."""
    owner, attribute, make = FAULTS[name]
    monkeypatch.setattr(owner, attribute, make(getattr(owner, attribute)))
    with pytest.raises(AssertionError, match="seed"):
        play_many(range(ENOUGH_SEEDS))


def test_the_same_seed_tells_the_same_story() -> None:
    """A history depends on its seed alone, so that a failure can be looked at again."""
    stories = [play(7, may_step_clock=True).story for _ in range(2)]
    assert stories[0] == stories[1]
