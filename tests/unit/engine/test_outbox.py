"""Record first, then act: what waits for a write happens after it, in order, or not at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from crond_py.engine.outbox import Outbox
from crond_py.errors import LedgerError
from crond_py.model import Cause, Outcome, State
from crond_py.ports import Claim, SetRun, Write

NOW = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
CLAIM = Claim("j", 0, NOW, Cause.SCHEDULE, State.QUEUED, NOW)


class Recorder:
    """A ledger that notes what it was asked, and can refuse."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[Write], bool]] = []
        self.fails = False

    def write(self, writes: list[Write], *, durable: bool) -> list[int | None]:
        """Take the writes; claims get the ids 1, 2, 3."""
        if self.fails:
            message = "disk full"
            raise LedgerError(message)
        self.calls.append((list(writes), durable))
        claims = [write for write in writes if isinstance(write, Claim)]
        return list(range(1, len(claims) + 1))


def test_effects_follow_their_commit_in_order() -> None:
    """P2: claims are answered, then effects run, both after one commit of the whole batch."""
    ledger, seen = Recorder(), []
    outbox = Outbox(ledger)
    outbox.claim(CLAIM, lambda run_id: seen.append(("a", run_id, len(ledger.calls))))
    outbox.then(lambda: seen.append(("effect", 0, len(ledger.calls))))
    outbox.claim(CLAIM, lambda run_id: seen.append(("b", run_id, len(ledger.calls))))
    assert not seen
    outbox.flush()
    assert seen == [("a", 1, 1), ("b", 2, 1), ("effect", 0, 1)]
    assert outbox.is_empty


def test_a_claim_makes_its_commit_durable_and_other_writes_do_not() -> None:
    """What a restart can find out by itself is written without waiting for the disk."""
    ledger = Recorder()
    outbox = Outbox(ledger)
    outbox.write(SetRun(1, State.RUNNING))
    outbox.flush()
    outbox.write(SetRun(1, State.RUNNING))
    outbox.claim(CLAIM, lambda _: None)
    outbox.flush()
    outbox.write(SetRun(1, State.RUNNING), durable=True)
    outbox.flush()
    outbox.write(SetRun(1, State.RUNNING))
    outbox.flush()
    assert [durable for _, durable in ledger.calls] == [False, True, True, False]


def test_nothing_is_lost_when_the_ledger_fails() -> None:
    """P8: a write that failed is made again with all that came after it, and acted on once."""
    ledger, seen = Recorder(), []
    outbox = Outbox(ledger)
    ledger.fails = True
    outbox.claim(CLAIM, seen.append)
    with pytest.raises(LedgerError):
        outbox.flush()
    outbox.write(SetRun(7, State.RUNNING))
    with pytest.raises(LedgerError):
        outbox.flush()
    assert not seen
    ledger.fails = False
    outbox.flush()
    assert seen == [1]
    assert ledger.calls == [([CLAIM, SetRun(7, State.RUNNING)], True)]


def test_what_waits_to_be_written_is_known_until_it_is() -> None:
    """Rows that are to come are told, and outcomes of those that are there, till it is written."""
    ledger = Recorder()
    outbox = Outbox(ledger)
    outbox.claim(CLAIM, lambda _: None)
    assert [run.due for run in outbox.unwritten.at("j", NOW)] == [NOW]
    row = replace(outbox.unwritten.newest("j")[0], id=7)
    outbox.write(SetRun(7, State.DONE, outcome=Outcome.FAILED, finished_at=NOW))
    assert outbox.unwritten.changed(row).outcome is Outcome.FAILED
    stretch = replace(CLAIM, due=NOW + HOUR, last_due=NOW + 3 * HOUR, count=3)
    outbox.claim(stretch, lambda _: None)
    assert [run.count for run in outbox.unwritten.at("j", NOW + 2 * HOUR)] == [3]
    assert outbox.unwritten.newest("j")[0].due == NOW + HOUR
    outbox.flush()
    assert outbox.unwritten.at("j", NOW) == outbox.unwritten.newest("j") == []
    assert outbox.unwritten.changed(row) == row


def test_effects_may_hand_in_more() -> None:
    """What an effect hands in is committed and acted on in the same flush."""
    ledger, seen = Recorder(), []
    outbox = Outbox(ledger)

    def again() -> None:
        outbox.write(SetRun(2, State.RUNNING), durable=True)
        outbox.then(lambda: seen.append(len(ledger.calls)))

    outbox.write(SetRun(1, State.RUNNING))
    outbox.then(again)
    outbox.flush()
    assert seen == [2]


def test_a_raising_effect_does_not_take_the_others_with_it() -> None:
    """An effect that raises is gone; those behind it run at the next flush."""
    outbox, seen = Outbox(Recorder()), []

    def bad() -> None:
        message = "oops"
        raise ValueError(message)

    outbox.then(bad)
    outbox.then(lambda: seen.append("next"))
    with pytest.raises(ValueError, match="oops"):
        outbox.flush()
    outbox.flush()
    assert seen == ["next"]
