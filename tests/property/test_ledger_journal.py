"""The daemon's ledger, troubled and killed, beside one that is left in peace.

Both get the same writes. Whatever fails meanwhile and wherever the process is killed, also in the
middle of a record of the journal, the two answer the same: while there is trouble, after it, and
after a restart. Only of the very write that a kill interrupts it is open whether it is there.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crond_py.errors import LedgerCorruptError, LedgerError, LedgerRefusedError
from crond_py.ledger import aside as aside_module
from crond_py.ledger import journal as journal_module
from crond_py.ledger import journaled as journaled_module
from crond_py.ledger import opening as opening_module
from crond_py.ledger.journal import Journal
from crond_py.ledger.journaled import JournaledLedger
from crond_py.ledger.memory import MemoryLedger
from crond_py.ledger.opening import open_ledger
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import Cursor, Lane, Run, Task
from crond_py.ports import (
    Claim,
    LaneStock,
    Ledger,
    LedgerReader,
    NewTask,
    RunQuery,
    SetCursor,
    SetRun,
    TaskQuery,
    Write,
)
from tests.property.test_ledger_twins import (
    DUE_TASKS,
    INSTANTS,
    JOBS,
    NEW_TASKS,
    QUERIES,
    TASK_QUERIES,
    WRITES,
    counted,
)
from tests.support.clock import FakeClock
from tests.support.ledgers import at

State_ = tuple[
    list[Run], dict[str, Cursor], list[Run], dict[str, Run], list[Task], dict[Lane, LaneStock]
]
ALL_TASKS = TaskQuery(is_open=None, limit=None)


HEAD_BYTES = 20
QUICK_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SHARES = st.sampled_from([0.0, 0.05, 0.3, 0.7, 0.95, 1.0])


class Kill(BaseException):
    """The process ends here and now."""


class Fate:
    """Decides, at each step that changes a file, whether the process or the disk lives on.

    ``steps`` is how many steps are still lived to see; ``share`` is how much of a record of the
    journal is written at the fatal step, or at each one while the disk ``is_full``. While it
    ``is_forgetful``, what is wiped from the journal is there again after a power cut.
    """

    def __init__(self) -> None:
        self.steps: int | None = None
        self.share = 1.0
        self.is_full = False
        self.is_damaged = False
        self.is_forgetful = False

    def step(self) -> None:
        """Live through one step more, or not."""
        if self.steps is not None:
            self.steps -= 1
            if self.steps < 0:
                raise Kill

    def write(self, descriptor: int, content: bytes, place: int) -> None:
        """Write to the journal as the real function does, unless the disk or the end is near."""
        part = content[: round(len(content) * self.share)]
        if self.is_full:
            os.pwrite(descriptor, part, place)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            self.step()
        except Kill:
            os.pwrite(descriptor, part, place)
            raise
        os.pwrite(descriptor, content, place)
        self.step()

    def wipe(self, journal: Journal, place: int) -> None:
        """Wipe a record of the journal as the real method does."""
        if not self.is_forgetful or self.is_full:
            os.pwrite(journal._descriptor, bytes(HEAD_BYTES), place)

    @contextmanager
    def rules(self) -> Iterator[None]:
        """Be in charge of what happens to the files."""
        write, write_each = SqliteLedger.write, SqliteLedger.write_each
        submit = SqliteLedger.submit

        def fated(real: Callable[..., object]) -> Callable[..., object]:
            def call(ledger: SqliteLedger, *args: object, **options: object) -> object:
                self.step()
                if self.is_damaged:
                    self.is_damaged = False
                    raise LedgerCorruptError("a page makes no sense")
                result = real(ledger, *args, **options)
                self.step()
                return result

            return call

        def wipe(journal: Journal, place: int) -> None:
            self.wipe(journal, place)

        with (
            mock.patch.object(SqliteLedger, "write", fated(write)),
            mock.patch.object(SqliteLedger, "write_each", fated(write_each)),
            mock.patch.object(SqliteLedger, "submit", fated(submit)),
            mock.patch.object(journal_module, "_write", self.write),
            mock.patch.object(Journal, "_wipe", wipe),
            mock.patch.object(aside_module, "AT_ONCE", 2),
            mock.patch.object(opening_module, "START_PATIENCE", timedelta(milliseconds=1)),
            mock.patch.object(journaled_module, "PATIENCE", timedelta(milliseconds=1)),
        ):
            yield


def _state(reader: LedgerReader) -> State_:
    runs = reader.runs(RunQuery(limit=None))
    tasks = reader.tasks(ALL_TASKS)
    return runs, reader.cursors(), reader.open_runs(), reader.last_runs(), tasks, reader.lanes()


def _one_by_one(ledger: MemoryLedger, writes: Sequence[Write]) -> list[int | None]:
    """Write what makes sense, as the daemon's ledger does."""
    ids: list[int | None] = []
    for write in writes:
        try:
            ids += ledger.write([write], durable=True)
        except LedgerRefusedError:
            if isinstance(write, Claim):
                ids.append(None)
    return ids


def _last_id(ledger: JournaledLedger) -> int:
    return ledger._aside.memory.last_id if ledger._aside else ledger._known.last_id


class Journaled(RuleBasedStateMachine):
    """Does the same to a ledger in trouble and to one without, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="pycron-journal-", dir=QUICK_DISK)
        self.lives = 0
        self.still_locked = False
        self.fate = Fate()
        self.rule_of_fate = self.fate.rules()
        self.rule_of_fate.__enter__()
        self.other: sqlite3.Connection | None = None

    @property
    def path(self) -> Path:
        """Where the ledger of this life is."""
        return Path(self.folder.name, str(self.lives), "ledger.db")

    @initialize()
    def begin(self) -> None:
        """Begin both, empty."""
        self.path.parent.mkdir()
        self.real = self._open()
        self.calm = MemoryLedger(self.real.identity)

    def _open(self) -> JournaledLedger:
        return open_ledger(self.path, FakeClock(at(0)))

    # --- trouble --------------------------------------------------------------------------

    @rule()
    def lock(self) -> None:
        """Let another program begin to write, and not end."""
        if self.other is not None:
            return
        self.other = sqlite3.connect(self.path, isolation_level=None)
        self.other.execute("BEGIN IMMEDIATE")

    @precondition(lambda self: self.other is not None)
    @rule()
    def unlock(self) -> None:
        """Let go of it."""
        assert self.other is not None
        self.other.close()
        self.other = None

    @rule(is_forgetful=st.booleans())
    def forget(self, is_forgetful: bool) -> None:
        """Let wipes of the journal be lost, or not."""
        self.fate.is_forgetful = is_forgetful

    @rule(share=SHARES)
    def fill(self, share: float) -> None:
        """Leave the journal no room; a part of a record may fit."""
        self.fate.is_full, self.fate.share = True, share

    @rule()
    def make_room(self) -> None:
        """Make room again."""
        self.fate.is_full = False

    @rule(still_locked=st.booleans())
    def lock_early(self, still_locked: bool) -> None:
        """Let other programs lock the file before a daemon that starts comes to it, or not."""
        self.still_locked = still_locked

    @rule()
    def settle(self) -> None:
        """Let the ledger see whether the trouble is over."""
        self.real.settle()

    # --- writes ---------------------------------------------------------------------------

    @rule(writes=st.lists(WRITES, max_size=6), durable=st.booleans())
    def write(self, writes: list[Write], durable: bool) -> None:
        """Write the same to both; where neither the file nor the journal takes it, to none."""
        writes = self._without_reopening(writes)
        try:
            ids = self.real.write(writes, durable=durable)
        except LedgerError:
            assert self.real.settles_in is not None
            assert self.fate.is_full
            return
        assert ids == _one_by_one(self.calm, writes)

    def _without_reopening(self, writes: list[Write]) -> list[Write]:
        """Leave out what takes an outcome back: nobody does, and what had ended is forgotten."""
        open_ids = {run.id for run in self.calm.open_runs()}
        kept: list[Write] = []
        for write in writes:
            if isinstance(write, SetRun) and write.outcome is not None:
                open_ids.discard(write.run_id)
            elif isinstance(write, SetRun) and write.run_id not in open_ids:
                continue
            kept.append(write)
        return kept

    @rule(job=JOBS, keep_runs=st.integers(0, 3))
    def prune(self, job: str, keep_runs: int) -> None:
        """Prune both, or none."""

        def prune(ledger: Ledger) -> object:
            return ledger.prune(job, keep_runs=keep_runs, older_than=None, limit=9)

        try:
            pruned = prune(self.real)
        except LedgerError:
            return
        assert pruned == prune(self.calm)

    @rule(tasks=st.lists(NEW_TASKS, min_size=1, max_size=3))
    def submit(self, tasks: list[NewTask]) -> None:
        """Hand in the same to both; while there is trouble, to none."""
        try:
            answers = self.real.submit(tasks, at(20))
        except LedgerError:
            assert self.real.settles_in is not None
            return
        assert answers == self.calm.submit(tasks, at(20))

    @rule(older_than=INSTANTS)
    def prune_tasks(self, older_than: datetime) -> None:
        """Prune the tasks of both, or of none."""
        try:
            pruned = self.real.prune_tasks(older_than=older_than, limit=2)
        except LedgerError:
            return
        assert pruned == self.calm.prune_tasks(older_than=older_than, limit=2)

    @precondition(lambda self: self.real.settles_in is None and self.other is None)
    @rule(writes=st.lists(WRITES, min_size=1, max_size=3))
    def damage(self, writes: list[Write]) -> None:
        """Damage the file: what had ended is only in the old one, the rest goes on."""
        touch = SetCursor(Cursor("b", "f", 0, at(0), at(0)))
        writes = [*self._without_reopening(writes), touch]
        self.fate.is_damaged = True
        ids = self.real.write(writes, durable=True)
        calm = self.calm
        going_on = {run.job for run in calm.open_runs()}  # of these the ended tasks stay, too
        self.calm = MemoryLedger.holding(
            calm.identity,
            calm.open_runs(),
            calm.cursors(),
            calm.last_id,
            tasks=[
                task
                for task in calm.tasks(ALL_TASKS)
                if task.ended_at is None or task.job in going_on
            ],
            last_task_id=calm.last_task_id,
        )
        assert ids == _one_by_one(self.calm, writes)
        assert len(self.real.troubles) == 1
        self.real._lasting.clear()
        self.real._mended = 0

    # --- kills ----------------------------------------------------------------------------

    @rule(
        writes=st.lists(WRITES, max_size=4),
        steps=st.integers(0, 5),
        share=SHARES,
        locked=st.booleans(),
    )
    def killed_while_writing(
        self, writes: list[Write], steps: int, share: float, locked: bool
    ) -> None:
        """Kill the process at some step of a write, and let the next one take over."""
        writes = self._without_reopening(writes)
        self.fate.is_full = False
        if locked:
            self.lock()
            self.real.write([SetCursor(Cursor("b", "f", 0, at(0), at(0)))], durable=True)
            _one_by_one(self.calm, [SetCursor(Cursor("b", "f", 0, at(0), at(0)))])
        self.fate.share = share
        if self._live(steps, lambda: self.real.write(writes, durable=True)):
            self._restart(interrupted=writes)
        else:
            _one_by_one(self.calm, writes)
            self._restart()

    @rule(tasks=st.lists(NEW_TASKS, min_size=1, max_size=2), steps=st.integers(0, 2))
    def killed_while_submitting(self, tasks: list[NewTask], steps: int) -> None:
        """Kill the process at some step of handing in: all of the tasks are there, or none."""

        def submit() -> None:
            with suppress(LedgerError):
                self.real.submit(tasks, at(20))

        self._live(steps, submit)
        before = self.calm.tasks(ALL_TASKS)
        self._die()
        self.fate.is_full = False
        with closing(self._open()) as ledger:
            if ledger.tasks(ALL_TASKS) != before:
                self.calm.submit(tasks, at(20))
        self._restart()

    @rule(steps=st.integers(0, 3))
    def killed_while_settling(self, steps: int) -> None:
        """Kill the process while the journal is copied; nothing is lost or done twice."""
        self._live(steps, self.real.settle)
        self._restart()

    @rule(steps=st.integers(0, 3))
    def killed_while_taking_over(self, steps: int) -> None:
        """Kill the next process while it takes over what the first one left."""
        self._die()
        self._live(steps, lambda: self._open().close())
        self._restart()

    @rule(during=st.lists(WRITES, min_size=1, max_size=4), after=st.lists(WRITES, max_size=4))
    def killed_after_trouble(self, during: list[Write], after: list[Write]) -> None:
        """Kill the process soon after a trouble, so that a power cut takes what was wiped."""
        self.fate.is_full, self.fate.is_forgetful = False, True
        self.lock()
        cursor = Cursor("a", "f", 1, at(0), at(0))
        self.write([*during, SetCursor(cursor)], durable=True)
        self.unlock()
        while self.real.settles_in is not None:
            self.real.settle()
        self.write([*after, SetCursor(replace(cursor, era=2))], durable=True)
        self._restart()

    @rule()
    def stopped(self) -> None:
        """End the process as it should, in trouble or not."""
        self.real.close()
        self._restart()

    def _live(self, steps: int, work: Callable[[], object]) -> bool:
        """Do something until it is done or so many steps are over; return whether they were."""
        self.fate.steps = steps
        try:
            work()
        except Kill:
            return True
        finally:
            self.fate.steps = None
        return False

    def _die(self) -> None:
        """Leave the files as they are now, to another life."""
        if self.other is not None:
            self.other.close()
            self.other = None
        old = self.path.parent
        self.lives += 1
        shutil.copytree(old, self.path.parent)
        with mock.patch.object(JournaledLedger, "settle"):
            self.real.close()

    def _restart(self, interrupted: Sequence[Write] = ()) -> None:
        self._die()
        self.fate.is_full = False
        if self.still_locked:
            self.lock()
        self.real = self._open()
        if _state(self.real) != _state(self.calm):
            _one_by_one(self.calm, interrupted)
        # A number that a refused claim has used up may come again: no run has had it.
        used = max([run.id for run in self.calm.runs(RunQuery(limit=None))], default=0)
        assert used <= _last_id(self.real)
        calm = self.calm
        self.calm = MemoryLedger.holding(
            calm.identity,
            calm.runs(RunQuery(limit=None)),
            calm.cursors(),
            _last_id(self.real),
            tasks=calm.tasks(ALL_TASKS),
            last_task_id=calm.last_task_id,
        )

    # --- answers --------------------------------------------------------------------------

    @rule(query=QUERIES)
    def ask(self, query: RunQuery) -> None:
        """List the same."""
        answers = []
        for ledger in (self.real, self.calm):
            try:
                answers.append(ledger.runs(query))
            except LookupError:
                answers.append([])
        assert answers[0] == answers[1]

    @rule(query=TASK_QUERIES, due=DUE_TASKS)
    def ask_for_tasks(self, query: TaskQuery, due: dict[str, Any]) -> None:
        """List the same tasks."""
        answers = []
        for ledger in (self.real, self.calm):
            try:
                answers.append((ledger.tasks(query), ledger.tasks_due(**due)))
            except LookupError:
                answers.append(([], ledger.tasks_due(**due)))
        assert answers[0] == answers[1]
        numbers = [ledger.count_due(**counted(due)) for ledger in (self.real, self.calm)]
        assert numbers[0] == numbers[1]

    @invariant()
    def same_answers(self) -> None:
        """Compare every other answer."""
        assert _state(self.real) == _state(self.calm)
        assert self.real.identity == self.calm.identity
        assert [self.real.run(n) for n in (1, 5)] == [self.calm.run(n) for n in (1, 5)]
        assert [self.real.task(n) for n in (1, 5)] == [self.calm.task(n) for n in (1, 5)]

    def teardown(self) -> None:
        """Let go of the files."""
        if self.other is not None:
            self.other.close()
        if hasattr(self, "real"):
            self.real.close()
        self.rule_of_fate.__exit__(None, None, None)
        self.folder.cleanup()


TestJournaled = Journaled.TestCase
TestJournaled.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
TestJournaled.__doc__ = (
    "Whatever fails and whenever the process is killed, nothing is lost or doubled (P1, P2, P8)."
)
