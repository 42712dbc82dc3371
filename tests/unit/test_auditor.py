"""The outside auditor of the tests that kill the daemon: it must be able to find fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.auditor import Evidence, Rule, audit
from tests.support.witness import (
    SECOND,
    AttemptRow,
    Book,
    CursorRow,
    RunRow,
    Word,
    read_words,
    unended,
    write_word,
)

IDENTITY = "0123abcd"
START = 1_000 * 60 * SECOND
JOB = "job"
CRASH = START + SECOND // 2
RULE = Rule(JOB, seconds=frozenset(range(60)), missed="all")


def _at(second: int) -> int:
    return START + second * SECOND


def _attempt(number: int, second: int, outcome: str = "succeeded", **more: object) -> AttemptRow:
    begun = _at(second) + (number - 1) * SECOND // 4
    codes = {"succeeded": 0, "failed": 3}
    row = AttemptRow(number, begun, begun + 1000, codes.get(outcome), None, outcome, "")
    return replace(row, **more)  # type: ignore[arg-type]


def _run(second: int, *attempts: AttemptRow, **more: object) -> RunRow:
    outcome = attempts[-1].outcome if attempts else "skipped"
    row = RunRow(
        id=second + 1,
        job=JOB,
        era=0,
        due=_at(second),
        cause="schedule",
        state="done",
        outcome=outcome,
        reason="" if attempts and outcome != "lost" else "why",
        last_due=_at(second),
        count=1,
        claimed_at=_at(second),
        finished_at=_at(second) + SECOND,
        attempts=attempts,
    )
    return replace(row, **more)  # type: ignore[arg-type]


def _said(second: int, number: int = 1, status: int = 0, kinds: str = "begin end") -> list[Word]:
    return [
        Word(kind, 100 + second, JOB, IDENTITY, second + 1, _at(second), number, status)
        for kind in kinds.split()
    ]


def _good() -> Evidence:
    """Return four seconds of a job: two good runs, one that failed, one that was skipped."""
    runs = (
        _run(0, _attempt(1, 0)),
        _run(1, _attempt(1, 1)),
        _run(2, _attempt(1, 2, "failed")),
        _run(3),
    )
    return Evidence(
        rules=(RULE,),
        words=(*_said(0), *_said(1), *_said(2, status=3)),
        book=Book(IDENTITY, runs, {JOB: CursorRow(START - SECOND, _at(3))}),
        until=_at(3),
    )


def _with_runs(evidence: Evidence, *runs: RunRow) -> Evidence:
    """Put other rows in the place of those with the same id, and new ones behind them."""
    changed = {run.id: run for run in (*evidence.book.runs, *runs)}
    return replace(evidence, book=replace(evidence.book, runs=tuple(changed.values())))


def _without_run(evidence: Evidence, run_id: int) -> Evidence:
    runs = tuple(run for run in evidence.book.runs if run.id != run_id)
    return replace(evidence, book=replace(evidence.book, runs=runs))


def _with_words(evidence: Evidence, *words: Word) -> Evidence:
    return replace(evidence, words=(*evidence.words, *words))


def _with_rule(evidence: Evidence, **more: object) -> Evidence:
    return replace(evidence, rules=(replace(RULE, **more),))  # type: ignore[arg-type]


def test_nothing_to_complain_about() -> None:
    """Where every promise was kept nothing is found."""
    assert audit(_good()) == []


def _stretch() -> Evidence:
    """Return what is left of a daemon that was down for the second and the third second."""
    stretch = _run(1, outcome="missed", last_due=_at(2), count=2)
    evidence = _with_rule(_with_runs(_without_run(_good(), 3), stretch), missed="once")
    return replace(evidence, words=tuple(_said(0)))


def _retried(*outcomes: str) -> Evidence:
    """Return a run with attempts that ended so; what ended by itself has said so."""
    attempts = [_attempt(n, 2, outcome) for n, outcome in enumerate(outcomes, 1)]
    words = [*_said(0), *_said(1)]
    for number, outcome in enumerate(outcomes, 1):
        kinds = "begin end" if outcome in {"succeeded", "failed"} else "begin"
        words += _said(2, number, 3 if outcome == "failed" else 0, kinds)
        if outcome == "lost":
            words += _said(2, number, kinds="gone")
    evidence = replace(_with_runs(_good(), _run(2, *attempts)), words=tuple(words))
    return _with_rule(evidence, attempts=3, retry_delay=SECOND // 5)


def _crashed(evidence: Evidence, *, second: int = 2) -> Evidence:
    return replace(evidence, ended_at=(_at(second) + 500,))


def _beyond_the_limit() -> Evidence:
    """Return a stretch that was dropped since no more than one occurrence is made up."""
    runs = (_run(2, _attempt(1, 2, "failed"), cause="catch_up"),)
    evidence = _with_runs(_with_rule(_stretch(), missed="all", missed_limit=1), *runs)
    evidence = _with_runs(evidence, _run(1, outcome="missed", last_due=_at(1), count=1))
    return replace(evidence, words=(*_said(0), *_said(2, status=3)))


def _asked_for_at_the_last_moment() -> Evidence:
    """Return a run that was asked for when the next occurrence had been claimed ahead."""
    ahead = replace(_run(1, _attempt(1, 1)), claimed_at=_at(1) - SECOND // 2)
    asked_at = _at(1) - SECOND // 10
    asked = replace(
        _run(4, _attempt(1, 4)),
        due=asked_at,
        last_due=asked_at,
        claimed_at=asked_at,
        cause="manual",
    )
    words = [replace(word, due=asked_at) for word in _said(4)]
    evidence = _with_rule(_with_runs(_good(), ahead, asked), overlap="queue")
    return replace(evidence, words=(*_said(0), *_said(1), *words, *_said(2, status=3)))


SOUND = {
    "missed beyond the limit": _beyond_the_limit,
    "missed stretch": _stretch,
    "retry": lambda: _retried("failed", "failed", "succeeded"),
    "all retries used": lambda: _retried("failed", "failed", "failed"),
    "lost in a crash": lambda: _crashed(_retried("lost")),
    "rerun": lambda: _with_rule(_crashed(_retried("lost", "succeeded")), on_crash="rerun"),
    "interval": lambda: _with_rule(_good(), seconds=frozenset(), period=SECOND),
    "timed out, then the next": lambda: _with_rule(
        replace(
            _with_runs(_good(), _run(1, _attempt(1, 1, "timed_out"))),
            words=(*_said(0), *_said(1, kinds="begin"), *_said(2, status=3)),
        ),
        has_timeout=True,
    ),
    "by hand": lambda: replace(
        _with_words(_with_runs(_good(), _by_hand()), *_words_by_hand()),
        triggered=frozenset({8}),
    ),
    "asked for at the last moment": _asked_for_at_the_last_moment,
    "two alive where two may be": lambda: _with_rule(
        replace(_good(), words=tuple(_overlapping())), overlap="allow", max_running=2
    ),
}


def _by_hand() -> RunRow:
    return _run(7, _attempt(1, 7), cause="manual", due=_at(2) + 1, last_due=_at(2) + 1)


def _words_by_hand() -> list[Word]:
    return [replace(word, due=_at(2) + 1) for word in _said(7)]


def _overlapping() -> list[Word]:
    first, second = _said(0), _said(1)
    return [first[0], second[0], first[1], second[1], *_said(2, status=3)]


@pytest.mark.parametrize("evidence", SOUND.values(), ids=SOUND.keys())
def test_what_is_sound(evidence: Callable[[], Evidence]) -> None:
    """What policies allow is not taken for a fault."""
    assert audit(evidence()) == []


def _late_book() -> Evidence:
    """Return the good story without its first two seconds."""
    evidence = _without_run(_without_run(_good(), 1), 2)
    return replace(evidence, words=tuple(_said(2, status=3)))


def _lied(number: int, attempt: AttemptRow) -> Evidence:
    """Return the good story with another attempt in the row of a run."""
    return _with_runs(_good(), _run(number, attempt))


class Planted(NamedTuple):
    """A fault, and words of the sentence that must be found for it."""

    name: str
    evidence: Callable[[], Evidence]
    words: str


PLANTED = [
    # every occurrence has one row (P1)
    Planted("row missing", lambda: _without_run(_good(), 4), f"{_at(3)} has no row"),
    Planted("newest missing", lambda: replace(_good(), until=_at(5)), f"{_at(5)} has no row"),
    Planted("first missing", _late_book, "but it began at"),
    Planted("no row", lambda: _with_rule(_good(), job="other"), "other: there is no row"),
    Planted("two rows", lambda: _with_runs(_good(), _run(3, id=9)), f"{_at(3)} has 2 rows"),
    Planted(
        "row and stretch",
        lambda: _with_runs(_stretch(), _run(2, id=3)),
        f"{_at(2)} has 2 rows",
    ),
    Planted(
        "wrong count",
        lambda: _with_runs(_stretch(), _run(1, outcome="missed", last_due=_at(2), count=3)),
        "counts 3",
    ),
    Planted(
        "never due",
        lambda: _with_runs(_good(), _run(3, due=_at(3) + 1, last_due=_at(3) + 1)),
        f"{_at(3) + 1} was never due",
    ),
    Planted("open", lambda: _with_runs(_good(), _run(3, state="queued", outcome=None)), "queued"),
    Planted(
        "open attempt",
        lambda: _lied(1, replace(_attempt(1, 1), outcome=None)),
        "attempt 1 has no outcome",
    ),
    Planted("no reason", lambda: _with_runs(_good(), _run(3, reason="")), "without a reason"),
    Planted(
        "missed against the policy",
        lambda: _with_rule(_stretch(), missed="all"),
        "missed, against its policy",
    ),
    Planted(
        "caught up against the policy",
        lambda: _with_rule(
            _with_runs(_good(), _run(1, _attempt(1, 1), cause="catch_up")), missed="skip"
        ),
        "caught up, against its policy",
    ),
    # nothing runs twice, nor unknown (P2)
    Planted("began twice", lambda: _with_words(_good(), *_said(1)), "began twice"),
    Planted(
        "another run of it",
        lambda: _with_words(_good(), replace(_said(1)[0], run_id=4)),
        "was begun by run 2 already",
    ),
    Planted(
        "not in the ledger",
        lambda: _with_words(_good(), *_said(6)),
        "is not in the ledger",
    ),
    Planted(
        "of another ledger",
        lambda: replace(_good(), book=replace(_good().book, identity="another")),
        "is not in the ledger",
    ),
    Planted(
        "unknown attempt",
        lambda: _with_words(_good(), *_said(1, 2)),
        "no such attempt",
    ),
    Planted(
        "skipped, but it ran",
        lambda: _with_words(_good(), *_said(3)),
        "no such attempt",
    ),
    Planted(
        "backwards",
        lambda: replace(
            _retried("failed", "succeeded"),
            words=(*_said(0), *_said(1), *_said(2, 2), *_said(2, 1, 3)),
        ),
        "began after attempt 2",
    ),
    # lost is lost, and tried again is what failed (P2, P3)
    Planted(
        "lost and run again",
        lambda: _crashed(_retried("lost", "succeeded")),
        "run again though attempt 1 was lost",
    ),
    Planted(
        "lost without a crash", lambda: _retried("lost"), "no end of a daemon fell into its time"
    ),
    Planted(
        "lost in another crash",
        lambda: _crashed(_retried("lost"), second=0),
        "no end of a daemon fell into its time",
    ),
    Planted(
        "again after success",
        lambda: _retried("succeeded", "succeeded"),
        "tried again after attempt 1 had succeeded",
    ),
    Planted(
        "too many attempts",
        lambda: _retried("failed", "failed", "failed", "succeeded"),
        "attempt 4 of 3",
    ),
    Planted("given up", lambda: _retried("failed", "failed"), "given up after attempt 2 of 3"),
    Planted(
        "no delay",
        lambda: _with_rule(_retried("failed", "succeeded"), attempts=3, retry_delay=SECOND),
        "did not wait",
    ),
    Planted(
        "numbering",
        lambda: _lied(1, replace(_attempt(1, 1), number=2)),
        "attempts are numbered [2]",
    ),
    # what the command said
    Planted("failed, it said", lambda: _lied(2, _attempt(1, 2)), "it told 3"),
    Planted("succeeded, it said", lambda: _lied(1, _attempt(1, 1, "failed")), "it told 0"),
    Planted(
        "no word of a success",
        lambda: replace(_good(), words=(*_said(0), *_said(2, status=3))),
        "it told nothing",
    ),
    Planted(
        "no end of a success",
        lambda: replace(_good(), words=(*_said(0), *_said(1, kinds="begin"), *_said(2, status=3))),
        "it told no end",
    ),
    Planted(
        "timed out at its end",
        lambda: _with_rule(_lied(1, _attempt(1, 1, "timed_out")), has_timeout=True),
        "it came to its end",
    ),
    Planted(
        "another outcome than its attempt",
        lambda: _with_runs(_good(), _run(1, _attempt(1, 1), outcome="failed")),
        "but its last attempt succeeded",
    ),
    # never two alive (P5)
    Planted(
        "two alive",
        lambda: replace(_good(), words=tuple(_overlapping())),
        "alive at once: 1/1, 2/1",
    ),
    Planted(
        "two alive under queue",
        lambda: _with_rule(replace(_good(), words=tuple(_overlapping())), overlap="queue"),
        "alive at once: 1/1, 2/1",
    ),
    Planted(
        "more than may be",
        lambda: _with_rule(
            replace(_good(), words=tuple(_overlapping())), overlap="allow", max_running=1
        ),
        "alive at once: 1/1, 2/1",
    ),
    Planted(
        "timed out in the ledger only",
        lambda: _with_rule(
            replace(
                _with_runs(_good(), _run(0, _attempt(1, 0, "timed_out"))),
                words=tuple(_overlapping()),
            ),
            has_timeout=True,
        ),
        "alive at once: 1/1, 2/1",
    ),
    Planted(
        "out of turn",
        lambda: _with_rule(
            replace(_good(), words=(*_said(1), *_said(0), *_said(2, status=3))), overlap="queue"
        ),
        "came after that of",
    ),
    # what was answered holds
    Planted("not cancelled", lambda: replace(_good(), cancelled=frozenset({2})), "but succeeded"),
    Planted("not triggered", lambda: replace(_good(), triggered=frozenset({9})), "is not there"),
]


@pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])
def test_faults_are_found(planted: Planted) -> None:
    """Each kind of broken promise is told."""
    findings = audit(planted.evidence())
    assert any(planted.words in finding for finding in findings), findings


def test_dues_are_those_of_the_seconds() -> None:
    """An instant is due where its second is one of the job's, on the minute's own count."""
    rule = Rule(JOB, seconds=frozenset({0, 7, 59}))
    dues = rule.dues(_at(-1), _at(67))
    assert dues == [_at(-1), _at(0), _at(7), _at(59), _at(60), _at(67)]
    assert rule.longest_gap == 52 * SECOND
    assert Rule(JOB, period=300).dues(5, 1000) == [5, 305, 605, 905]


def test_words_are_read_as_written(tmp_path: Path) -> None:
    """A line of a job comes out as it went in; what has not ended is known."""
    out = tmp_path / "out"
    assert read_words(out) == []
    told = "12.50 77 job 0123abcd-5 1970-01-01T16:40:00Z 2 3"
    out.write_text(f"begin {told}\nend {told}\nbegin {told.replace('-5', '-6')}\n")
    first, last, other = read_words(out)
    assert first == Word("begin", 77, JOB, IDENTITY, 5, START, 2, 3, 12.5)
    assert (last.kind, last.tag, last.key) == ("end", "0123abcd-5", (5, 2))
    assert unended([first, last, other]) == [other]
    write_word(out, replace(other, kind="gone"))
    assert unended(read_words(out)) == []
