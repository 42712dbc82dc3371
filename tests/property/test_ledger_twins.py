"""The two ledgers are driven side by side, through restarts and power cuts, and stay the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from crond_py.errors import LedgerError
from crond_py.ledger.memory import MemoryLedger
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from crond_py.model import (
    Attempt,
    Cause,
    Cursor,
    Exit,
    Lane,
    Left,
    Outcome,
    Run,
    Scale,
    State,
    Task,
)
from crond_py.ports import (
    Claim,
    Ledger,
    LedgerReader,
    NewTask,
    RunQuery,
    SetAttempt,
    SetCursor,
    SetRun,
    SetTask,
    TaskQuery,
    Write,
)
from tests.support.ledgers import LANE, T0, at

State_ = tuple[list[Run], dict[str, Cursor], list[Task]]

JOBS = st.sampled_from(["a", "b", "ä", "task:1", "task:3"])
RUN_IDS = st.integers(1, 12)  # mostly there, sometimes not
TASK_IDS = st.integers(1, 6)
INSTANTS = st.integers(-3, 12).map(at)
MAYBE_INSTANTS = st.none() | INSTANTS
OUTCOMES = st.sampled_from(Outcome)
TEXTS = st.sampled_from(["", "why", "/out/1", "\udcff"])
EXITS = st.sampled_from([None, Exit(), Exit(code=1), Exit(signal=9, peak_memory_bytes=1)])

ATTEMPTS = st.builds(
    Attempt,
    number=st.integers(1, 3),
    begun_at=INSTANTS,
    pid=st.none() | st.just(4),
    finished_at=MAYBE_INSTANTS,
    exit=EXITS,
    outcome=st.none() | OUTCOMES,
    reason=TEXTS,
    output=TEXTS,
    stopping=st.sampled_from([None, Outcome.CANCELLED, Outcome.TIMED_OUT]),
    user=st.sampled_from([None, "0", "www-data"]),
)
OPEN_STATES = st.sampled_from([State.QUEUED, State.RUNNING, State.WAITING_RETRY])
CLAIMS = st.builds(
    Claim,
    job=JOBS,
    era=st.integers(0, 1),
    due=INSTANTS,
    cause=st.sampled_from(Cause),
    state=OPEN_STATES,
    claimed_at=INSTANTS,
    attempt=st.none() | ATTEMPTS,
)
FINISHED_CLAIMS = st.builds(
    lambda claim, outcome, count: replace(
        claim, state=State.DONE, outcome=outcome, count=count, last_due=at(20)
    ),
    CLAIMS,
    OUTCOMES,
    st.integers(0, 3),  # 0 is refused
)
SET_RUNS = st.builds(
    SetRun,
    RUN_IDS,
    state=OPEN_STATES | st.just(State.DONE),
    outcome=st.none() | OUTCOMES,  # in half of the cases at odds with the state
    reason=TEXTS,
    finished_at=MAYBE_INSTANTS,
    retry_at=MAYBE_INSTANTS,
    left_as=st.none() | st.sampled_from(Left),
)
FINISHES = st.builds(
    SetRun, RUN_IDS, state=st.just(State.DONE), outcome=OUTCOMES, finished_at=MAYBE_INSTANTS
)
CURSORS = st.builds(
    Cursor, JOBS, TEXTS.filter(str.isascii), st.integers(0, 2), INSTANTS, INSTANTS, MAYBE_INSTANTS
)
WRITES: st.SearchStrategy[Write] = st.one_of(
    CLAIMS,
    CLAIMS,
    FINISHED_CLAIMS,
    FINISHES,
    SET_RUNS,
    st.builds(SetAttempt, RUN_IDS, ATTEMPTS),
    st.builds(SetCursor, CURSORS),
    st.builds(SetTask, TASK_IDS, INSTANTS),
    st.builds(SetTask, TASK_IDS, INSTANTS, ended_at=INSTANTS),
)
LANES = st.sampled_from([LANE, Lane("batch", 1, "bob"), Lane("default", 0, "bob", Scale.STEADY)])
NEW_TASKS = st.builds(
    NewTask,
    lane=LANES,
    due=INSTANTS,
    definition=st.just("{}"),
    submitted_by=st.sampled_from(["bob", "eve"]),
    period=st.sampled_from([None, None, timedelta(seconds=3)]),
    key=st.sampled_from([None, None, None, "k", "l"]),
)
TASK_QUERIES = st.builds(
    TaskQuery,
    is_open=st.sampled_from([True, False, None]),
    submitted_by=st.sampled_from([None, "bob", "eve"]),
    limit=st.none() | st.integers(0, 4),
    after=st.none() | st.tuples(INSTANTS, TASK_IDS),
)
BAD_TASK = NewTask(LANE, T0, "{}", "bob", timedelta(0))


def counted(due: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds of a count in the place of those of a list."""
    return {**due, "after": due["after"] and due["after"][0]}


DUE_TASKS = st.fixed_dictionaries(
    {
        "lane": LANES,
        "after": st.none() | st.tuples(INSTANTS, TASK_IDS),
        "until": MAYBE_INSTANTS,
        "limit": st.integers(0, 4),
    }
)
QUERIES = st.builds(
    RunQuery,
    job=st.none() | JOBS,
    outcomes=st.frozensets(OUTCOMES, max_size=3),
    states=st.frozensets(st.sampled_from(State), max_size=2),
    since=MAYBE_INSTANTS,
    until=MAYBE_INSTANTS,
    limit=st.none() | st.integers(0, 4),
    before_id=st.none() | RUN_IDS,
)


def _outcome_of(call: Callable[[], object]) -> object:
    """Return what a call returns, or the kind of error that it raises."""
    try:
        return call()
    except (LedgerError, LookupError) as error:
        return type(error)


def _state(reader: LedgerReader) -> State_:
    tasks = reader.tasks(TaskQuery(is_open=None, limit=None))
    return reader.runs(RunQuery(limit=None)), reader.cursors(), tasks


class Twins(RuleBasedStateMachine):
    """Does the same to both ledgers, and compares all that they answer."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="pycron-twins-")
        self.path = Path(self.folder.name, "0", "ledger.db")
        self.lives = 0

    @initialize()
    def begin(self) -> None:
        """Begin both, empty."""
        self.path.parent.mkdir()
        self.real = SqliteLedger.open(self.path, now=T0)
        self.fake = MemoryLedger(self.real.identity)
        self._synced()

    def _synced(self) -> None:
        """Note what no power cut can take; from here on states and lengths of the log pile up."""
        self.states = [_state(self.fake)]
        self.log_bytes = [self._log().stat().st_size]

    def _log(self) -> Path:
        return Path(f"{self.path}-wal")

    def _both(self, call: Callable[[Ledger], object]) -> object:
        real = _outcome_of(lambda: call(self.real))
        fake = _outcome_of(lambda: call(self.fake))
        assert real == fake
        return real

    @rule(writes=st.lists(WRITES, max_size=6), durable=st.booleans())
    def write(self, writes: list[Write], durable: bool) -> None:
        """Write the same to both, nonsense too."""
        result = self._both(lambda ledger: ledger.write(writes, durable=durable))
        if isinstance(result, list) and writes:
            self._committed(durable=durable)

    @rule(
        job=JOBS,
        keep_runs=st.none() | st.integers(0, 3),
        older_than=MAYBE_INSTANTS,
        limit=st.integers(0, 3),
    )
    def prune(
        self, job: str, keep_runs: int | None, older_than: datetime | None, limit: int
    ) -> None:
        """Prune both."""
        self._both(
            lambda ledger: ledger.prune(
                job, keep_runs=keep_runs, older_than=older_than, limit=limit
            )
        )
        self._committed(durable=False)

    @rule(tasks=st.lists(NEW_TASKS, max_size=4), bad=st.sampled_from([None, None, None, BAD_TASK]))
    def submit(self, tasks: list[NewTask], bad: NewTask | None) -> None:
        """Hand in the same to both."""
        wanted = tasks if bad is None else [*tasks, bad]
        result = self._both(lambda ledger: ledger.submit(wanted, at(20)))
        if isinstance(result, list) and wanted:
            self._committed(durable=True)

    @rule(older_than=INSTANTS, limit=st.integers(0, 3))
    def prune_tasks(self, older_than: datetime, limit: int) -> None:
        """Prune the tasks of both."""
        self._both(lambda ledger: ledger.prune_tasks(older_than=older_than, limit=limit))
        self._committed(durable=False)

    def _committed(self, *, durable: bool) -> None:
        if durable:
            self._synced()
            assert self.fake.unsynced == 0
        else:
            self.states.append(_state(self.fake))
            self.log_bytes.append(self._log().stat().st_size)
            assert self.fake.unsynced == len(self.states) - 1

    @rule()
    def restart(self) -> None:
        """Close it and open it again; a checkpoint makes all of it durable."""
        self.real.close()
        self.real = SqliteLedger.open(self.path, now=at(99))
        self.fake = self.fake.crash(power_cut=False)
        self.fake.write([SetCursor(Cursor("a", "f", 0, T0, T0))], durable=True)
        self.real.write([SetCursor(Cursor("a", "f", 0, T0, T0))], durable=True)
        self._synced()

    @rule(lost=st.floats(0, 1))
    def power_cut(self, lost: float) -> None:
        """Cut the log somewhere behind what was synced: whole transactions are left."""
        self.lives += 1
        path = Path(self.folder.name, str(self.lives), "ledger.db")
        path.parent.mkdir()
        shutil.copyfile(self.path, path)
        log = self._log().read_bytes()
        synced_bytes = self.log_bytes[0]
        kept = synced_bytes + round((len(log) - synced_bytes) * (1 - lost))
        Path(f"{path}-wal").write_bytes(log[:kept])
        self.real.close()
        self.path = path
        self.real = SqliteLedger.open(path, now=at(99))
        flushed = sum(size <= kept for size in self.log_bytes[1:])
        assert _state(self.real) == self.states[flushed]
        self.fake = self.fake.crash(power_cut=True, flushed=flushed)
        self._synced()

    @rule(query=QUERIES)
    def ask(self, query: RunQuery) -> None:
        """List the same."""
        self._both(lambda ledger: ledger.runs(query))

    @rule(query=TASK_QUERIES, due=DUE_TASKS)
    def ask_for_tasks(self, query: TaskQuery, due: dict[str, Any]) -> None:
        """List the same tasks."""
        self._both(lambda ledger: ledger.tasks(query))
        self._both(lambda ledger: ledger.tasks_due(**due))
        self._both(lambda ledger: ledger.count_due(**counted(due)))

    @invariant()
    def same_answers(self) -> None:
        """Compare every other answer."""
        for run_id in (1, 5):
            self._both(lambda ledger, run_id=run_id: ledger.run(run_id))  # type: ignore[misc]
        self._both(_state)
        self._both(lambda ledger: (ledger.identity, ledger.open_runs(), ledger.last_runs()))
        self._both(lambda ledger: (ledger.lanes(), ledger.task(1), ledger.task(5)))

    @rule()
    def look_on(self) -> None:
        """Ask by a connection that only reads."""
        reader = open_reader(self.path)
        assert _state(reader) == _state(self.fake)
        reader.close()

    def teardown(self) -> None:
        """Let go of the files."""
        if hasattr(self, "real"):
            self.real.close()
        self.folder.cleanup()


TestTwins = Twins.TestCase
TestTwins.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
TestTwins.__doc__ = (
    "Whatever is written, and wherever the power is cut, both ledgers agree (P1, P8)."
)
