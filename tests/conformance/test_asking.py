"""What every ledger answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from crond_py.errors import UnknownNameError
from crond_py.model import Attempt, Outcome, State
from crond_py.ports import Ledger, LedgerReader, RunQuery, SetAttempt, SetRun
from tests.support.ledgers import T0, at, attempted, claim, enter, finish


def _ids(reader: LedgerReader, query: RunQuery) -> list[int]:
    return [run.id for run in reader.runs(query)]


# --- single runs, open runs, last runs ----------------------------------------------------------


def test_empty_ledger_has_nothing(reader: LedgerReader) -> None:
    """Before anything is written every answer is empty."""
    assert reader.run(1) is None
    assert reader.runs(RunQuery()) == []
    assert reader.open_runs() == []
    assert reader.cursors() == {}
    assert reader.last_runs() == {}


@pytest.mark.parametrize("run_id", [0, -1, 2, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**30)])
def test_unknown_run_is_none(ledger: Ledger, reader: LedgerReader, run_id: int) -> None:
    """A run that never was is None, whatever number is asked for."""
    enter(ledger, claim())
    assert reader.run(run_id) is None


def test_open_runs_are_those_without_outcome(ledger: Ledger, reader: LedgerReader) -> None:
    """What a restart must look after is there, oldest claim first, and nothing else (P1)."""
    late, done, early, skipped = enter(
        ledger,
        attempted("a", at(60)),
        attempted("b", at(0)),
        claim("c", at(-60), state=State.QUEUED),
        claim("d", outcome=Outcome.SKIPPED),
    )
    ledger.write(
        [
            finish(done, at(9)),
            SetRun(late, State.WAITING_RETRY, retry_at=at(99)),
            SetAttempt(late, Attempt(2, at(70))),
        ],
        durable=False,
    )
    assert [run.id for run in reader.open_runs()] == [late, early]
    assert [len(run.attempts) for run in reader.open_runs()] == [2, 0]
    assert skipped not in [run.id for run in reader.open_runs()]


def test_last_runs_are_the_newest_attempted(ledger: Ledger, reader: LedgerReader) -> None:
    """A job's last run is the latest claimed one with an attempt, skipped ones left out."""
    enter(ledger, attempted("a", at(0)), claim("b", at(0), state=State.QUEUED))
    _, newest, waiting, _ = enter(
        ledger,
        attempted("a", at(60)),
        attempted("a", at(30)),  # claimed later, due earlier: the wall clock was set back
        claim("b", at(60), state=State.QUEUED),
        claim("a", at(120), outcome=Outcome.SKIPPED),
    )
    assert {job: run.id for job, run in reader.last_runs().items()} == {"a": newest}
    ledger.write([SetAttempt(waiting, Attempt(1, at(61)))], durable=False)
    assert {job: run.id for job, run in reader.last_runs().items()} == {"a": newest, "b": waiting}
    assert reader.last_runs()["b"] == reader.run(waiting)


def test_last_run_is_not_an_older_one_tried_again(ledger: Ledger, reader: LedgerReader) -> None:
    """A further attempt of an older run does not make it the last one."""
    older, newer = enter(ledger, attempted("a", at(0)), attempted("a", at(60)))
    ledger.write([SetAttempt(older, Attempt(2, at(90)))], durable=False)
    assert reader.last_runs()["a"].id == newer


# --- lists ------------------------------------------------------------------------------------


def test_newest_due_comes_first(ledger: Ledger, reader: LedgerReader) -> None:
    """Runs are listed by due instant, newest first; of one instant the latest claim first."""
    ids = enter(
        ledger,
        claim("a", at(10)),
        claim("b", at(30)),
        claim("c", at(10)),
        claim("d", at(20)),
        replace(claim("a", at(10)), era=1),
    )
    a, b, c, d, a_again = ids
    assert _ids(reader, RunQuery()) == [b, d, a_again, c, a]
    assert _ids(reader, RunQuery(job="a")) == [a_again, a]


def _varied(ledger: Ledger) -> dict[str, int]:
    """Enter a run of many kinds each, and return their ids by a letter."""
    ids = enter(
        ledger,
        attempted("x", at(0)),
        attempted("x", at(10)),
        claim("x", at(20), outcome=Outcome.SKIPPED),
        claim("x", at(30), state=State.QUEUED),
        attempted("y", at(0)),
        attempted("y", at(10)),
        claim("y", at(20), state=State.WAITING_RETRY),
        claim("y", at(-500), outcome=Outcome.MISSED, last_due=at(12), count=51),
    )
    named = dict(zip("abcdefgh", ids, strict=True))
    ledger.write(
        [
            finish(named["a"], at(1)),
            finish(named["b"], at(11), Outcome.FAILED),
            finish(named["e"], at(1)),
        ],
        durable=False,
    )
    return named


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (RunQuery(), "dgcfbeah"),
        (RunQuery(limit=None), "dgcfbeah"),
        (RunQuery(limit=3), "dgc"),
        (RunQuery(limit=0), ""),
        (RunQuery(limit=-1), ""),
        (RunQuery(limit=10**30), "dgcfbeah"),
        (RunQuery(job="x"), "dcba"),
        (RunQuery(job="z"), ""),
        (RunQuery(job="\udcff"), ""),
        (RunQuery(outcomes=frozenset({Outcome.SUCCEEDED})), "ea"),
        (RunQuery(outcomes=frozenset({Outcome.FAILED, Outcome.SKIPPED})), "cb"),
        (RunQuery(outcomes=frozenset({Outcome.SUCCEEDED, Outcome.MISSED})), "eah"),
        (RunQuery(outcomes=frozenset({Outcome.LOST})), ""),
        (RunQuery(states=frozenset({State.RUNNING})), "f"),
        (RunQuery(states=frozenset({State.QUEUED, State.WAITING_RETRY})), "dg"),
        (RunQuery(states=frozenset({State.DONE})), "cbeah"),
        (RunQuery(states=frozenset({State.DONE, State.QUEUED})), "dcbeah"),
        (RunQuery(outcomes=frozenset({Outcome.FAILED}), states=frozenset({State.QUEUED})), ""),
        (RunQuery(since=at(20)), "dgc"),
        (RunQuery(until=at(20)), "fbeah"),
        (RunQuery(since=at(10), until=at(20)), "fbh"),
        (RunQuery(since=at(12), until=at(20)), "h"),
        (RunQuery(since=at(13), until=at(20)), ""),
        (RunQuery(until=at(-500)), ""),
        (RunQuery(job="y", since=at(5), until=at(15), limit=1), "f"),
        (RunQuery(job="x", outcomes=frozenset({Outcome.FAILED}), since=at(0)), "b"),
        (RunQuery(since=datetime.min.replace(tzinfo=T0.tzinfo)), "dgcfbeah"),
    ],
)
def test_query_chooses(
    ledger: Ledger, reader: LedgerReader, query: RunQuery, expected: str
) -> None:
    """A list has the runs that meet all that is asked, and no others, in order."""
    named = _varied(ledger)
    assert _ids(reader, query) == [named[letter] for letter in expected]


def test_listed_runs_are_whole(ledger: Ledger, reader: LedgerReader) -> None:
    """A listed run is the same as the run asked for by its id, attempts and all."""
    named = _varied(ledger)
    ledger.write([SetAttempt(named["b"], Attempt(2, at(11), reason="again"))], durable=False)
    for run in reader.runs(RunQuery()):
        assert run == reader.run(run.id)


def test_limit_counts_runs_not_attempts(ledger: Ledger, reader: LedgerReader) -> None:
    """However many attempts the runs have, as many runs come as were asked for."""
    ids = enter(ledger, *[attempted("a", at(n)) for n in range(4)])
    ledger.write(
        [SetAttempt(run_id, Attempt(n, at(n))) for run_id in ids for n in (2, 3)], durable=False
    )
    assert [len(run.attempts) for run in reader.runs(RunQuery(limit=2))] == [3, 3]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("job", [None, "x"])
def test_pages_join_up(ledger: Ledger, reader: LedgerReader, size: int, job: str | None) -> None:
    """Page by page one sees each run of the list once, also where many are due together."""
    enter(ledger, *[claim(f"j{n}", at(n // 3)) for n in range(9)])
    enter(ledger, *[claim("x", at(n)) for n in range(3)])
    enter(ledger, *[replace(claim("x", at(1)), era=era) for era in (1, 2, 3)])
    whole = _ids(reader, RunQuery(job=job, limit=None))
    paged: list[int] = []
    before = None
    while page := _ids(reader, RunQuery(job=job, limit=size, before_id=before)):
        paged += page
        before = page[-1]
    assert paged == whole


@pytest.mark.parametrize("before_id", [99, 0, -1, 2**63, -(10**30)])
def test_paging_from_nowhere_is_an_error(
    ledger: Ledger, reader: LedgerReader, before_id: int
) -> None:
    """A page after a run that is not there is refused: an empty one would hide the rest."""
    enter(ledger, claim())
    with pytest.raises(UnknownNameError, match=str(before_id)):
        reader.runs(RunQuery(before_id=before_id))
