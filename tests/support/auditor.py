"""Judges from outside whether every occurrence was dealt with as promised (P1, P2, P3, P5).

Pure: it gets what jobs said and what the ledger says (``witness``), the rules that jobs were given
and what the test itself did, and returns a sentence for each promise that was broken. When a job
was due is worked out here, from whole seconds, and not by the code under test. Whether two runs
were alive at once is told by the order of their words in the file, which needs no clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from tests.support.witness import SECOND, AttemptRow, Book, CursorRow, RunRow, Word

OUTCOMES = {"succeeded", "failed", "timed_out", "cancelled", "skipped", "missed", "lost"}
RETRIED = {"failed", "timed_out"}
NEVER_BEGUN = {"skipped", "missed"}


@dataclass(frozen=True, slots=True)
class Rule:
    """What a job was told, as far as it can be held to it.

    It is due at these ``seconds`` of each minute, or each ``period`` microseconds from its first
    time on, or, with neither, at times that only the daemon knows.
    """

    job: str
    seconds: frozenset[int] = frozenset()
    period: int = 0
    overlap: str = "skip"
    max_running: int = 1
    missed: str = "once"
    missed_limit: int = 100
    on_crash: str = "lost"
    attempts: int = 1
    retry_delay: int = 0
    has_timeout: bool = False

    def dues(self, first: int, last: int) -> list[int]:
        """Return the due instants from one to the other, both included; the first is one."""
        if self.seconds:
            whole = range(-(-first // SECOND), last // SECOND + 1)
            return [second * SECOND for second in whole if second % 60 in self.seconds]
        return list(range(first, last + 1, self.period))

    @property
    def longest_gap(self) -> int:
        """The longest time between two due instants."""
        if not self.seconds:
            return self.period
        ordered = sorted(self.seconds)
        around = pairwise([*ordered, ordered[0] + 60])
        return max(later - earlier for earlier, later in around) * SECOND


@dataclass(frozen=True)
class Evidence:
    """All that is known. ``ended_at``: when it was seen that a daemon was gone.

    All that was due up to ``until`` must be accounted for. ``cancelled`` and ``triggered`` are the
    runs of which a command has said so.
    """

    rules: tuple[Rule, ...]
    words: tuple[Word, ...]
    book: Book
    ended_at: tuple[int, ...] = ()
    until: int = 0
    cancelled: frozenset[int] = frozenset()
    triggered: frozenset[int] = field(default=frozenset())

    @cached_property
    def runs(self) -> dict[int, RunRow]:
        """The rows by their ids."""
        return {run.id: run for run in self.book.runs}

    @cached_property
    def attempts(self) -> dict[tuple[int, int], AttemptRow]:
        """The attempts by run and number."""
        return {(run.id, a.number): a for run in self.book.runs for a in run.attempts}

    @cached_property
    def begins(self) -> dict[tuple[int, int], Word]:
        """What each attempt said first."""
        return {word.key: word for word in reversed(self.words) if word.kind == "begin"}

    @cached_property
    def ends(self) -> dict[tuple[int, int], Word]:
        """What each attempt said last."""
        return {word.key: word for word in self.words if word.kind == "end"}

    def rows(self, job: str) -> list[RunRow]:
        """Return the rows of a job, in the order of their claims."""
        return [run for run in self.book.runs if run.job == job]


def audit(evidence: Evidence) -> list[str]:
    """Return what is wrong, one sentence each; nothing where all promises were kept."""
    return [
        *_unknown_speakers(evidence),
        *(finding for run in evidence.book.runs for finding in _wrong_row(evidence, run)),
        *(finding for rule in evidence.rules for finding in _job(evidence, rule)),
        *_broken_word(evidence),
    ]


def _job(evidence: Evidence, rule: Rule) -> Iterator[str]:
    yield from _unaccounted(evidence, rule)
    yield from _wrongly_missed(evidence, rule)
    yield from _too_many_alive(evidence, rule)
    for run in evidence.rows(rule.job):
        yield from _wrong_attempts(evidence, rule, run)
    if rule.overlap == "queue" and rule.on_crash == "lost" and rule.attempts == 1:
        yield from _out_of_turn(evidence, rule)


# --- every occurrence has its row (P1) ----------------------------------------------------------


def _unaccounted(evidence: Evidence, rule: Rule) -> Iterator[str]:
    """Compare the instants of the rows with those that the job was due at."""
    rows = [run for run in evidence.rows(rule.job) if run.cause != "manual"]
    if not rows:
        yield f"{rule.job}: there is no row"
        return
    told = Counter(due for run in rows for due in _dues_of_row(rule, run))
    yield from (f"{rule.job}: {due} has {n} rows" for due, n in sorted(told.items()) if n > 1)
    if not rule.seconds and not rule.period:
        return
    cursor = evidence.book.cursors.get(rule.job, CursorRow(0, 0))
    first, last = min(told), max(*told, evidence.until, cursor.accounted_until)
    due = set(rule.dues(first, last))
    yield from (f"{rule.job}: {at} has no row" for at in sorted(due - set(told)))
    yield from (f"{rule.job}: {at} was never due" for at in sorted(set(told) - due))
    if first - cursor.baseline > rule.longest_gap and cursor.baseline:
        yield f"{rule.job}: the first row is of {first}, but it began at {cursor.baseline}"


def _dues_of_row(rule: Rule, run: RunRow) -> list[int]:
    if run.count == 1 and run.last_due == run.due:
        return [run.due]
    return rule.dues(run.due, run.last_due)


def _wrong_row(evidence: Evidence, run: RunRow) -> Iterator[str]:
    """Look at one row by itself."""
    who = f"{run.job} run {run.id}"
    is_recalled = run.state == "queued" and _was_recalled(run)
    if not is_recalled and (run.state != "done" or run.outcome not in OUTCOMES):
        yield f"{who}: has no outcome, it is {run.state}"
    if run.era:
        yield f"{who}: era {run.era}, though the clock was not set"
    for a in run.attempts:
        if a.outcome is None:
            yield f"{who}: attempt {a.number} has no outcome"
    if run.outcome in NEVER_BEGUN | {"cancelled", "lost"} and not run.reason:
        yield f"{who}: {run.outcome} without a reason"
    if run.outcome in NEVER_BEGUN and run.attempts and not _was_recalled(run):
        yield f"{who}: {run.outcome}, but has attempts"
    if run.outcome not in NEVER_BEGUN | {"cancelled"} and not run.attempts:
        yield f"{who}: {run.outcome} without an attempt"
    rule = next((rule for rule in evidence.rules if rule.job == run.job), None)
    if rule is None:
        yield f"{who}: there is no such job"
    elif run.count != 1 and run.count != len(_dues_of_row(rule, run)):
        yield f"{who}: counts {run.count} from {run.due} to {run.last_due}"


def _was_recalled(run: RunRow) -> bool:
    """Tell whether a run was claimed ahead, and not started since the daemon was stopped."""
    return [attempt.outcome for attempt in run.attempts] == ["cancelled"]


def _wrongly_missed(evidence: Evidence, rule: Rule) -> Iterator[str]:
    rows = evidence.rows(rule.job)
    caught_up = {run.due for run in rows if run.cause == "catch_up"}
    for run in rows:
        if rule.missed == "skip" and run.cause == "catch_up":
            yield f"{rule.job} run {run.id}: caught up, against its policy"
        if rule.missed == "all" and run.outcome == "missed":
            newer = sorted(due for due in caught_up if due > run.last_due)[: rule.missed_limit]
            made_up = rule.dues(newer[0], newer[-1]) if newer else []
            if len(newer) < rule.missed_limit or made_up != newer:
                yield f"{rule.job} run {run.id}: missed, against its policy"


# --- nothing ran that is not in the ledger, nothing ran twice (P2, P3) ----------------------------


def _unknown_speakers(evidence: Evidence) -> Iterator[str]:
    begun: set[tuple[int, int]] = set()
    runs_of: dict[tuple[str, int], int] = {}
    newest: dict[int, int] = defaultdict(int)
    for word in evidence.words:
        who = f"{word.job} run {word.run_id} attempt {word.attempt}"
        if word.kind == "end" and word.key not in begun:
            yield f"{who}: ended without a beginning"
        if word.kind != "begin":
            continue
        if runs_of.setdefault((word.job, word.due), word.run_id) != word.run_id:
            yield f"{who}: {word.due} was begun by run {runs_of[word.job, word.due]} already"
        if word.key in begun:
            yield f"{who}: began twice"
        elif word.attempt < newest[word.run_id]:
            yield f"{who}: began after attempt {newest[word.run_id]}"
        begun.add(word.key)
        newest[word.run_id] = max(word.attempt, newest[word.run_id])
        yield from _not_in_the_ledger(evidence, word)


def _not_in_the_ledger(evidence: Evidence, word: Word) -> Iterator[str]:
    who = f"{word.job} run {word.run_id} attempt {word.attempt}"
    run = evidence.runs.get(word.run_id)
    if run is None or word.identity != evidence.book.identity:
        yield f"{who}: began, but is not in the ledger"
    elif (run.job, run.due) != (word.job, word.due):
        yield f"{who}: says it is of {word.due}, the ledger says {run.job} at {run.due}"
    elif word.key not in evidence.attempts:
        yield f"{who}: began, but the ledger has no such attempt"


def _wrong_attempts(evidence: Evidence, rule: Rule, run: RunRow) -> Iterator[str]:
    """Hold the attempts of a run to the policy of its job, and to what they said themselves."""
    who = f"{run.job} run {run.id}"
    numbers = [a.number for a in run.attempts]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"{who}: attempts are numbered {numbers}"
        return
    for before, after in pairwise(run.attempts):
        if fault := _wrong_again(rule, before, after):
            yield f"{who}: {fault}"
    for attempt in run.attempts:
        if fault := _contradiction(evidence, rule, run, attempt):
            yield f"{who} attempt {attempt.number}: {attempt.outcome}, but {fault}"
    if run.attempts:
        yield from _wrong_end(rule, run, run.attempts[-1])


def _wrong_again(rule: Rule, before: AttemptRow, after: AttemptRow) -> str:
    """Return why one attempt should not have been followed by the other so, or nothing."""
    if before.outcome == "lost":
        is_allowed = rule.on_crash == "rerun"
        return "" if is_allowed else f"run again though attempt {before.number} was lost"
    if before.outcome not in RETRIED:
        return f"tried again after attempt {before.number} had {before.outcome}"
    if before.number >= rule.attempts:
        return f"attempt {after.number} of {rule.attempts}"
    if after.begun_at - (before.finished_at or 0) < rule.retry_delay:
        return f"attempt {after.number} did not wait"
    return ""


def _wrong_end(rule: Rule, run: RunRow, last: AttemptRow) -> Iterator[str]:
    who = f"{run.job} run {run.id}"
    is_over = run.outcome in NEVER_BEGUN or run.state == "queued"
    if run.outcome not in {last.outcome, "cancelled"} and not (is_over and _was_recalled(run)):
        yield f"{who}: {run.outcome}, but its last attempt {last.outcome}"
    if run.outcome in RETRIED and last.number < rule.attempts:
        yield f"{who}: given up after attempt {last.number} of {rule.attempts}"


def _contradiction(evidence: Evidence, rule: Rule, run: RunRow, attempt: AttemptRow) -> str:
    """Return how an attempt's own words contradict its outcome, or nothing."""
    begin = evidence.begins.get((run.id, attempt.number))
    end = evidence.ends.get((run.id, attempt.number))
    match attempt.outcome:
        case "succeeded" | "failed":
            status = end.status if end else None
            if status != attempt.exit_code or (status == 0) != (attempt.outcome == "succeeded"):
                told = "nothing" if begin is None else "no end" if end is None else f"{status}"
                return f"it told {told}, and exit status {attempt.exit_code} was seen"
            if (attempt.exit_code, attempt.exit_signal) == (None, None) and begin is not None:
                return "it began, and nothing was seen of its end"
        case "timed_out":
            if end is not None or not rule.has_timeout:
                return "it came to its end" if end else "there is no timeout"
        case "lost":
            if not _was_cut(evidence, run, attempt):
                return "no end of a daemon fell into its time"
    return ""


def _was_cut(evidence: Evidence, run: RunRow, attempt: AttemptRow) -> bool:
    later = [a.begun_at for a in run.attempts if a.number > attempt.number]
    until = min([*later, run.finished_at or evidence.until])
    return any(attempt.begun_at < end <= until for end in evidence.ended_at)


# --- no more alive than allowed (P5) --------------------------------------------------------------


def _too_many_alive(evidence: Evidence, rule: Rule) -> Iterator[str]:
    if rule.overlap == "allow" and not rule.max_running:
        return
    most = rule.max_running if rule.overlap == "allow" else 1
    alive: dict[tuple[int, int], Word] = {}
    for word in evidence.words:
        if word.job != rule.job:
            continue
        if word.kind == "begin":
            alive = {k: w for k, w in alive.items() if not _was_ended_before(evidence, k, word.key)}
            alive[word.key] = word
            if len(alive) > most:
                names = ", ".join(f"{run_id}/{number}" for run_id, number in alive)
                yield f"{rule.job}: alive at once: {names}"
        else:
            alive.pop(word.key, None)


def _was_ended_before(evidence: Evidence, key: tuple[int, int], other: tuple[int, int]) -> bool:
    """Tell whether the daemon ended an attempt, which therefore has no last word, in time.

    One that says later that it has come to its end was not ended, whatever the ledger says.
    """
    attempt, later = evidence.attempts.get(key), evidence.attempts.get(other)
    if attempt is None or later is None or key in evidence.ends:
        return False
    is_ended = attempt.outcome in {"timed_out", "cancelled"} and attempt.finished_at is not None
    return is_ended and (attempt.finished_at or 0) <= later.begun_at


def _out_of_turn(evidence: Evidence, rule: Rule) -> Iterator[str]:
    begins = [w for w in evidence.words if w.job == rule.job and w.kind == "begin"]
    for before, after in pairwise(begins):
        if before.due >= after.due and not _was_asked_for_later(evidence, before, after):
            yield f"{rule.job}: run {after.run_id} of {after.due} came after that of {before.due}"


def _was_asked_for_later(evidence: Evidence, before: Word, after: Word) -> bool:
    """Tell whether a run was asked for when one that is due a little later had been claimed."""
    earlier, later = evidence.runs.get(before.run_id), evidence.runs.get(after.run_id)
    if earlier is None or later is None or later.cause != "manual":
        return False
    return earlier.claimed_at <= later.claimed_at


# --- what was answered holds ----------------------------------------------------------------------


def _broken_word(evidence: Evidence) -> Iterable[str]:
    for run_id in sorted(evidence.cancelled):
        run = evidence.runs.get(run_id)
        if run is None or run.outcome != "cancelled":
            found = run.outcome if run else "is not there"
            yield f"run {run_id}: said to be cancelled, but {found}"
    for run_id in sorted(evidence.triggered - set(evidence.runs)):
        yield f"run {run_id}: said to be triggered, but is not there"
