"""Tasks that were moved on while the ledger's file takes nothing.

The file has all the tasks, which may be a million, and can mostly still be read; what is known
here is laid over what it answers. So the answers are right before and after the journal is copied
to it, and also in the middle of that.

Not responsible for the journal; see ``aside``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from crond_py.errors import LedgerRefusedError, UnknownNameError
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
        self._tasks: dict[int, Task] = {}
        self._undo = Undo()

    @property
    def moves(self) -> Iterable[SetTask]:
        """Where each of the tasks stands."""
        return self._moves.values()

    def look_up(self, task_id: int, file: SqliteLedger) -> None:
        """Get a task from the file, unless it is here already."""
        if task_id not in self._tasks and (task := self.task(task_id, file)) is not None:
            self._tasks[task_id] = task

    def take(self, move: SetTask, *, must_be_known: bool) -> None:
        """Note a move, to be undone by ``revert``.

        Raises LedgerRefusedError where the task must be known and was not found. Where the file
        cannot be read nobody knows: it shows when the file takes the move.
        """
        task = self._tasks.get(move.task_id)
        if task is None and must_be_known:
            message = f"the ledger has no task {move.task_id}, so it cannot change"
            raise LedgerRefusedError(message)
        self._undo.put(self._moves, move.task_id, move)
        if task is not None:
            self._undo.put(self._tasks, task.id, moved(task, move))

    def keep(self) -> None:
        """Keep what was noted."""
        self._undo = Undo()

    def revert(self) -> None:
        """Forget what was noted since it was kept."""
        self._undo.take_back()

    def look_again(self) -> None:
        """Take nothing for granted of what the file had: there is another in its place."""
        self._tasks.clear()

    # --- asking ---------------------------------------------------------------------------

    def task(self, task_id: int, file: SqliteLedger) -> Task | None:
        """Return one task."""
        task = file.task(task_id)
        move = self._moves.get(task_id)
        return moved(task, move) if task is not None and move is not None else task

    def tasks(self, query: TaskQuery, file: SqliteLedger) -> list[Task]:
        """Return the tasks that are asked for; see ``ports.TaskQuery``."""
        after = None
        if query.after_id is not None:
            after = self.task(query.after_id, file)
            if after is None:
                message = f"there is no task {query.after_id} to go on from"
                raise UnknownNameError(message)

        def page(last: Task | None) -> list[Task]:
            last = last or after
            if last is None:
                return file.tasks(query)
            if query.is_open:
                return file.tasks(query, after=tasklists.position(last))
            return file.tasks(TaskQuery(query.is_open, query.submitted_by, query.limit, last.id))

        ours = tasklists.chosen(self._all(file), query, after)
        theirs = self._unmoved(page, query.limit)
        found = tasklists.in_order([*ours, *theirs], query)
        return found if query.limit is None else found[: max(0, query.limit)]

    def lanes(self, file: SqliteLedger) -> dict[Lane, LaneStock]:
        """Return every lane that has open tasks."""
        found = dict(file.lanes())
        ours = tasklists.stocks(self._all(file))
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

        def page(last: Task | None) -> list[Task]:
            start = after if last is None else tasklists.position(last)
            return file.tasks_due(lane, after=start, until=until, limit=limit)

        ours = tasklists.first_due(self._all(file), lane, after=after, until=until, limit=limit)
        theirs = self._unmoved(page, limit)
        return sorted([*ours, *theirs], key=tasklists.position)[: max(0, limit)]

    def _all(self, file: SqliteLedger) -> Iterable[Task]:
        """Return the tasks that were moved, as they stand."""
        for task_id in self._moves.keys() - self._tasks.keys():
            self.look_up(task_id, file)
        return [task for task_id, task in self._tasks.items() if task_id in self._moves]

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
