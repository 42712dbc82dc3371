"""The daemon's ledger: when it uses its journal, what it leaves out, what it says."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.engine.agenda import WAS_FORGOTTEN
from crond_py.engine.attendance import TASKS
from crond_py.errors import LedgerCorruptError, LedgerError, StateLockedError
from crond_py.ledger import journal as journal_module
from crond_py.ledger import journaled as journaled_module
from crond_py.ledger import steps as steps_module
from crond_py.ledger.aside import AT_ONCE, Aside
from crond_py.ledger.database import load_migrations
from crond_py.ledger.journal import Journal, journal_file
from crond_py.ledger.journaled import MOST_MENDED, JournaledLedger
from crond_py.ledger.known import Known, Remains
from crond_py.ledger.lock import StateLock
from crond_py.ledger.memory import MemoryLedger
from crond_py.ledger.opening import open_ledger
from crond_py.ledger.records import to_set_run
from crond_py.ledger.spare import read_spare, spare_file
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from crond_py.ledger.steps import Kind, Step, pack, run_of_step, to_step, unpack
from crond_py.model import Attempt, Cursor, Exit, Lag, Left, Outcome, Run, State
from crond_py.ports import RunQuery, SetAttempt, SetCursor, SetRun, Write
from tests.support.clock import FakeClock
from tests.support.ledgers import T0, at, attempted, claim, enter, finish, hand_in, new_task

EVERYTHING = RunQuery(limit=None)
ENTRY = "the ledger cannot be written; what runs is kept in the journal until it can"
EXIT = "the ledger can be written again; it has all that was kept in the journal"

OpenJournaled = Callable[..., JournaledLedger]


@pytest.fixture
def open_journaled(path: Path, stack: ExitStack) -> OpenJournaled:
    """Open the ledger of the test as a daemon does."""

    def open_(at_path: Path = path) -> JournaledLedger:
        ledger = open_ledger(at_path, FakeClock(at(0)))
        stack.callback(ledger.close)
        return ledger

    return open_


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def _in_file(path: Path) -> list[str]:
    with closing(open_reader(path)) as reader:
        return sorted(run.job for run in reader.runs(EVERYTHING))


def _settle(ledger: JournaledLedger) -> int:
    """Settle until there is nothing more to do at once; return how often."""
    times = 1
    ledger.settle()
    while ledger.settles_in == timedelta(0):
        ledger.settle()
        times += 1
    return times


# --- in and out of trouble ------------------------------------------------------------------------


def test_without_trouble_there_is_nothing_to_settle(open_journaled: OpenJournaled) -> None:
    """As long as the file takes writes the ledger wakes nobody (P4)."""
    ledger = open_journaled()
    enter(ledger, claim("a"))
    assert ledger.settles_in is None
    ledger.settle()
    assert (list(ledger.troubles), ledger.settles_in) == ([], None)


def test_trouble_begins_and_ends(
    path: Path, open_journaled: OpenJournaled, caplog: pytest.LogCaptureFixture
) -> None:
    """What was written meanwhile is in the file afterwards; each is said once (P1, P8)."""
    ledger = open_journaled()
    enter(ledger, claim("before"))
    with _locked(path):
        for number in range(3):
            enter(ledger, claim(f"meanwhile-{number}"))
        (trouble,) = ledger.troubles
        assert "is locked by another program" in trouble
        assert str(journal_file(path)) in trouble
        assert ledger.settles_in == timedelta(seconds=1)
        ledger.settle()
        assert ledger.settles_in == timedelta(seconds=1)
        assert _in_file(path) == ["before"]
    enter(ledger, claim("not yet"))
    _settle(ledger)
    assert not ledger.troubles
    enter(ledger, claim("after"))
    assert _in_file(path) == sorted(
        ["before", *(f"meanwhile-{n}" for n in range(3)), "not yet", "after"]
    )
    assert [record.message for record in caplog.records] == [ENTRY, EXIT]


def test_much_is_copied_little_by_little(path: Path, open_journaled: OpenJournaled) -> None:
    """However much the journal has, the engine stands still for a part of it at a time (P4)."""
    ledger = open_journaled()
    with _locked(path):
        for number in range(40):
            enter(ledger, *[claim(f"job-{job}", at(number)) for job in range(50)])
    assert 4 <= _settle(ledger) <= 40
    assert len(_in_file(path)) == 2000
    assert [run.id for run in ledger.open_runs()] == list(range(1, 2001))


def test_nothing_is_pruned_meanwhile(path: Path, open_journaled: OpenJournaled) -> None:
    """What the file cannot delete now is deleted later."""
    ledger = open_journaled()
    (run_id,) = enter(ledger, claim("a"))
    ledger.write([finish(run_id, at(1))], durable=True)
    with _locked(path):
        enter(ledger, claim("b"))
        with pytest.raises(LedgerError, match="locked"):
            ledger.prune("a", keep_runs=0, older_than=None, limit=9)
    _settle(ledger)
    assert ledger.prune("a", keep_runs=0, older_than=None, limit=9).runs == 1


def test_an_occurrence_is_claimed_once_all_the_same(
    path: Path, open_journaled: OpenJournaled
) -> None:
    """A claim is refused that the file, the journal, or the same write has already (P2)."""
    ledger = open_journaled()
    (done,) = enter(ledger, claim("in-file"))
    ledger.write([finish(done, at(1))], durable=True)
    with _locked(path):
        enter(ledger, claim("in-journal"))
        again = [claim("in-file"), claim("in-journal"), claim("new"), claim("new")]
        first, second, new, third = ledger.write(again, durable=True)
        assert (first, second, third) == (None, None, None)
        assert new is not None
    _settle(ledger)
    assert _in_file(path) == ["in-file", "in-journal", "new"]


@pytest.mark.parametrize("newest_of", ["file", "journal"])
def test_the_newest_are_found_without_reading_all(
    path: Path,
    open_journaled: OpenJournaled,
    monkeypatch: pytest.MonkeyPatch,
    newest_of: str,
) -> None:
    """P4: however long a history is, what is asked for meanwhile is read of it and little more."""
    ledger = open_journaled()
    late = at(0) if newest_of == "journal" else at(900)
    ids = enter(ledger, *[claim(f"old-{number}", late) for number in range(500)])
    ledger.write([finish(run_id, at(901)) for run_id in ids], durable=True)
    read: list[int] = []
    real = SqliteLedger.runs

    def count(self: SqliteLedger, query: RunQuery) -> list[Run]:
        found = real(self, query)
        read.append(len(found))
        return found

    with _locked(path):
        ids += enter(ledger, claim("a", at(800)), claim("b", at(801)), claim("c", at(802)))
        expected = list(reversed(ids))
        if newest_of == "file":
            expected = [*expected[3:], *expected[:3]]
        monkeypatch.setattr(SqliteLedger, "runs", count)
        page = ledger.runs(RunQuery(limit=2))
        assert [run.id for run in page] == expected[:2]
        more = ledger.runs(RunQuery(limit=4, before_id=page[-1].id))
        assert [run.id for run in more] == expected[2:6]
        rest = ledger.runs(RunQuery(limit=1, before_id=expected[-2]))
        assert [run.id for run in rest] == expected[-1:]
        assert ledger.runs(RunQuery(limit=0)) == []
    assert max(read) <= 7


def test_what_was_changed_meanwhile_takes_no_place(
    path: Path, open_journaled: OpenJournaled
) -> None:
    """A run that the file still lists, but that is otherwise by now, is none of those asked for."""
    ledger = open_journaled()
    ids = enter(ledger, *[claim("a", at(number)) for number in range(3)])
    ledger.write([finish(run_id, at(9)) for run_id in ids], durable=True)
    with _locked(path):
        ledger.write([SetRun(ids[2], State.RUNNING)], durable=True)
        done = RunQuery(states=frozenset({State.DONE}), limit=1)
        assert [run.id for run in ledger.runs(done)] == [ids[1]]


def test_without_a_journal_writes_wait(path: Path, open_journaled: OpenJournaled) -> None:
    """Where the journal cannot be opened that is said, and writes fail while the file does (P8)."""
    journal_file(path).mkdir()
    ledger = open_journaled()
    (lasting,) = ledger.troubles
    assert "ledger.journal cannot be opened" in lasting
    with _locked(path):
        with pytest.raises(LedgerError, match="is locked by another program"):
            ledger.write([claim("a")], durable=True)
        assert ledger.open_runs() == []
    _settle(ledger)
    enter(ledger, claim("a"))
    assert list(ledger.troubles) == [lasting]


def test_a_full_journal_is_an_error_with_both_reasons(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where neither takes it nothing is written, and the reasons of both are told (P8)."""
    monkeypatch.setattr("crond_py.ledger.journal.LARGEST_BYTES", 2000)
    ledger = open_journaled()
    with _locked(path):
        enter(ledger, claim("a"))
        with pytest.raises(LedgerError, match=r"is locked by .*; and the journal .* is full"):
            ledger.write([claim(f"job-{n}") for n in range(50)], durable=True)
        assert [run.job for run in ledger.open_runs()] == ["a"]
        (run_id,) = enter(ledger, claim("b"))
        assert run_id == 2
    _settle(ledger)
    assert _in_file(path) == ["a", "b"]


# --- records that make no sense -------------------------------------------------------------------

NONSENSE: list[Write] = [
    SetRun(77, State.RUNNING),
    SetAttempt(77, Attempt(1, T0)),
    SetRun(1, State.DONE),
    replace(claim("c"), count=0),
    claim("c", T0.replace(tzinfo=None)),
    SetCursor(Cursor("\udcff", "f", 0, T0, T0)),
]


@pytest.mark.parametrize("bad", NONSENSE)
@pytest.mark.parametrize("in_trouble", [False, True])
def test_nonsense_does_not_block_what_follows(
    path: Path,
    open_journaled: OpenJournaled,
    caplog: pytest.LogCaptureFixture,
    bad: Write,
    in_trouble: bool,
) -> None:
    """A record that no ledger would take is logged and left out; all else is written (P1, P8)."""
    ledger = open_journaled()
    enter(ledger, claim("a"))
    with ExitStack() as stack:
        if in_trouble:
            stack.enter_context(_locked(path))
            enter(ledger, claim("b"))
        ids = ledger.write([claim("d"), bad, SetRun(1, State.QUEUED), claim("e")], durable=True)
    assert len([run_id for run_id in ids if run_id is not None]) == 2
    _settle(ledger)
    assert _in_file(path) == ["a", *(["b"] if in_trouble else []), "d", "e"]
    assert ledger.run(1).state is State.QUEUED  # type: ignore[union-attr]
    (told,) = [r for r in caplog.records if r.message.startswith("a record was left out")]
    assert told.levelno == logging.ERROR
    assert told.fields["reason"]  # type: ignore[attr-defined]
    assert told.fields["record"] == str(bad)  # type: ignore[attr-defined]


def test_what_the_file_refuses_later_does_not_block_either(
    path: Path, open_journaled: OpenJournaled, caplog: pytest.LogCaptureFixture
) -> None:
    """What the journal took, but the file never will, is left out of the copy and said (P8)."""
    ledger = open_journaled()
    with _locked(path):
        huge = replace(attempted("huge"), era=2**70)
        first, second = ledger.write([huge, claim("a")], durable=True)
        assert first is not None
        ledger.write([finish(first, at(1))], durable=True)
    _settle(ledger)
    assert ledger.settles_in is None
    assert [run.id for run in ledger.runs(EVERYTHING)] == [second]
    told = [r for r in caplog.records if r.message.startswith("a record was left out")]
    assert len(told) == 2


# --- the next daemon ------------------------------------------------------------------------------


def test_the_next_daemon_takes_over(path: Path, open_journaled: OpenJournaled) -> None:
    """What the file had not taken when the daemon ended is in it when the next one begins (P1)."""
    ledger = open_journaled()
    (first,) = enter(ledger, attempted("a"))
    with _locked(path):
        (second,) = enter(ledger, attempted("b", output="\udcff"))
        ledger.write([finish(first, at(5), Outcome.FAILED)], durable=False)
        before = (ledger.runs(EVERYTHING), ledger.open_runs())
        ledger.close()
    after = open_journaled()
    assert (after.runs(EVERYTHING), after.open_runs()) == before
    assert [run.id for run in after.open_runs()] == [second]
    assert enter(after, claim("c")) == [3]


@pytest.mark.parametrize("written", [0, 30])
@pytest.mark.parametrize("when", ["start", "end of trouble"])
def test_what_comes_to_a_journal_without_a_title_is_kept(
    path: Path,
    open_journaled: OpenJournaled,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    written: int,
) -> None:
    """Whose a record is can be read, also where there was no room for that at first (P1, P2)."""

    def fill(descriptor: int, content: bytes, place: int) -> None:
        os.pwrite(descriptor, content[:written], place)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if when == "start":
            patch.setattr(journal_module, "_write", fill)
        ledger = open_journaled()
        if when == "end of trouble":
            with _locked(path):
                enter(ledger, claim("before"))
            patch.setattr(journal_module, "_write", fill)
            _settle(ledger)
    with _locked(path):
        (run_id,) = enter(ledger, attempted("a"))
        ledger.write([finish(run_id, at(1))], durable=True)
        after_kill = Path(shutil.copytree(path.parent, path.parent / "killed")) / path.name
    after = open_journaled(after_kill)
    run = after.run(run_id)
    assert run is not None
    assert (run.job, run.outcome) == ("a", Outcome.SUCCEEDED)
    assert after.gap is None
    assert after.write([attempted("a")], durable=True) == [None]


def test_a_journal_of_another_ledger_is_set_aside(
    path: Path, open_journaled: OpenJournaled, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever puts another ledger in the place does not get the old one's runs into it (P8)."""
    ledger = open_journaled()
    with _locked(path):
        enter(ledger, claim("theirs"))
        ledger.close()
    for file in path.parent.glob("ledger.db*"):
        file.unlink()
    ledger = open_journaled()
    assert ledger.runs(EVERYTHING) == []
    assert "the journal belongs to another ledger; it was set aside" in caplog.messages
    (aside,) = path.parent.glob("ledger.journal.foreign-*")
    with closing(Journal.open(aside)) as journal:
        assert len(list(journal.records())) == 1


def test_a_journal_of_an_older_pycron_is_read(path: Path, open_journaled: OpenJournaled) -> None:
    """What an older one wrote, whose attempts had fewer columns, is taken all the same (P1)."""
    ledger = open_journaled()
    old = to_step(attempted("a")).with_id(1)
    assert old.attempt is not None
    older = replace(old, attempt=old.attempt[:16])
    with closing(Journal.open(journal_file(path))) as journal:
        journal.append(1, pack([older]), durable=True)
    ledger.close()
    (run,) = open_journaled().open_runs()
    assert (run.id, len(run.attempts)) == (1, 1)


def _lost_of_tasks(path: Path) -> Step:
    """Migrate a ledger whose tasks have lost something; return that as it was before."""
    row = (TASKS, "f", 0, 0, 9_000_000, 3_000_000, 0, 7_000_000, "")
    with closing(SqliteLedger.open(path, now=T0)), closing(sqlite3.connect(path)) as hand:
        hand.execute(
            "INSERT INTO cursors (job, fingerprint, era, baseline, accounted_until, anchor,"
            " barrier_from, barrier_until, boot_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
        hand.execute(_statement_of_absences())
        hand.commit()
    return Step(Kind.CURSOR, (*row, None))  # it knew of no absences


def _statement_of_absences() -> str:
    (script,) = [each.script for each in load_migrations() if "absences" in each.script]
    return script[script.index("UPDATE") :]


@pytest.mark.parametrize("is_locked", [False, True])
def test_what_an_older_pycrons_journal_has_lost_of_tasks_is_an_absence(
    path: Path, open_journaled: OpenJournaled, *, is_locked: bool
) -> None:
    """P2: a task that may have run before an upgrade is not run after it."""
    older = _lost_of_tasks(path)
    with closing(open_journaled()) as ledger:
        migrated = ledger.cursors()[TASKS]
    assert {each.why for each in migrated.absences} == {WAS_FORGOTTEN}
    with closing(Journal.open(journal_file(path))) as journal:
        journal.begin(ledger.identity)
        journal.append(1, pack([older]), durable=True)
    with _locked(path) if is_locked else nullcontext():
        ledger = open_journaled()
        assert ledger.cursors()[TASKS] == migrated
    ledger.close()
    assert open_journaled().cursors()[TASKS] == migrated


def test_what_an_older_pycrons_spare_copy_has_lost_of_tasks_is_an_absence(
    path: Path, open_journaled: OpenJournaled
) -> None:
    """P2: likewise where nothing of the ledger can be read."""
    older = _lost_of_tasks(path)
    with closing(open_journaled()) as ledger:
        migrated = ledger.cursors()[TASKS]
    spare = spare_file(path)
    content = json.loads(spare.read_text())
    content["steps"] = json.loads(pack([older]))
    spare.write_text(json.dumps(content))
    path.write_bytes(b"no ledger" * 1000)
    assert open_journaled().cursors()[TASKS] == migrated


@pytest.mark.parametrize(
    "write",
    [
        attempted("naïve 時計", output="/out/\udcff"),
        SetRun(5, State.DONE, Outcome.LOST, "\udcff'\"\\\n", at(3), None),
        SetRun(5, State.QUEUED, left_as=Left.RECALLED),
        SetAttempt(5, Attempt(2, at(1), pid=2**40, reason="x", stopping=Outcome.CANCELLED)),
        SetCursor(Cursor("a", "f", 2, T0, at(60), at(1), boot_id="boot")),
    ],
)
def test_steps_come_out_of_the_journal_as_they_went_in(write: Write) -> None:
    """No value is changed on the way (P1)."""
    step = to_step(write)
    assert unpack(pack([step, step])) == [step, step]


def test_every_kind_of_step_has_its_width() -> None:
    """A kind that comes to the steps later is known where rows of older ones are made whole."""
    assert set(steps_module._widths()) == set(Kind)
    assert unpack(pack([Step(Kind.CURSOR, ("a",))]))[0].row == ("a", *[None] * 11)
    older = Step(Kind.RUN, ("queued", None, "", None, None, 5))
    assert to_set_run(unpack(pack([older]))[0].row) == SetRun(5, State.QUEUED)


# --- damage and deletion --------------------------------------------------------------------------


def _spoil(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let the next writes of any file meet damage."""
    left = [LedgerCorruptError("a page makes no sense")] * times
    write = SqliteLedger.write

    def spoiled(
        ledger: SqliteLedger, writes: list[Write], *, durable: bool, promised: int = 0
    ) -> object:
        if left:
            raise left.pop()
        return write(ledger, writes, durable=durable, promised=promised)

    monkeypatch.setattr(SqliteLedger, "write", spoiled)


def test_what_is_known_goes_on_in_another_file(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged file's identity, cursors, open runs and ids are those of the next (P1, P2, P8)."""
    ledger = open_journaled()
    done, open_ = enter(ledger, attempted("done"), attempted("open"))
    barriers = ((at(62), at(63)), (at(65), at(67)), (at(70), at(71)))
    cursor = Cursor("open", "f", 1, T0, at(60), at(1), barriers, "boot")
    ledger.write([finish(done, at(1)), SetCursor(cursor)], durable=True)
    ledger.write([SetAttempt(open_, Attempt(1, at(0), pid=7, output="/o"))], durable=False)
    before = (ledger.identity, ledger.open_runs(), ledger.cursors())
    _spoil(monkeypatch, 1)
    assert enter(ledger, claim("new")) == [3]
    (run, new) = ledger.open_runs()
    assert (ledger.identity, [run], ledger.cursors()) == before
    assert new.job == "new"
    (aside,) = path.parent.glob("ledger.db.damaged-*")
    (trouble,) = ledger.troubles
    assert str(aside) in trouble
    ledger.close()
    assert _in_file(aside) == ["done", "open"]
    after = open_journaled()
    assert after.identity == before[0]
    assert list(after.troubles) == []


def test_a_damaged_disk_does_not_fill_itself(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is damaged again and again is replaced a few times; then the journal is it."""
    ledger = open_journaled()
    _spoil(monkeypatch, 99)
    for number in range(20):
        enter(ledger, claim("a", at(number)))
    assert len(list(path.parent.glob("ledger.db.damaged-*"))) == MOST_MENDED
    assert len(ledger.open_runs()) == 20
    assert "begun anew" in ledger.troubles[0]


def test_who_lost_the_directory_writes_nothing_there(path: Path, stack: ExitStack) -> None:
    """Where another daemon has the directory since, no other ledger is begun in it (P2)."""
    ledger = open_ledger(path, FakeClock(at(0)), keep_hold=_refuse)
    stack.callback(ledger.close)
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(LedgerError, match="another pycron has it"):
        ledger.write([claim("a")], durable=True)
    assert list(path.parent.iterdir()) == []


def _refuse(_now: object) -> None:
    raise StateLockedError("another pycron has it", pid=7)


@pytest.mark.parametrize("is_locked", [False, True])
def test_who_lost_the_lock_writes_nothing(path: Path, stack: ExitStack, is_locked: bool) -> None:
    """Where another daemon holds the lock since, all the files are its own, in trouble too (P2)."""
    keepers: list[Callable[[object], None]] = [lambda _now: None]

    def keep(now: object) -> None:
        keepers[-1](now)

    ledger = open_ledger(path, FakeClock(at(0)), keep_hold=keep)
    stack.callback(ledger.close)
    (done,) = enter(ledger, claim("before"))
    ledger.write([finish(done, at(1))], durable=True)
    with _locked(path) if is_locked else ExitStack():
        if is_locked:
            enter(ledger, claim("in-journal"))
        keepers.append(_refuse)
        journal = journal_file(path).read_bytes()
        with pytest.raises(LedgerError, match="another pycron has it"):
            ledger.write([claim("after")], durable=True)
    with pytest.raises(LedgerError):
        ledger.prune("before", keep_runs=0, older_than=None, limit=9)
    spare = path.with_suffix(".spare").read_bytes()
    ledger.settle()
    ledger.close()
    assert _in_file(path) == ["before"]
    assert journal_file(path).read_bytes() == journal
    assert path.with_suffix(".spare").read_bytes() == spare


@pytest.mark.parametrize("number", [errno.ENOTDIR, errno.EIO, errno.EACCES])
def test_a_place_that_cannot_be_looked_at(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """What nobody can look at was not deleted, and ends in no other error than ours (P8)."""
    ledger = open_journaled()
    enter(ledger, claim("a"))
    real = os.stat

    def fail(which: object, *args: object, **kwargs: object) -> os.stat_result:
        if os.fspath(which) == str(path):  # type: ignore[call-overload]
            raise OSError(number, os.strerror(number))
        return real(which, *args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        patch.setattr(os, "lstat", lambda which, **more: fail(which, follow_symlinks=False, **more))
        enter(ledger, claim("b"))
        ledger.settle()
        assert ledger.settles_in == timedelta(seconds=1)
    _settle(ledger)
    assert ledger.settles_in is None
    assert _in_file(path) == ["a", "b"]
    assert not list(path.parent.glob("*.damaged-*"))


def test_a_file_in_the_directorys_place(tmp_path: Path, stack: ExitStack) -> None:
    """Where the state directory became a file writes wait, and go on once it is gone (P8)."""
    state = tmp_path / "state"
    clock = FakeClock(at(0))
    lock = StateLock(state)
    lock.acquire(at(0))
    stack.callback(lock.release)
    ledger = open_ledger(state / "ledger.db", clock, keep_hold=lock.keep)
    stack.callback(ledger.close)
    shutil.rmtree(state)
    state.write_text("in the way")
    for _ in range(2):
        with pytest.raises(LedgerError):
            ledger.write([claim("a")], durable=True)
        ledger.settle()
    state.unlink()
    _settle(ledger)
    assert enter(ledger, claim("a")) == [1]
    assert _in_file(state / "ledger.db") == ["a"]


def test_a_file_that_was_put_there_is_left_alone(path: Path, open_journaled: OpenJournaled) -> None:
    """Where somebody has put another ledger in the place, the journal goes on beside it (P8)."""
    ledger = open_journaled()
    enter(ledger, claim("a"))
    path.rename(path.with_name("moved.db"))
    path.write_bytes(b"somebody else's")
    enter(ledger, claim("b"))
    _settle(ledger)
    assert path.read_bytes() == b"somebody else's"
    assert "was deleted or replaced" in ledger.troubles[0]
    assert [run.job for run in ledger.open_runs()] == ["a", "b"]


def test_copied_again_from_where_it_was_begun(path: Path, stack: ExitStack) -> None:
    """Records that the ledger had before are behind: copying to another begins after them (P1)."""
    journal = stack.enter_context(closing(Journal.open(journal_file(path))))
    journal.begin("abcd0123")
    claims = [claim("known"), *(claim(f"new-{number}") for number in range(AT_ONCE + 1))]
    for number, each in enumerate(claims, 1):
        journal.append(number, pack([to_step(each).with_id(number)]), durable=False)
    known = Remains("abcd0123", {}, [], last_id=1, applied=1)
    first = stack.enter_context(closing(SqliteLedger.open(path, now=T0)))
    aside = Aside("locked", known, first, journal)
    aside.resume(list(journal.records()))
    assert aside.copy_some(), "all is copied at once"
    other = path.with_name("other.db")
    second = stack.enter_context(closing(SqliteLedger.open(other, now=T0)))
    second.write_each([], applied=1, last_id=1)
    aside.go_on_with(second)
    while aside.copy_some():
        pass
    assert _in_file(other) == sorted(each.job for each in claims[1:])


# --- what is known --------------------------------------------------------------------------------


def test_a_long_story_is_kept_short() -> None:
    """A run that is tried again for ever does not grow in memory."""
    known = Known({}, [], 0, 0)
    known.take([attempted("a")], [1])
    for number in range(2, 100):
        for write in (SetRun(1, State.RUNNING), SetAttempt(1, Attempt(number, at(number)))):
            known.take([write], [])
    assert len(known._open[1]) < 30
    (run,) = known.open_runs()
    assert [attempt.number for attempt in run.attempts] == list(range(1, 100))


def test_many_that_wait_for_their_retry_are_known_in_little_room() -> None:
    """P1: what is packed comes out as the ledger has it, whatever is written of it before or after.

    Those that an earlier daemon has left are as many.
    """
    number, whole = 600, MemoryLedger("memory")
    known = Known({}, [], 0, 0)
    told = "not UTF-8: \udcff"
    ended = Attempt(
        1,
        at(0),
        4321,
        99,
        "boot",
        at(1),
        at(2),
        Exit(code=1, cpu=timedelta(milliseconds=3), peak_memory_bytes=9),
        Outcome.FAILED,
        told,
        "/out/1",
        lag=Lag(pool=timedelta(seconds=1)),
        user="alice",
    )

    def write(*writes: Write) -> None:
        known.take(writes, [each for each in whole.write(writes, durable=True) if each])

    for run_id in range(1, number + 1):
        write(attempted(f"task:{run_id}"))
        waits = SetRun(run_id, State.WAITING_RETRY, reason=told, retry_at=at(7200))
        write(SetAttempt(run_id, ended), waits)
    for run_id in range(1, number, 3):
        begun = SetAttempt(run_id, Attempt(2, at(7200), boot_id="boot", user="bob"))
        write(SetRun(run_id, State.RUNNING), begun)
    for run_id in range(1, number, 6):
        waits = SetRun(run_id, State.WAITING_RETRY, reason=told, retry_at=at(9999))
        write(SetAttempt(run_id, replace(ended, number=2, lag=None)), waits)
    write(finish(2, at(8000)))
    left = Known({}, whole.open_runs(), number, 0)
    for each in (known, left):
        assert each.open_runs() == whole.open_runs()
    packed = [story for story in left._open.values() if isinstance(story, bytes)]
    waiting = [run for run in whole.open_runs() if run.state is State.WAITING_RETRY]
    assert number - 1 - 256 - 100 <= len(packed) <= len(waiting)
    assert max(map(len, packed)) < 400


def test_what_waits_for_its_retry_at_the_start_is_known(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: a file that is begun in another's place has all of it, the spare copy the first."""
    monkeypatch.setattr(journaled_module, "MOST_SPARED", 300)
    number = 600
    with closing(open_journaled()) as ledger:
        hand_in(ledger, *[new_task()] * number)
        ids = enter(ledger, *(attempted(f"task:{n}") for n in range(1, number + 1)))
        waits = [SetRun(n, State.WAITING_RETRY, retry_at=at(n)) for n in ids]
        ledger.write([*waits, SetAttempt(7, Attempt(2, at(5)))], durable=True)
        enter(ledger, attempted("backup"))
        expected = {run.id: run for run in ledger.open_runs()}
    open_journaled().close()
    spare = read_spare(path, T0)
    assert spare is not None
    spared = [run_of_step(step).id for step in spare.steps if step.kind is Kind.CLAIM]
    assert spared == [*ids[:300], number + 1]
    with closing(open_journaled()) as ledger:
        path.unlink()
        running = SetRun(4, State.RUNNING)
        again = SetRun(5, State.WAITING_RETRY, retry_at=at(9))
        ledger.write([finish(3, at(8)), running, again], durable=True)
        _settle(ledger)
        del expected[3]
        expected[4] = replace(expected[4], state=State.RUNNING, retry_at=None)
        expected[5] = replace(expected[5], retry_at=at(9))
        assert {run.id: run for run in ledger.open_runs()} == expected
        assert _in_file(path) == sorted(["task:3", *(run.job for run in expected.values())])


def test_migrations_give_columns_that_may_be_absent() -> None:
    """Each column that comes to a table of the journal's rows may be NULL: old rows have none."""
    for step in load_migrations()[1:]:
        for line in step.script.splitlines():
            if line.startswith(("ALTER TABLE runs", "ALTER TABLE attempts", "ALTER TABLE cursors")):
                assert "NOT NULL" not in line
