"""Tasks that were moved on while the ledger's file takes nothing.

The file has all the tasks, which may be a million, and can mostly still be read; what is known
here is laid over what it answers. So the answers are right before and after the journal is copied
to it, and also in the middle of that.

Not responsible for the journal; see ``aside``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from crond_py.errors import LedgerRefusedError
from crond_py.ledger import tasklists
from crond_py.ledger.changes import moved
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.ledger.tasklists import Position
from crond_py.ledger.undo import Undo
from crond_py.model import Lane, Task
from crond_py.ports import LaneStock, SetTask, TaskQuery


class Moved:
    """Where tasks stand that were moved on; the other tasks stand as the file has them."""

    def __init__(self) -> None:
        self._moves: dict[int, SetTask] = {}
        self._tasks: dict[int, Task] = {}  # as they stand
        self._open: dict[int, Task] = {}  # those of them that have not ended
        self._unknown: set[int] = set()  # moved while the file could not be read
        self._looked_up: dict[int, Task] = {}
        self._floors: dict[Lane, Position] = {}  # up to here all of the file's were moved
        self._undo = Undo()

    @property
    def moves(self) -> Iterable[SetTask]:
        """Where each of the tasks stands."""
        return self._moves.values()

    def look_up(self, task_id: int, file: SqliteLedger) -> None:
        """Get a task from the file that is to be moved, unless it is here already."""
        if task_id not in self._tasks and (task := self.task(task_id, file)) is not None:
            self._looked_up[task_id] = task

    def take(self, move: SetTask, *, must_be_known: bool) -> None:
        """Note a move, to be undone by ``revert``.

        Raises LedgerRefusedError where the task must be known and was not found. Where the file
        cannot be read nobody knows: it shows when the file takes the move.
        """
        task = self._tasks.get(move.task_id) or self._looked_up.get(move.task_id)
        if task is None and must_be_known:
            message = f"the ledger has no task {move.task_id}, so it cannot change"
            raise LedgerRefusedError(message)
        self._undo.put(self._moves, move.task_id, move)
        if task is None:
            self._unknown.add(move.task_id)
        else:
            self._put(moved(task, move), self._undo)

    def _put(self, task: Task, undo: Undo) -> None:
        undo.put(self._tasks, task.id, task)
        if task.ended_at is None:
            undo.put(self._open, task.id, task)
        else:
            undo.drop(self._open, task.id)

    def keep(self) -> None:
        """Keep what was noted."""
        self._undo = Undo()
        self._looked_up.clear()

    def revert(self) -> None:
        """Forget what was noted since it was kept."""
        self._undo.take_back()
        self._looked_up.clear()

    def look_again(self) -> None:
        """Take nothing for granted of what the file had: there is another in its place."""
        self._tasks.clear()
        self._open.clear()
        self._floors.clear()
        self._unknown = set(self._moves)

    # --- asking ---------------------------------------------------------------------------

    def task(self, task_id: int, file: SqliteLedger) -> Task | None:
        """Return one task."""
        task = file.task(task_id)
        move = self._moves.get(task_id)
        return moved(task, move) if task is not None and move is not None else task

    def tasks(self, query: TaskQuery, file: SqliteLedger) -> list[Task]:
        """Return the tasks that are asked for; see ``ports.TaskQuery``."""

        def page(last: Task | None) -> list[Task]:
            after = query.after if last is None else tasklists.position(last)
            return file.tasks(replace(query, after=after))

        self._make_known(file)
        ours = tasklists.chosen(self._tasks.values(), query)
        theirs = self._unmoved(page, query.limit)
        found = tasklists.in_order([*ours, *theirs], query)
        return found if query.limit is None else found[: max(0, query.limit)]

    def lanes(self, file: SqliteLedger) -> dict[Lane, LaneStock]:
        """Return every lane that has open tasks."""
        found = dict(file.lanes())
        self._make_known(file)
        ours = tasklists.stocks(self._open.values())
        theirs = file.open_among(self._moves)
        for lane in ours.keys() | theirs.keys():
            number = found[lane].open if lane in found else 0
            number -= theirs.get(lane, 0)
            number += ours[lane].open if lane in ours else 0
            first = self.tasks_due(lane, file, after=None, until=None, limit=1)
            if first:
                found[lane] = LaneStock(number, first[0].due)
            else:
                found.pop(lane, None)
        return found

    def tasks_due(
        self,
        lane: Lane,
        file: SqliteLedger,
        *,
        after: Position | None,
        until: datetime | None,
        limit: int,
    ) -> list[Task]:
        """Return the first open tasks of a lane; see ``ports.LedgerReader``."""
        floor = self._floors.get(lane)
        begin = max(place for place in (after, floor) if place) if after or floor else None

        def page(last: Task | None) -> list[Task]:
            start = begin if last is None else tasklists.position(last)
            return file.tasks_due(lane, after=start, until=until, limit=limit)

        self._make_known(file)
        opened = self._open.values()
        ours = tasklists.first_due(opened, lane, after=after, until=until, limit=limit)
        theirs = self._unmoved(page, limit)
        if theirs and begin == floor:
            # Nobody hands in a task meanwhile, so what was moved need not be passed by again.
            self._floors[lane] = theirs[0].due, theirs[0].id - 1
        return sorted([*ours, *theirs], key=tasklists.position)[: max(0, limit)]

    def count_due(
        self,
        lane: Lane,
        file: SqliteLedger,
        *,
        after: datetime | None,
        until: datetime | None,
        limit: int,
    ) -> int:
        """Return how many open tasks of a lane are due; see ``ports.LedgerReader``."""
        self._make_known(file)
        most = max(0, limit)
        theirs = file.count_due(lane, after=after, until=until, limit=most + len(self._moves))
        theirs -= file.open_among(self._moves, after=after, until=until).get(lane, 0)
        opened = self._open.values()
        ours = tasklists.count_due(opened, lane, after=after, until=until, limit=most)
        return min(ours + theirs, most)

    def _make_known(self, file: SqliteLedger) -> None:
        """Get from the file what could not be read of it when it was moved."""
        for task_id in list(self._unknown & self._moves.keys()):
            task = self.task(task_id, file)
            if task is not None:
                self._put(task, Undo())
                self._unknown.discard(task_id)

    def _unmoved(self, page: Callable[[Task | None], list[Task]], limit: int | None) -> list[Task]:
        """Return the first ``limit`` tasks of the file that stand as it has them.

        ``page`` asks for as many at once, from behind a task on.
        """
        found: list[Task] = []
        last: Task | None = None
        while limit is None or len(found) < limit:
            tasks = page(last)
            found += [task for task in tasks if task.id not in self._moves]
            if limit is None or len(tasks) < limit:
                break
            last = tasks[-1]
        return found
