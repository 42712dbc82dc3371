"""The rules, by tables: what the design says, case by case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from crond_py.model import (
    Cause,
    Condition,
    Cursor,
    Exit,
    Failure,
    Leftovers,
    Limits,
    Missed,
    OnCrash,
    Outcome,
    Overlap,
    Retry,
    State,
)
from crond_py.policy import (
    Admission,
    Follow,
    Load,
    MissedRule,
    Recovery,
    Remains,
    decide_overlap,
    decide_recovery,
    is_accounted,
    is_retryable,
    judge_exit,
    judge_upstream,
    meets,
    next_unaccounted,
    plan_missed,
    retry_delay,
    unaccounted,
    wants_rerun,
    wants_retry,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class EachMinute:
    """Due at every full minute: the simplest schedule there is, written for these tests."""

    def next_after(self, instant: datetime) -> datetime:
        """Return the first full minute after ``instant``."""
        return instant.replace(second=0, microsecond=0) + MINUTE

    def latest_until(self, instant: datetime) -> datetime:
        """Return the newest full minute up to ``instant``."""
        return instant.replace(second=0, microsecond=0)

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many full minutes lie in (after, until]."""
        due, number = self.next_after(after), 0
        while due <= until:
            due, number = due + MINUTE, number + 1
        return number


def cursor(accounted_until: datetime, baseline: datetime = NOON - HOUR) -> Cursor:
    """Return a cursor without a barrier."""
    return Cursor("j", "f", 0, baseline, accounted_until)


@pytest.mark.parametrize(
    ("overlap", "cause", "active", "queued", "expected"),
    [
        ("skip", "schedule", 0, 0, "START"),
        ("skip", "schedule", 1, 0, "SKIP overlap"),
        ("skip", "schedule", 0, 1, "SKIP overlap"),
        ("skip", "manual", 1, 0, "SKIP overlap"),
        ("skip", "catch_up", 1, 0, "QUEUE"),
        ("skip", "catch_up", 1, 99, "QUEUE"),
        ("queue", "schedule", 0, 0, "START"),
        ("queue", "schedule", 1, 0, "QUEUE"),
        ("queue", "schedule", 1, 2, "QUEUE"),
        ("queue", "schedule", 1, 3, "SKIP queue_full"),
        ("queue", "catch_up", 1, 50, "QUEUE"),
        ("allow", "schedule", 0, 0, "START"),
        ("allow", "schedule", 3, 0, "START"),
        ("allow", "schedule", 4, 0, "SKIP max_running"),
        ("allow", "catch_up", 4, 0, "QUEUE"),
        ("replace", "schedule", 0, 0, "START"),
        ("replace", "schedule", 1, 0, "REPLACE"),
        ("replace", "schedule", 1, 1, "REPLACE"),
        ("replace", "manual", 1, 0, "REPLACE"),
        ("replace", "catch_up", 1, 7, "QUEUE"),
    ],
)
def test_overlap_table(overlap: str, cause: str, active: int, queued: int, expected: str) -> None:
    """P5: each policy admits, queues or skips as its row says (queue_limit 3, max_running 4)."""
    decision = decide_overlap(
        Overlap(overlap), Cause(cause), Load(active, queued), queue_limit=3, max_running=4
    )
    assert f"{decision.admission.name} {decision.code}".strip() == expected


def test_the_newer_run_is_not_replaced() -> None:
    """P5: an older occurrence that comes late is skipped, but where it can simply start."""
    more = {"queue_limit": 3, "max_running": None, "is_overtaken": True}
    decision = decide_overlap(Overlap.REPLACE, Cause.UPSTREAM, Load(1, 0), **more)
    assert (decision.admission, decision.code) == (Admission.SKIP, "overlap")
    for overlap in Overlap:
        free = decide_overlap(overlap, Cause.UPSTREAM, Load(0, 0), **more)
        assert free.admission is Admission.START


def test_allow_without_ceiling_always_starts() -> None:
    """``allow`` without ``max_running`` has no limit of its own."""
    decision = decide_overlap(
        Overlap.ALLOW, Cause.SCHEDULE, Load(10_000, 0), queue_limit=0, max_running=None
    )
    assert decision.admission is Admission.START


GAP = (NOON, NOON + 10 * MINUTE + timedelta(seconds=30))
"""Ten occurrences, 12:01 to 12:10, seen at 12:10:30."""


def minutes(*numbers: int) -> tuple[datetime, ...]:
    """Return the minutes after noon."""
    return tuple(NOON + number * MINUTE for number in numbers)


@pytest.mark.parametrize(
    ("rule", "made_up", "dropped", "words"),
    [
        (("skip", None, 100), (), (1, 10, 10), "skip"),
        (("once", None, 100), (10,), (1, 9, 9), "only the newest"),
        (("all", None, 100), tuple(range(1, 11)), None, ""),
        (("all", None, 3), (8, 9, 10), (1, 7, 7), "missed_limit = 3"),
        (("all", 180, 100), (8, 9, 10), (1, 7, 7), "missed_within"),
        (("once", 20, 100), (), (1, 10, 10), "missed_within"),
        (("once", 60, 100), (10,), (1, 9, 9), "only the newest"),
        (("all", 10_000, 0), (), (1, 10, 10), "missed_limit = 0"),
    ],
)
def test_missed_table(
    rule: tuple[str, int | None, int],
    made_up: tuple[int, ...],
    dropped: tuple[int, int, int] | None,
    words: str,
) -> None:
    """P1: a gap of ten occurrences is made up, oldest first, or dropped in one row, by policy."""
    missed, seconds, limit = rule
    within = timedelta(seconds=seconds) if seconds is not None else None
    plan = plan_missed(EachMinute(), [GAP], MissedRule(Missed(missed), within, limit), GAP[1])
    assert plan is not None
    assert plan.catch_up == minutes(*made_up)
    assert plan.accounted_until == NOON + 10 * MINUTE
    if dropped is None:
        assert plan.dropped is None
    else:
        assert plan.dropped is not None
        first, last, count = dropped
        assert (plan.dropped.first, plan.dropped.last) == minutes(first, last)
        assert plan.dropped.count == count
        assert words in plan.dropped.why


def test_no_gap_no_plan() -> None:
    """Nothing is missed where no occurrence falls into the gap."""
    rule = MissedRule(Missed.ALL, None, 100)
    assert plan_missed(EachMinute(), [(NOON, NOON + timedelta(seconds=59))], rule, NOON) is None
    assert plan_missed(EachMinute(), [], rule, NOON) is None


def test_missed_across_a_barrier() -> None:
    """P2: what was accounted for before the clock was set back is neither run nor counted."""
    behind = Cursor("j", "f", 0, NOON, NOON, barriers=((minutes(3)[0], minutes(7)[0]),))
    stretches = unaccounted(behind, GAP[1])
    plan = plan_missed(EachMinute(), stretches, MissedRule(Missed.ALL, None, 100), GAP[1])
    assert plan is not None
    assert plan.catch_up == minutes(1, 2, 3, 8, 9, 10)
    plan = plan_missed(EachMinute(), stretches, MissedRule(Missed.ALL, None, 4), GAP[1])
    assert plan is not None
    assert plan.catch_up == minutes(3, 8, 9, 10)
    assert plan.dropped is not None
    assert (plan.dropped.first, plan.dropped.last, plan.dropped.count) == (*minutes(1, 2), 2)


def test_what_is_accounted_for() -> None:
    """P2: all up to the cursor and behind a barrier is, and not what lies between."""
    behind = Cursor("j", "f", 0, NOON, minutes(1)[0], barriers=((minutes(3)[0], minutes(7)[0]),))
    accounted = [number for number in range(10) if is_accounted(behind, *minutes(number))]
    assert accounted == [0, 1, 4, 5, 6, 7]


def test_a_schedule_that_does_not_advance_is_found_out() -> None:
    """A schedule that answers with the instant it was asked for is refused, not followed."""

    class Stuck(EachMinute):
        def next_after(self, instant: datetime) -> datetime:
            return instant

    with pytest.raises(ArithmeticError, match="not after"):
        next_unaccounted(Stuck(), cursor(NOON))


@pytest.mark.parametrize(
    ("exit_", "codes", "outcome", "words"),
    [
        (Exit(code=0), {0}, Outcome.SUCCEEDED, ""),
        (Exit(code=3), {0}, Outcome.FAILED, "exit status 3"),
        (Exit(code=3), {0, 3}, Outcome.SUCCEEDED, ""),
        (Exit(code=0), {3}, Outcome.FAILED, "exit status 0"),
        (Exit(signal=9), {0}, Outcome.FAILED, "signal 9"),
        (Exit(), {0}, Outcome.LOST, "could not see"),
    ],
)
def test_exit_table(exit_: Exit, codes: set[int], outcome: Outcome, words: str) -> None:
    """An exit status is judged by ``success_codes``; what nobody saw is lost, not a success."""
    judged, reason = judge_exit(exit_, frozenset(codes))
    assert judged is outcome
    assert words in reason


@pytest.mark.parametrize(
    ("exit_", "limit", "words"),
    [
        (Exit(signal=9, cpu=timedelta(seconds=60)), 60, "(SIGKILL), probably by limits.cpu (1m)"),
        (Exit(signal=9, cpu=timedelta(seconds=46)), 60, "(SIGKILL), probably by limits.cpu (1m)"),
        (Exit(code=137, cpu=timedelta(seconds=60)), 60, "status 137, probably by limits.cpu (1m)"),
        (Exit(signal=9, cpu=timedelta(seconds=40)), 60, "ended by signal 9 (SIGKILL)"),
        (Exit(signal=9, cpu=timedelta(seconds=60)), None, "ended by signal 9 (SIGKILL)"),
        (Exit(signal=9), 60, "ended by signal 9 (SIGKILL)"),
        (Exit(signal=15, cpu=timedelta(seconds=60)), 60, "ended by signal 15 (SIGTERM)"),
        (Exit(code=1, cpu=timedelta(seconds=60)), 60, "exit status 1"),
    ],
)
def test_a_limit_that_has_killed_is_named(exit_: Exit, limit: int | None, words: str) -> None:
    """Where a process is killed whose CPU time has come near it; the kernel tells no more."""
    cpu = timedelta(seconds=limit) if limit else None
    _, reason = judge_exit(exit_, frozenset({0}), Limits(cpu=cpu))
    assert reason.endswith(words)


def test_retry_delays_grow_to_their_ceiling() -> None:
    """Delays are delay * backoff^(n-1), at most max_delay, plus the share of the jitter."""
    retry = Retry(10, timedelta(seconds=30), 2.0, timedelta(minutes=3), timedelta(seconds=8))
    seconds = [retry_delay(retry, attempt, 0.0).total_seconds() for attempt in range(1, 6)]
    assert seconds == [30, 60, 120, 180, 180]
    assert retry_delay(retry, 1, 0.5) == timedelta(seconds=34)
    assert retry_delay(retry, 100_000, 0.0) == timedelta(minutes=3)


@pytest.mark.parametrize(
    ("outcome", "attempt", "expected"),
    [
        (Outcome.FAILED, 1, True),
        (Outcome.FAILED, 2, True),
        (Outcome.FAILED, 3, False),
        (Outcome.TIMED_OUT, 1, True),
        (Outcome.SUCCEEDED, 1, False),
        (Outcome.CANCELLED, 1, False),
        (Outcome.LOST, 1, False),
    ],
)
def test_retry_table(outcome: Outcome, attempt: int, expected: bool) -> None:
    """Only what failed or timed out is tried again, and only as often as ``attempts`` says."""
    assert wants_retry(outcome, attempt, Retry(attempts=3)) is expected


@pytest.mark.parametrize(
    ("state", "remains", "rerun", "exists", "expected"),
    [
        ("running", Remains.LEADER, False, True, Recovery.ADOPT),
        ("running", Remains.LEADER, True, False, Recovery.ADOPT),
        ("running", Remains.NOTHING, False, True, Recovery.LOST),
        ("running", Remains.NOTHING, True, True, Recovery.RERUN),
        ("running", Remains.NOTHING, True, False, Recovery.LOST),
        ("running", Remains.REST, False, True, Recovery.LOST),
        ("running", Remains.REST, True, True, Recovery.RERUN),
        ("queued", Remains.NOTHING, False, True, Recovery.REQUEUE),
        ("queued", Remains.NOTHING, False, False, Recovery.REMOVED),
        ("waiting_retry", Remains.NOTHING, False, True, Recovery.REQUEUE),
        ("waiting_retry", Remains.REST, False, True, Recovery.REQUEUE),
        ("waiting_retry", Remains.NOTHING, False, False, Recovery.REMOVED),
    ],
)
def test_recovery_table(
    state: str,
    remains: Remains,
    rerun: bool,
    exists: bool,
    expected: Recovery,
) -> None:
    """P2, P3, P5: survivors are adopted; what a crash cut is lost, or run again on request."""
    recovery = decide_recovery(
        State(state),
        remains=remains,
        was_seen=True,
        stopping=None,
        leftovers=Leftovers.LEAVE,
        wants_rerun=rerun,
        job_exists=exists,
    )
    assert recovery is expected


@pytest.mark.parametrize("rerun", [True, False])
def test_what_may_be_the_command_itself_holds_its_job(*, rerun: bool) -> None:
    """P5: where the start was not entered, nothing is started beside what is found."""
    recovery = decide_recovery(
        State.RUNNING,
        remains=Remains.REST,
        was_seen=False,
        stopping=None,
        leftovers=Leftovers.LEAVE,
        wants_rerun=rerun,
        job_exists=True,
    )
    assert recovery is Recovery.ADOPT_REST


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("rerun", [True, False])
def test_what_outlives_its_command_is_ended_where_the_job_says_so(
    rerun: bool, exists: bool
) -> None:
    """P6: with leftovers = "kill" descendants whose leader is gone are ended before all else."""
    recovery = decide_recovery(
        State.RUNNING,
        remains=Remains.REST,
        was_seen=True,
        stopping=None,
        leftovers=Leftovers.KILL,
        wants_rerun=rerun,
        job_exists=exists,
    )
    assert recovery is Recovery.END_REST


@pytest.mark.parametrize(
    ("lost", "expected"), [(1, True), (2, True), (3, True), (4, False), (5, False)]
)
def test_a_run_that_is_cut_short_again_and_again_is_given_up(lost: int, expected: bool) -> None:
    """P3: an occurrence is run again three times at most; it may be what takes us down."""
    assert wants_rerun(OnCrash.RERUN, lost) is expected
    assert not wants_rerun(OnCrash.LOST, lost)


@pytest.mark.parametrize(
    ("outcome", "exit_", "retry_on", "expected"),
    [
        (Outcome.FAILED, Exit(code=1), None, True),
        (Outcome.FAILED, Exit(code=75), frozenset({75}), True),
        (Outcome.FAILED, Exit(code=1), frozenset({75}), False),
        (Outcome.FAILED, Exit(code=1), frozenset({Failure.SIGNAL}), False),
        (Outcome.FAILED, Exit(signal=9), frozenset({Failure.SIGNAL}), True),
        (Outcome.FAILED, Exit(signal=9), frozenset({9}), False),
        (Outcome.FAILED, None, frozenset({Failure.START}), True),
        (Outcome.FAILED, None, frozenset({1, Failure.TIMEOUT}), False),
        (Outcome.TIMED_OUT, Exit(signal=15), frozenset({Failure.TIMEOUT}), True),
        (Outcome.TIMED_OUT, Exit(signal=15), frozenset({Failure.SIGNAL}), False),
        (Outcome.TIMED_OUT, Exit(code=75), frozenset({75}), False),
    ],
)
def test_retry_on_names_the_failures_that_are_tried_again(
    outcome: Outcome, exit_: Exit | None, retry_on: frozenset[int | Failure] | None, expected: bool
) -> None:
    """An attempt is tried again where retry_on names its exit status, or the way it failed."""
    assert is_retryable(outcome, exit_, retry_on) is expected


@pytest.mark.parametrize("on_crash", list(OnCrash))
def test_a_cancelled_run_is_not_run_again(on_crash: OnCrash) -> None:
    """P3: what was being cancelled when the daemon died is cancelled; it is not run again."""
    for remains, expected in (
        (Remains.NOTHING, Recovery.STOPPED),
        (Remains.REST, Recovery.END_REST),
        (Remains.LEADER, Recovery.ADOPT),
    ):
        recovery = decide_recovery(
            State.RUNNING,
            remains=remains,
            was_seen=True,
            stopping=Outcome.CANCELLED,
            leftovers=Leftovers.LEAVE,
            wants_rerun=wants_rerun(on_crash, 1),
            job_exists=True,
        )
        assert recovery is expected


@pytest.mark.parametrize(
    ("condition", "met_by"),
    [
        ("success", {"succeeded"}),
        ("failure", {"failed", "timed_out", "lost"}),
        ("any", set(Outcome)),
    ],
)
def test_what_meets_a_condition(condition: str, met_by: set[str]) -> None:
    """Each condition of ``after`` is met by the outcomes that its name says, and no others."""
    assert {o for o in Outcome if meets(Condition(condition), o)} == met_by


@pytest.mark.parametrize(
    ("condition", "outcome", "missing", "expected"),
    [
        ("success", "succeeded", 1, Follow.WAIT),
        ("any", "failed", 1, Follow.WAIT),
        ("any", "skipped", 0, Follow.RUN),
        ("failure", "failed", 0, Follow.RUN),
        ("success", "failed", 1, Follow.SKIP),
        ("success", "cancelled", 0, Follow.SKIP),
    ],
)
def test_a_run_waits_for_all_and_is_skipped_for_one(
    condition: str, outcome: str, missing: int, expected: Follow
) -> None:
    """A run comes when all it waits for ended as asked; it is known not to come at the first no."""
    assert judge_upstream(Condition(condition), Outcome(outcome), missing) is expected
