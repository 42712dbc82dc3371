"""What every ledger does with what is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from crond_py.errors import LedgerError
from crond_py.model import (
    Absence,
    Attempt,
    Cause,
    ClockReading,
    Cursor,
    Exit,
    Left,
    Outcome,
    PastTime,
    PastTimes,
    Run,
    Scale,
    State,
)
from crond_py.ports import (
    Claim,
    Ledger,
    LedgerReader,
    RunQuery,
    SetAttempt,
    SetCursor,
    SetRun,
)
from tests.support.ledgers import T0, at, attempted, claim, enter, finish

EVERYTHING = RunQuery(limit=None)

AWKWARD_TEXTS = [
    "",
    "naïve café 時計 🕰",
    "line\nline\r\n\ttab",
    "quote ' \" ; -- DROP TABLE runs",
    "nul \x00 within",
    "/var/lib/\udcff\udcfe/output",  # bytes that are no UTF-8, as os.fsdecode gives them
    "lone \ud800 surrogate",
    "\x1b[31mred\x1b[0m",
    "x" * 100_000,
]


# --- claims -----------------------------------------------------------------------------------


def test_claims_get_ids_of_their_own(ledger: Ledger, reader: LedgerReader) -> None:
    """Each claim becomes a run whose id is larger than those of all claims before (P1)."""
    first = enter(ledger, claim("a"), claim("b"), claim("c"))
    second = enter(ledger, claim("a", at(60)))
    assert sorted({*first, *second}) == [*first, *second]
    assert [reader.run(run_id).job for run_id in [*first, *second]] == ["a", "b", "c", "a"]


def test_occurrence_is_claimed_once(ledger: Ledger, reader: LedgerReader) -> None:
    """A claim of an occurrence that has its run is refused, and leaves that run alone (P2)."""
    (run_id,) = enter(ledger, claim())
    before = reader.run(run_id)
    again = replace(attempted(), cause=Cause.CATCH_UP, claimed_at=at(500))
    assert ledger.write([again], durable=True) == [None]
    assert reader.runs(EVERYTHING) == [before]


@pytest.mark.parametrize(
    "other",
    [
        claim("Backup"),
        claim("backup "),
        claim(due=T0 + timedelta(microseconds=1)),
        replace(claim(), era=1),
    ],
)
def test_other_occurrence_is_another(ledger: Ledger, other: Claim) -> None:
    """Another job, era or instant, however near, is another occurrence."""
    enter(ledger, claim())
    assert ledger.write([other], durable=True) != [None]


def test_occurrence_is_the_same_in_any_zone(ledger: Ledger) -> None:
    """The instant decides, not how it is written."""
    enter(ledger, claim())
    elsewhere = claim(due=T0.astimezone(timezone(timedelta(hours=5, minutes=45))))
    assert ledger.write([elsewhere], durable=True) == [None]


def test_refused_claim_keeps_nobody_from_theirs(ledger: Ledger, reader: LedgerReader) -> None:
    """Beside a refused claim the others of the same write stand, in their places (P1)."""
    enter(ledger, claim("b"))
    a, b, c, a_again = ledger.write(
        [claim("a"), attempted("b"), claim("c"), claim("a")], durable=True
    )
    assert (b, a_again) == (None, None)
    assert {run.id: run.job for run in reader.runs(EVERYTHING) if run.job != "b"} == {
        a: "a",
        c: "c",
    }


def test_claim_begins_an_attempt(ledger: Ledger, reader: LedgerReader) -> None:
    """A claim's attempt is there with the run."""
    attempt = Attempt(1, begun_at=at(1), boot_id="boot")
    (run_id,) = enter(ledger, claim(attempt=attempt))
    assert reader.run(run_id).attempts == (attempt,)


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("state", [state for state in State if state is not State.DONE])
def test_open_claim_is_kept_as_it_is(
    ledger: Ledger, reader: LedgerReader, cause: Cause, state: State
) -> None:
    """What a claim says is what its run says."""
    (run_id,) = enter(ledger, Claim("backup", 3, T0, cause, state, at(2)))
    assert reader.run(run_id) == Run(run_id, "backup", 3, T0, cause, state, at(2))


@pytest.mark.parametrize("outcome", Outcome)
def test_claim_with_an_outcome_has_finished(
    ledger: Ledger, reader: LedgerReader, outcome: Outcome
) -> None:
    """A run entered with its outcome ended when it was claimed, and is not open (P1)."""
    whole = replace(claim(outcome=outcome), reason="why", last_due=at(600), count=11)
    (run_id,) = enter(ledger, whole)
    assert reader.run(run_id) == Run(
        run_id,
        "backup",
        0,
        T0,
        Cause.SCHEDULE,
        State.DONE,
        at(1),
        outcome=outcome,
        reason="why",
        last_due=at(600),
        count=11,
        finished_at=at(1),
    )
    assert reader.open_runs() == []


@pytest.mark.parametrize("text", AWKWARD_TEXTS)
def test_any_text_is_kept(ledger: Ledger, reader: LedgerReader, text: str) -> None:
    """Reasons and output paths come back character for character, whatever they hold."""
    attempt = Attempt(1, begun_at=T0, reason=text, output=text)
    (run_id,) = enter(ledger, replace(claim(attempt=attempt), reason=text))
    run = reader.run(run_id)
    assert (run.reason, run.attempts) == (text, (attempt,))
    ledger.write([SetRun(run_id, State.QUEUED, reason=f"{text}!")], durable=False)
    assert reader.run(run_id).reason == f"{text}!"


@pytest.mark.parametrize("job", ["naïve 時計 🕰", "a'b\"c", "x" * 5000, "nul \x00"])
def test_any_job_name_is_kept(ledger: Ledger, reader: LedgerReader, job: str) -> None:
    """A job is found by its name, whatever it is."""
    (run_id,) = enter(ledger, claim(job))
    assert [run.id for run in reader.runs(RunQuery(job=job))] == [run_id]


@pytest.mark.parametrize(
    "instant",
    [
        datetime.min.replace(tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
        datetime(2400, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ],
)
def test_instants_are_exact(ledger: Ledger, reader: LedgerReader, instant: datetime) -> None:
    """Every instant that Python knows comes back to the microsecond, in UTC."""
    past = PastTimes(
        (PastTime(instant, instant, timedelta.max),), ClockReading("boot", -timedelta.resolution)
    )
    absences = (
        Absence(Scale.WALL, instant, instant, "asleep"),
        Absence(Scale.STEADY, instant, instant, "lost", Outcome.LOST),
        Absence(Scale.STEADY, instant, instant, "lost", Outcome.LOST, 2**63 - 1),
    )
    cursor = Cursor("backup", "f", 0, instant, instant, past=past, absences=absences)
    whole = Claim("backup", 0, instant, Cause.SCHEDULE, State.QUEUED, instant)
    (run_id,) = enter(ledger, whole)
    ledger.write([SetCursor(cursor)], durable=True)
    assert reader.run(run_id).due.isoformat() == instant.isoformat()
    assert reader.cursors() == {"backup": cursor}


# --- changes ----------------------------------------------------------------------------------


def test_run_is_changed_as_given(ledger: Ledger, reader: LedgerReader) -> None:
    """A change sets all that it names, None and the empty reason too."""
    (run_id,) = enter(ledger, claim())
    before = reader.run(run_id)
    waiting = SetRun(run_id, State.WAITING_RETRY, reason="exit status 1", retry_at=at(30))
    ledger.write([waiting], durable=False)
    assert reader.run(run_id) == replace(
        before, state=State.WAITING_RETRY, reason="exit status 1", retry_at=at(30)
    )
    ledger.write([SetRun(run_id, State.RUNNING)], durable=False)
    assert reader.run(run_id) == before
    left = SetRun(run_id, State.QUEUED, left_as=Left.RECALLED)
    ledger.write([left], durable=False)
    assert reader.run(run_id) == replace(before, state=State.QUEUED, left_as=Left.RECALLED)
    done = SetRun(run_id, State.DONE, outcome=Outcome.LOST, reason="cut short", finished_at=at(40))
    ledger.write([done], durable=False)
    assert reader.run(run_id) == replace(
        before,
        state=State.DONE,
        outcome=Outcome.LOST,
        reason="cut short",
        finished_at=at(40),
    )


def test_run_is_made_up_for(ledger: Ledger, reader: LedgerReader) -> None:
    """Its cause and since when it is claimed are others from then on, whatever changes later."""
    (run_id,) = enter(ledger, claim())
    before = reader.run(run_id)
    assert before.cause is Cause.SCHEDULE
    ledger.write([SetRun(run_id, State.QUEUED, made_up_at=at(9))], durable=False)
    made_up = replace(before, cause=Cause.CATCH_UP, claimed_at=at(9))
    assert reader.run(run_id) == replace(made_up, state=State.QUEUED)
    ledger.write([SetRun(run_id, State.RUNNING)], durable=False)
    assert reader.run(run_id) == made_up


ATTEMPTS = [
    Attempt(1, begun_at=T0),
    Attempt(1, begun_at=T0, pid=4321, start_ticks=2**40, boot_id="b", started_at=at(0.001)),
    Attempt(
        1,
        begun_at=T0,
        pid=1,
        started_at=T0,
        finished_at=at(3),
        exit=Exit(code=0, cpu=timedelta(seconds=2, microseconds=1), peak_memory_bytes=2**40),
        outcome=Outcome.SUCCEEDED,
        output="/out/1.1",
    ),
    Attempt(1, begun_at=T0, exit=Exit(signal=9, cpu=timedelta(0)), outcome=Outcome.TIMED_OUT),
    Attempt(1, begun_at=T0, exit=Exit(), outcome=Outcome.LOST, reason="ended unseen"),
    Attempt(1, begun_at=T0, exit=None, outcome=Outcome.FAILED, reason="cannot start: no such file"),
    Attempt(1, begun_at=T0, pid=7, reason="timed out after 2h", stopping=Outcome.TIMED_OUT),
    Attempt(1, begun_at=T0, reason="cancelled on request", stopping=Outcome.CANCELLED),
    Attempt(1, begun_at=T0, user="zoë"),
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_attempt_is_kept_as_it_is(ledger: Ledger, reader: LedgerReader, attempt: Attempt) -> None:
    """What is known of a process comes back whole; an exit nobody saw is not the same as none."""
    (run_id,) = enter(ledger, claim())
    ledger.write([SetAttempt(run_id, attempt)], durable=False)
    assert reader.run(run_id).attempts == (attempt,)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_attempt_is_replaced_whole(ledger: Ledger, reader: LedgerReader, attempt: Attempt) -> None:
    """Of an attempt that is entered again nothing old is left."""
    full = replace(ATTEMPTS[2], start_ticks=5, boot_id="b", reason="r", stopping=Outcome.CANCELLED)
    (run_id,) = enter(ledger, claim(attempt=full))
    ledger.write([SetAttempt(run_id, attempt)], durable=False)
    assert reader.run(run_id).attempts == (attempt,)


def test_attempts_are_in_order(ledger: Ledger, reader: LedgerReader) -> None:
    """Attempts come by their number, in whatever order they were entered (P3)."""
    (run_id,) = enter(ledger, claim())
    ledger.write([SetAttempt(run_id, Attempt(n, at(n))) for n in (3, 1, 12, 2)], durable=False)
    for runs in ([reader.run(run_id)], reader.runs(EVERYTHING), reader.open_runs()):
        assert [[a.number for a in run.attempts] for run in runs] == [[1, 2, 3, 12]]


def test_writes_are_in_order(ledger: Ledger, reader: LedgerReader) -> None:
    """Where one write says two things about the same, the later one holds."""
    (run_id,) = enter(ledger, claim())
    cursor = Cursor("backup", "f", 0, T0, T0)
    ledger.write(
        [
            finish(run_id, at(5)),
            SetAttempt(run_id, Attempt(1, T0, pid=1)),
            SetCursor(cursor),
            SetRun(run_id, State.QUEUED, reason="last"),
            SetAttempt(run_id, Attempt(1, T0, pid=2)),
            SetCursor(replace(cursor, era=2)),
        ],
        durable=False,
    )
    run = reader.run(run_id)
    assert (run.state, run.reason, run.attempts[0].pid) == (State.QUEUED, "last", 2)
    assert reader.cursors()["backup"].era == 2


def test_cursor_is_entered_and_replaced(ledger: Ledger, reader: LedgerReader) -> None:
    """Each job has one cursor, the last that was given, whole."""
    assert reader.cursors() == {}
    barriers = ((at(2), at(3)), (at(5), at(9)), (at(10), at(11)))
    full = Cursor("a", "f1", 2, T0, at(60), at(1), barriers, "boot")
    other = Cursor("b", "f2", 0, T0, T0)
    ledger.write([SetCursor(full), SetCursor(other)], durable=True)
    assert reader.cursors() == {"a": full, "b": other}
    bare = Cursor("a", "f3", 3, at(9), at(9))
    ledger.write([SetCursor(bare)], durable=True)
    assert reader.cursors() == {"a": bare, "b": other}


def test_nothing_to_write_is_fine(ledger: Ledger) -> None:
    """An empty write does nothing."""
    assert ledger.write([], durable=True) == []


# --- the ledger itself --------------------------------------------------------------------------


def test_identity_stays(ledger: Ledger, reader: LedgerReader) -> None:
    """A ledger has a short name that is fit for a tag, the same for all who ask."""
    assert ledger.identity == reader.identity
    assert len(ledger.identity) == 8
    assert set(ledger.identity) <= set("0123456789abcdef")


def test_close_is_idempotent(ledger: Ledger) -> None:
    """Closing twice is fine; using a closed ledger is a LedgerError."""
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.write([claim()], durable=True)
    with pytest.raises(LedgerError, match="closed"):
        ledger.runs(EVERYTHING)


def test_closed_reader_says_so(reader: LedgerReader) -> None:
    """Asking a closed reader is a LedgerError."""
    reader.close()
    reader.close()
    with pytest.raises(LedgerError, match="closed"):
        reader.cursors()
