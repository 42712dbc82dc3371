"""The memory ledger's bad days: that it fails and crashes as it is told to."""

from __future__ import annotations

import pytest

from crond_py.errors import LedgerError
from crond_py.ledger.memory import MemoryLedger
from crond_py.model import Cursor, Outcome
from crond_py.ports import RunQuery, SetCursor
from tests.support.ledgers import T0, at, claim, enter, finish

EVERYTHING = RunQuery(limit=None)


def _jobs(ledger: MemoryLedger) -> list[str]:
    return sorted(run.job for run in ledger.runs(EVERYTHING))


def test_next_write_fails_once() -> None:
    """A failure that was asked for comes with the next write, which writes nothing."""
    ledger = MemoryLedger()
    ledger.fail_next(LedgerError("disk full"))
    with pytest.raises(LedgerError, match="disk full"):
        ledger.write([claim("a")], durable=True)
    assert _jobs(ledger) == []
    ledger.write([claim("a")], durable=True)
    assert _jobs(ledger) == ["a"]


def test_several_writes_fail_in_order() -> None:
    """Failures are used up one by one, prunes among them."""
    ledger = MemoryLedger()
    ledger.fail_next(LedgerError("first"), times=2)
    ledger.fail_next(LedgerError("second"))
    with pytest.raises(LedgerError, match="first"):
        ledger.write([claim("a")], durable=True)
    with pytest.raises(LedgerError, match="first"):
        ledger.prune("a", keep_runs=0, older_than=None, limit=1)
    with pytest.raises(LedgerError, match="second"):
        ledger.write([claim("a")], durable=True)
    enter(ledger, claim("a"))


def test_fails_until_told_otherwise() -> None:
    """While the switch is on nothing is written and everything can be read."""
    ledger = MemoryLedger()
    (run_id,) = enter(ledger, claim("a"))
    ledger.failing = LedgerError("locked")
    for _ in range(3):
        with pytest.raises(LedgerError, match="locked"):
            ledger.write([finish(run_id, at(1))], durable=False)
    assert [run.id for run in ledger.open_runs()] == [run_id]
    ledger.failing = None
    ledger.write([finish(run_id, at(1))], durable=False)
    assert ledger.open_runs() == []


def test_killed_process_loses_nothing() -> None:
    """After a kill everything written is there, durable or not."""
    ledger = MemoryLedger("0123abcd")
    ledger.write([claim("a")], durable=True)
    ledger.write([claim("b")], durable=False)
    after = ledger.crash(power_cut=False)
    assert _jobs(after) == ["a", "b"]
    assert after.identity == "0123abcd"


def test_power_cut_takes_what_was_not_durable() -> None:
    """A power cut undoes all after the last durable write, of every kind, and nothing before."""
    ledger = MemoryLedger()
    a, b = enter(ledger, claim("a"), claim("b", outcome=Outcome.SKIPPED))
    cursor = Cursor("a", "f", 0, T0, T0)
    ledger.write([SetCursor(cursor)], durable=True)
    before = (ledger.runs(EVERYTHING), ledger.cursors())
    ledger.write([finish(a, at(1)), SetCursor(Cursor("a", "g", 1, at(1), at(1)))], durable=False)
    ledger.write([claim("c"), SetCursor(Cursor("c", "f", 0, T0, T0))], durable=False)
    ledger.prune("b", keep_runs=0, older_than=None, limit=9)
    assert (ledger.unsynced, ledger.run(b)) == (3, None)
    after = ledger.crash(power_cut=True)
    assert (after.runs(EVERYTHING), after.cursors()) == before
    assert after.write([claim("a"), claim("c")], durable=True) == [None, 4]


def test_durable_write_takes_earlier_ones_along() -> None:
    """What was written before a durable write survives the power cut, too: it is one log."""
    ledger = MemoryLedger()
    ledger.write([claim("a")], durable=False)
    ledger.write([claim("b")], durable=True)
    ledger.write([claim("c")], durable=False)
    assert _jobs(ledger.crash(power_cut=True)) == ["a", "b"]


@pytest.mark.parametrize(
    ("flushed", "left"), [(0, ["a"]), (1, ["a", "b"]), (2, ["a", "b", "c"]), (9, ["a", "b", "c"])]
)
def test_power_cut_may_leave_a_part(flushed: int, left: list[str]) -> None:
    """The kernel may have written some of the log: always its beginning."""
    ledger = MemoryLedger()
    ledger.write([claim("a")], durable=True)
    ledger.write([claim("b")], durable=False)
    ledger.write([claim("c")], durable=False)
    after = ledger.crash(power_cut=True, flushed=flushed)
    assert _jobs(after) == left
    assert after.unsynced == 0


def test_kill_then_power_cut() -> None:
    """What a killed process left in the kernel's hands, a later power cut still takes."""
    ledger = MemoryLedger()
    ledger.write([claim("a")], durable=True)
    ledger.write([claim("b")], durable=False)
    after = ledger.crash(power_cut=False)
    assert after.unsynced == 1
    after.write([claim("c")], durable=False)
    assert _jobs(after.crash(power_cut=True)) == ["a"]


def test_crashed_ledger_is_of_no_use() -> None:
    """A process that has crashed can do no more with its ledger."""
    ledger = MemoryLedger()
    ledger.crash(power_cut=False)
    with pytest.raises(LedgerError, match="closed"):
        ledger.write([claim("a")], durable=True)
    with pytest.raises(LedgerError, match="closed"):
        ledger.crash(power_cut=True)
