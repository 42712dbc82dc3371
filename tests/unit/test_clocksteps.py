"""What a step of the wall clock makes of how far a job is accounted for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.clocksteps import (
    MOST_BARRIERS,
    MOST_PAST_TIMES,
    after_restart,
    begun_anew,
    clock_was_set,
)
from crond_py.model import ClockReading, Cursor, PastTime, PastTimes
from crond_py.policy import TICK, advance, next_unaccounted, unaccounted

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
YEARS = timedelta(days=3652)
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
NOTHING = timedelta(0)


class EachMinute:
    """Due at every full minute."""

    def next_after(self, instant: datetime) -> datetime:
        """Return the first full minute that is later."""
        return instant.replace(second=0, microsecond=0) + MINUTE

    def latest_until(self, instant: datetime) -> datetime:
        """Return the last full minute that is no later."""
        return instant.replace(second=0, microsecond=0)

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many full minutes there are."""
        return max(0, (self.latest_until(until) - self.latest_until(after)) // MINUTE)


class Machine:
    """A clock and a job's cursor: each minute that comes is accounted for as it would be."""

    def __init__(self, now: datetime = NOON, *, running_for: timedelta = HOUR) -> None:
        self.now = now
        self.lead = timedelta(days=20_000)
        self.boot = "one"
        self.cursor = Cursor("j", "f", 0, now - running_for, now)

    @property
    def clock(self) -> ClockReading:
        """How the clock stands."""
        return ClockReading(self.boot, self.lead)

    @property
    def next_due(self) -> datetime | None:
        """What the job waits for."""
        return next_unaccounted(EachMinute(), self.cursor)

    def lives(self, span: timedelta) -> None:
        """Let time pass under the eyes of a daemon."""
        self.now += span
        for after, until in unaccounted(self.cursor, self.now):
            if (due := EachMinute().latest_until(until)) > after:
                self.cursor = advance(self.cursor, due)

    def set(self, step: timedelta) -> None:
        """Set the clock while a daemon looks."""
        self.set_unseen(step)
        self.cursor = clock_was_set(self.cursor, self.now, step, self.clock)

    def set_unseen(self, step: timedelta) -> None:
        """Set the clock while no daemon is there."""
        self.now += step
        self.lead += step

    def is_down(self, span: timedelta = NOTHING, *, boots: bool = False) -> None:
        """Let time pass without a daemon, perhaps without power."""
        self.now += span
        if boots:
            self.boot, self.lead = "two", self.lead + 3 * HOUR

    def starts(self) -> datetime | None:
        """Start a daemon; return up to which instant all is in doubt."""
        self.cursor, doubt = after_restart(self.cursor, self.now, self.clock)
        return doubt


def test_set_back_a_little_repeats_nothing() -> None:
    """P2: after a step of 40 minutes back, the next occurrence is the first one never seen."""
    machine = Machine()
    machine.set(-40 * MINUTE)
    assert machine.cursor.era == 0
    assert machine.next_due == NOON + MINUTE


def test_set_back_before_the_baseline_uses_what_never_was() -> None:
    """Readings from before the first start were never due; those after it do not come again."""
    machine = Machine(running_for=5 * MINUTE)
    machine.set(-HOUR)
    assert machine.next_due == NOON - 59 * MINUTE
    at_baseline = advance(machine.cursor, NOON - 5 * MINUTE)
    assert next_unaccounted(EachMinute(), at_baseline) == NOON + MINUTE
    beyond = advance(at_baseline, NOON + MINUTE)
    assert not beyond.barriers
    assert next_unaccounted(EachMinute(), beyond) == NOON + 2 * MINUTE


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "unseen"])
def test_set_back_far_is_a_new_time(is_seen: bool) -> None:
    """A step of eight hours back begins a new era, used at once; three hours exactly does not."""
    for step, era in ((-8 * HOUR, 1), (-3 * HOUR, 0), (-3 * HOUR - TICK, 1)):
        machine = Machine(running_for=10 * HOUR)
        if is_seen:
            machine.set(step)
        else:
            machine.set_unseen(step)
            assert machine.starts() is None
        assert machine.cursor.era == era
        expected = NOON if era == 0 else machine.now.replace(second=0, microsecond=0)
        assert machine.next_due == expected + MINUTE


def test_set_back_knows_the_step() -> None:
    """A step of five hours is a new time also for a job that is accounted to an hour from now."""
    machine = Machine(NOON + 4 * HOUR)
    machine.cursor = replace(machine.cursor, accounted_until=NOON)
    machine.set(-5 * HOUR)
    assert machine.cursor.era == 1


def test_set_back_twice_keeps_the_widest_barrier() -> None:
    """P2: a second step back does not forget what the first one shielded."""
    machine = Machine()
    machine.set(-10 * MINUTE)
    machine.lives(11 * MINUTE)
    machine.set(-30 * MINUTE)
    assert machine.next_due == NOON + 2 * MINUTE


def test_set_back_twice_before_the_baseline_leaves_no_gap() -> None:
    """P1: what lies between the second step and the baseline was never due, so it comes."""
    machine = Machine(running_for=5 * MINUTE)
    machine.set(-HOUR)
    machine.lives(10 * MINUTE)
    once = machine.cursor
    machine.set(-5 * MINUTE)
    assert machine.next_due == NOON - 49 * MINUTE
    at_baseline = advance(machine.cursor, NOON - 5 * MINUTE)
    assert next_unaccounted(EachMinute(), at_baseline) == NOON + MINUTE
    before_all = clock_was_set(once, NOON - 70 * MINUTE, -20 * MINUTE, machine.clock)
    assert next_unaccounted(EachMinute(), before_all) == NOON - 69 * MINUTE
    assert next_unaccounted(EachMinute(), advance(before_all, NOON - 5 * MINUTE)) == NOON + MINUTE


_SPANS = st.integers(min_value=1, max_value=40)
_DOWN_FOR = st.integers(min_value=0, max_value=60)
_STEPS_BACK = st.integers(min_value=1, max_value=180)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("lives"), _SPANS),
            st.tuples(st.just("set"), _STEPS_BACK.map(int.__neg__)),
            st.tuples(st.just("set"), _SPANS),
            st.tuples(st.just("restarts"), _DOWN_FOR, _STEPS_BACK.map(int.__neg__)),
        ),
        max_size=MOST_BARRIERS,
    )
)
def test_set_back_several_times_knows_each_minute(actions: list[tuple[str, int]]) -> None:
    """P1, P2: of all minutes that the clock has come by, or jumped over, none comes again."""
    machine, had, highest = Machine(running_for=NOTHING), set[int](), 0
    for what, *values in actions:
        before = _minutes(machine.now)
        match what, values:
            case "lives", [span]:
                machine.is_down(span * MINUTE)  # or up: it is looked at below
            case "set", [step]:
                machine.set(step * MINUTE)
            case "restarts", [down_for, step]:
                machine.is_down(down_for * MINUTE)
                machine.set_unseen(step * MINUTE)
                assert machine.starts() is None
        now = _minutes(machine.now)
        missed = [(_minutes(a), _minutes(u)) for a, u in unaccounted(machine.cursor, machine.now)]
        assert _covered(missed) == set(range(before + 1, now + 1)) - had
        machine.lives(NOTHING)
        had.update(range(before + 1, now + 1))
        highest = max(highest, now)
        rest = [(_minutes(a), _minutes(u)) for a, u in _until(machine, highest)]
        assert _covered(rest) == set(range(now + 1, highest + 1)) - had
        first = next(each for each in range(now + 1, highest + 2) if each not in had)
        assert machine.next_due == NOON + first * MINUTE


def _minutes(instant: datetime) -> int:
    return (instant - NOON) // MINUTE


def _until(machine: Machine, minute: int) -> list[tuple[datetime, datetime]]:
    return unaccounted(machine.cursor, NOON + minute * MINUTE)


def _covered(stretches: list[tuple[int, int]]) -> set[int]:
    minutes = [each for after, until in stretches for each in range(after + 1, until + 1)]
    assert len(minutes) == len(set(minutes))
    return set(minutes)


def test_barriers_are_bounded() -> None:
    """A clock that is set back without end leaves those barriers that come next."""
    machine = Machine()
    for _ in range(3 * MOST_BARRIERS):
        machine.lives(MINUTE)
        machine.set(-10 * MINUTE)
    assert len(machine.cursor.barriers) == MOST_BARRIERS
    assert machine.cursor.barriers[0] == (machine.now + 9 * MINUTE, machine.now + 10 * MINUTE)


def test_barriers_of_a_time_that_is_back() -> None:
    """P1, P2: what had its row before the clock was a day wrong is known in all its stretches."""
    machine = Machine(running_for=10 * MINUTE)
    machine.set(-HOUR)
    machine.lives(10 * MINUTE)
    machine.set(timedelta(days=1))
    machine.lives(20 * MINUTE)
    machine.set(-timedelta(days=1))
    assert machine.now == NOON - 30 * MINUTE
    assert unaccounted(machine.cursor, NOON + HOUR) == [
        (NOON - 30 * MINUTE, NOON - 10 * MINUTE),
        (NOON, NOON + HOUR),
    ]


# --- a clock that is right again ------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [-8 * HOUR, YEARS], ids=["back", "ahead"])
@pytest.mark.parametrize("restarts", [False, True], ids=["seen", "unseen"])
def test_right_again_repeats_nothing(wrong: timedelta, restarts: bool) -> None:
    """P2: what was accounted for before the clock was wrong is neither due nor missed after."""
    machine = Machine(running_for=10 * HOUR)
    machine.set(wrong)
    machine.lives(20 * MINUTE)
    in_wrong = machine.cursor.accounted_until
    assert in_wrong == NOON + wrong + 20 * MINUTE
    if restarts:
        machine.is_down(10 * MINUTE)
        machine.set_unseen(-wrong)
        assert machine.starts() is None
    else:
        machine.set(-wrong)
    if wrong < NOTHING:
        assert machine.next_due == NOON + MINUTE  # missed, and that may be made up for
    else:
        assert machine.next_due == machine.now.replace(second=0) + MINUTE


def test_set_forward_over_what_never_was() -> None:
    """P1: readings before the baseline that a small step has led back to are missed, not lost."""
    for wrong in (YEARS, 4 * HOUR):
        machine = Machine(running_for=NOTHING)
        machine.set(-HOUR)
        machine.set(wrong)
        assert machine.next_due == NOON - 59 * MINUTE


def test_right_again_before_the_baseline_uses_what_never_was() -> None:
    """P1: the old time began at noon; what its readings before that make due has not been."""
    machine = Machine(running_for=NOTHING)
    machine.set(YEARS)
    machine.set(-YEARS - HOUR)
    assert machine.next_due == NOON - 59 * MINUTE
    machine = Machine(running_for=NOTHING)
    machine.lives(20 * MINUTE)
    machine.set(-8 * HOUR)
    machine.set(8 * HOUR)
    assert machine.next_due == NOON + 21 * MINUTE  # nothing before a baseline was missed


def test_not_quite_right_again_repeats_nothing() -> None:
    """P2: a clock that is an hour behind in the end was set back by an hour."""
    for wrong in (-8 * HOUR, YEARS):
        machine = Machine(running_for=10 * HOUR)
        machine.set(wrong)
        machine.lives(20 * MINUTE)
        machine.set(-wrong - HOUR)
        assert machine.now == NOON - 40 * MINUTE
        assert machine.next_due == NOON + MINUTE
        machine.set(-30 * MINUTE)
        assert machine.next_due == NOON + MINUTE


def test_still_wrong_by_more_is_still_a_new_time() -> None:
    """P1: eight hours back and four on is four hours back: what was jumped over is missed."""
    machine = Machine(running_for=10 * HOUR)
    machine.set(-8 * HOUR)
    machine.set(4 * HOUR)
    assert machine.next_due == NOON - 8 * HOUR + MINUTE
    machine.lives(NOTHING)
    machine.set(4 * HOUR)
    assert machine.next_due == NOON + MINUTE


def test_a_new_time_goes_on_through_old_readings() -> None:
    """A clock that was wrong and set right by going back uses what it reads, also much later."""
    machine = Machine(running_for=10 * HOUR)
    machine.set(-8 * HOUR)
    machine.lives(7 * HOUR)
    assert machine.cursor.accounted_until == NOON - HOUR
    assert machine.next_due == NOON - 59 * MINUTE
    machine.set(-MINUTE)  # and small steps change nothing of that
    machine.set(2 * MINUTE)
    assert machine.next_due == NOON - 59 * MINUTE
    machine.is_down(2 * HOUR)
    assert machine.starts() is None
    assert machine.next_due == NOON - 59 * MINUTE


def test_wrong_twice_over() -> None:
    """P2: each time that the clock comes back to is known as far as it had got."""
    machine = Machine(running_for=10 * HOUR)
    machine.set(-8 * HOUR)
    machine.lives(20 * MINUTE)
    machine.set(-8 * HOUR)
    machine.lives(20 * MINUTE)
    machine.set(8 * HOUR)
    assert machine.next_due == NOON - 8 * HOUR + 21 * MINUTE
    machine.lives(NOTHING)
    machine.set(8 * HOUR)
    assert machine.next_due == NOON + MINUTE
    machine.lives(NOTHING)
    machine.set(-8 * HOUR)
    assert machine.next_due == NOON - 8 * HOUR + 41 * MINUTE


@pytest.mark.parametrize("down_for", [10 * MINUTE, 10 * HOUR])
def test_in_doubt_after_a_boot(down_for: timedelta) -> None:
    """P2: nobody knows whether a clock that has got there while off was set right: in doubt."""
    machine = Machine(running_for=10 * HOUR)
    machine.set(-8 * HOUR)
    machine.lives(20 * MINUTE)
    machine.is_down(down_for, boots=True)
    has_got_there = machine.now >= NOON
    assert machine.starts() == (NOON if has_got_there else None)
    assert machine.next_due == NOON - 8 * HOUR + 21 * MINUTE
    machine.lives(NOTHING)
    assert machine.starts() is None


def test_a_job_that_begins_anew_keeps_what_may_come_again() -> None:
    """P2: a reload that changes or brings back a job does not forget what it has run."""
    machine = Machine(running_for=10 * HOUR)
    machine.set(-8 * HOUR)
    machine.lives(20 * MINUTE)
    anew = Cursor("j", "g", 1, machine.now, machine.now)
    machine.cursor = begun_anew(anew, machine.cursor, machine.now, machine.clock)
    machine.set(8 * HOUR)
    assert machine.next_due == NOON + MINUTE


def test_down_while_what_had_its_account_is_to_come() -> None:
    """P1: what comes before that while no daemon is there is missed like anything else."""
    machine = Machine(running_for=10 * MINUTE)
    machine.set(-8 * HOUR)
    machine.set(7 * HOUR)
    machine.lives(MINUTE)
    machine.is_down(2 * HOUR)
    assert machine.starts() is None
    assert machine.next_due == NOON - 58 * MINUTE
    before, after = unaccounted(machine.cursor, machine.now)
    assert before == (NOON - 59 * MINUTE, NOON - 10 * MINUTE)
    assert after == (NOON, machine.now)


def test_begun_anew_while_what_had_its_account_is_to_come() -> None:
    """P2: a job that is put back does not run again what the clock is about to come to."""
    machine = Machine(running_for=10 * HOUR)
    machine.set(-8 * HOUR)
    machine.lives(20 * MINUTE)
    machine.set(7 * HOUR)
    anew = Cursor("j", "g", 1, machine.now, machine.now)
    machine.cursor = begun_anew(anew, machine.cursor, machine.now, machine.clock)
    assert machine.next_due == NOON + MINUTE
    machine.is_down(10 * MINUTE)
    assert machine.starts() is None
    assert machine.next_due == NOON + MINUTE


def test_what_is_remembered_stays_small() -> None:
    """A clock that never stops jumping leaves a few past times, those that reach farthest."""
    machine = Machine(running_for=10 * HOUR)
    for _ in range(40):
        machine.set(4 * HOUR)
        machine.lives(20 * MINUTE)
    assert machine.cursor.past is not None
    assert len(machine.cursor.past.times) == MOST_PAST_TIMES
    for _ in range(40):
        machine.set(-8 * HOUR)
        machine.lives(9 * HOUR)
    assert len(machine.cursor.past.times) <= MOST_PAST_TIMES


def test_nothing_is_remembered_of_small_steps() -> None:
    """A clock that is put right each hour by a second costs no cursor anything."""
    machine = Machine()
    for _ in range(10):
        machine.set(timedelta(seconds=1))
        machine.lives(HOUR)
        machine.set(-timedelta(seconds=2))
    assert machine.cursor.past is None


def test_past_times_are_as_the_clock_is_behind_them() -> None:
    """What stands in the cursor: how far it got, and how far the clock is behind that."""
    machine = Machine(running_for=10 * HOUR)
    machine.set(-8 * HOUR)
    assert machine.cursor.past == PastTimes(
        (PastTime(NOON - 10 * HOUR, NOON, 8 * HOUR),), machine.clock
    )
    machine.set(HOUR)
    assert machine.cursor.past == PastTimes(
        (PastTime(NOON - 10 * HOUR, NOON, 7 * HOUR),), machine.clock
    )
