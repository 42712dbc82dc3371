"""What a daemon must not lose with its ledger's file: cursors, open runs, the ids it has given.

Kept in memory beside the file, as cheaply as can be: writes are put by, and made into runs only
when somebody asks. Of runs that wait for their retry there may be very many, and nothing is written
of them for long: where there are more than a few runs these are packed, and those that were there
at the start many together.
"""

from __future__ import annotations

import marshal
import zlib
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from crond_py.dataclass import dataclass
from crond_py.ledger.changes import changed, claimed, with_attempt
from crond_py.ledger.records import Row, set_task_row, to_attempt, to_runs, to_set_run
from crond_py.ledger.steps import Kind, Step, pack, run_of_step, steps_of_run, unpack
from crond_py.model import Cursor, Run, State, Task
from crond_py.ports import Claim, SetAttempt, SetCursor, SetRun, SetTask, Write

_RECENT = 10_000
_OPEN = -(2**63)  # instead of when a task ended
_LONG = 16  # writes about one run after which they are made into one
_FEW = 256  # open runs of which none is packed

TOGETHER = 256
"""How many runs are packed in one piece; to get at one of them all are unpacked."""


class _Rows:
    """The rows of some runs, as they stand in the file, in little room."""

    __slots__ = ("_packed",)

    def __init__(self, rows: Sequence[Row]) -> None:
        self._packed = zlib.compress(marshal.dumps(list(rows)), 1)

    def by_id(self) -> dict[int, list[Row]]:
        """Return the rows of each run."""
        found: dict[int, list[Row]] = {}
        for row in marshal.loads(zlib.decompress(self._packed)):  # noqa: S302 - our own, see above
            found.setdefault(row[0], []).append(row)
        return found


_Story = list[Run | Write] | bytes | _Rows


@dataclass(frozen=True, slots=True)
class Remains:
    """What is carried over into a ledger that is begun in another's place.

    ``identity`` is empty where nobody knows it. ``applied`` is the number of the journal's last
    record that is in it, ``promised`` that of the last durable write. ``tasks`` and then ``steps``
    are carried over besides what can still be read of the other's tasks. ``ended_tasks`` are needed
    though they have ended, as are those of the open runs.
    """

    identity: str
    cursors: Mapping[str, Cursor]
    open_runs: Sequence[Run]
    last_id: int
    applied: int
    promised: int = 0
    steps: Sequence[Step] = ()
    last_task_id: int = 0
    tasks: Sequence[Task] = ()
    ended_tasks: Collection[int] = ()


class RecentMoves:
    """Where tasks were moved to last: what the end of a ledger's log may have, and nothing else.

    A task of which that is lost looks as if it had not been taken up. All tasks would be too many;
    these are at least as many as are in a log of the usual length.
    """

    def __init__(self) -> None:
        self._values = array("q")

    def note(self, move: SetTask) -> None:
        """Note that a task has moved on."""
        due_us, ended_us, task_id = set_task_row(move)
        self._values.extend((due_us, _OPEN if ended_us is None else ended_us, task_id))
        if len(self._values) >= 2 * 3 * _RECENT:
            del self._values[: 3 * _RECENT]

    def steps(self) -> list[Step]:
        """Return the moves in their order."""
        values = iter(self._values)
        return [
            Step(Kind.TASK, (due_us, None if ended_us == _OPEN else ended_us, task_id))
            for due_us, ended_us, task_id in zip(values, values, values, strict=True)
        ]


class Known:
    """Follows what is written to a ledger."""

    def __init__(
        self,
        cursors: Mapping[str, Cursor],
        open_runs: Iterable[Run],
        last_id: int,
        last_task_id: int,
        moves: RecentMoves | None = None,
    ) -> None:
        self.cursors = dict(cursors)
        self.last_id = last_id
        self.last_task_id = last_task_id
        self.moves = moves or RecentMoves()
        self._open: dict[int, _Story] = {}
        self._unpacked: tuple[_Rows | None, dict[int, list[Row]]] = (None, {})
        for run in open_runs:
            self._open[run.id] = self._packed(run) if run.state is State.WAITING_RETRY else [run]

    def hold(self, rows: Sequence[Row]) -> None:
        """Take the rows of some open runs that wait for their retry."""
        packed = _Rows(rows)
        self._open.update((row[0], packed) for row in rows)

    def take(self, writes: Iterable[Write], ids: Iterable[int | None]) -> None:
        """Note what the ledger has taken; ``ids`` are those of the claims among it."""
        ids = iter(ids)
        for write in writes:
            match write:
                case SetRun() if write.outcome is not None:
                    self._open.pop(write.run_id, None)
                case SetRun() | SetAttempt():
                    self._note(write.run_id, write)
                case Claim():
                    self._claim(write, next(ids))
                case SetCursor(cursor):
                    self.cursors[cursor.job] = cursor
                case SetTask():
                    self.moves.note(write)

    def _claim(self, claim: Claim, run_id: int | None) -> None:
        if run_id is None:  # one that is refused uses its id up
            self.last_id += 1
            return
        self.last_id = max(self.last_id, run_id)
        if claim.outcome is None:
            self._open[run_id] = [claim]

    def _note(self, run_id: int, write: Write) -> None:
        story = self._open.get(run_id)
        if story is None:
            return
        if not isinstance(story, list):
            story = self._open[run_id] = [self._told(run_id)]
        story.append(write)
        if isinstance(write, SetRun) and write.state is State.WAITING_RETRY:
            self._open[run_id] = self._packed(self._told(run_id))
        elif len(story) > _LONG:
            story[:] = [self._told(run_id)]

    def _packed(self, run: Run) -> _Story:
        """Return the story of a run, in less room where there are many."""
        return zlib.compress(pack(steps_of_run(run))) if len(self._open) > _FEW else [run]

    def open_runs(self, *, most_packed: int | None = None) -> list[Run]:
        """Return every run without an outcome, as it stands, oldest claim first.

        Of those that wait for their retry, and are packed, the first ``most_packed``; None: all.
        """
        ids = sorted(self._open)
        packed = [run_id for run_id in ids if not isinstance(self._open[run_id], list)]
        left_out = set() if most_packed is None else set(packed[most_packed:])
        return [self._told(run_id) for run_id in ids if run_id not in left_out]

    def _told(self, run_id: int) -> Run:
        """Return an open run as it stands."""
        story = self._open[run_id]
        if isinstance(story, bytes):
            return _unpacked(story)
        return self._of_rows(run_id, story) if isinstance(story, _Rows) else _told(run_id, story)

    def _of_rows(self, run_id: int, rows: _Rows) -> Run:
        if self._unpacked[0] is not rows:  # whoever asks for all does so in order
            self._unpacked = rows, rows.by_id()
        return to_runs(self._unpacked[1][run_id])[0]


def _unpacked(packed: bytes) -> Run:
    """Return the run whose steps were packed."""
    claim, stands, *attempts = unpack(zlib.decompress(packed))
    run = changed(run_of_step(claim), to_set_run(stands.row))
    return replace(run, attempts=tuple(to_attempt(step.row[1:]) for step in attempts))


def _told(run_id: int, story: Sequence[Run | Write]) -> Run:
    """Return the run that a row of writes makes."""
    begin = story[0]
    if isinstance(begin, Claim):
        run = claimed(run_id, begin)
    else:
        assert isinstance(begin, Run)  # noqa: S101 - nothing else begins a story
        run = begin
    for write in story[1:]:
        match write:
            case SetRun():
                run = changed(run, write)
            case SetAttempt(_, attempt):
                run = with_attempt(run, attempt)
            case _:
                message = f"not about a run that is there: {write!r}"
                raise TypeError(message)
    return run
