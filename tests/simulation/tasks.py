"""Submitted tasks of a simulated world, and what must hold of them.

What was handed in is noted as the ledger takes it; whether somebody was told so, as the answer
comes. Of every task each due instant has its row, once, whatever happened to the daemon or to the
clock: that is counted on the task's own scale, which no step of the clock moves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from crond_py.crontab.model import Job
from crond_py.engine.core import Core
from crond_py.engine.feeding import MANY
from crond_py.engine.lanes import LaneState
from crond_py.engine.records import ActiveRun, Stage
from crond_py.model import Cause, Lane, Outcome, Run, Scale, Task, task_id_of
from crond_py.ports import NewTask, Submitted, TaskQuery

if TYPE_CHECKING:
    from tests.simulation.world import World

Wrong = tuple[str, str, str]
"""What is wrong: the promise, the words, the job."""

MOST_WAITING = 8
"""How many tasks of a lane wait in memory here: few, so that there are soon more than that."""

_PLANNED = frozenset({Cause.SCHEDULE, Cause.CATCH_UP})
_SOON = timedelta(seconds=2)
_GRACE_NS = 2 * 10**9


@dataclass(slots=True)
class TaskBook:
    """What has been handed in. ``told`` are the ids that a submitter was told of.

    ``over`` has, for each task that somebody was told is cancelled, the largest id of a run then.
    ``ended`` has, on its scale, when each task ended that the ledger was told of at once.
    """

    jobs: list[Job] = field(default_factory=list)
    handed_in: dict[int, Task] = field(default_factory=dict)
    told: set[int] = field(default_factory=set)
    keys: dict[str, int] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    over: dict[int, int] = field(default_factory=dict)
    ended: dict[int, datetime] = field(default_factory=dict)

    @property
    def keep_for(self) -> timedelta | None:
        """Nothing is forgotten: the accounts are checked at the end."""
        return None

    @property
    def keep_runs(self) -> int | None:
        """As above."""
        return None

    def job(self, task: Task) -> Job:
        """See engine.parts.TaskJobs; a definition is the number of a job."""
        job, lane = self.jobs[int(task.definition)], task.lane
        return replace(job, name=task.job, pool=lane.pool, priority=lane.priority, group=lane.group)

    def define(self, job: Job) -> str:
        """Return the definition of tasks that run as a job does."""
        self.jobs.append(job)
        return str(len(self.jobs) - 1)

    def note(self, world: World, rows: Sequence[NewTask], submitted: Sequence[Submitted]) -> None:
        """Note what the ledger has taken."""
        for row, each in zip(rows, submitted, strict=True):
            task = each.task
            world.requests.definitions.setdefault(task.job, [self.job(task)])
            if not each.is_new:
                assert row.key is not None
                continue
            self.handed_in[task.id] = task
            kind = f"every {task.period}" if task.period else "once"
            world.story.tell("handed in: due {} {}, {}", task.due, kind, task.lane, job=task.job)

    def note_end(self, world: World, task_id: int, ended_at: datetime) -> None:
        """Note when a task has ended, as the ledger takes that; not if it had to wait for it."""
        task = self.handed_in.get(task_id)
        if task is None or world.daemon is None or ended_at != world.clock.now():
            return
        attendance = world.daemon.core._tasks._attendance
        self.ended[task_id] = attendance.on_scale(task.lane.scale, ended_at)


def wrong_now(world: World) -> Iterator[Wrong]:
    """Yield what is wrong with the tasks of a healthy daemon at rest: promise, words, job."""
    daemon = world.daemon
    assert daemon is not None
    waiting: Counter[Lane] = Counter()
    tasks: Counter[Lane] = Counter()
    for state in daemon.core._register.tasks.values():
        if not state.active:
            text = "its runs wait for one that is not there" if state.queued else "it has no run"
            yield "P4", text, state.job.name
        task_id = task_id_of(state.job.name)
        task = world.ledger.task(task_id) if task_id is not None else None
        if task is None:
            yield "P1", "the ledger does not know it", state.job.name
            continue
        runs = list(filter(_waits, [*state.queued, *state.active]))
        waiting[task.lane] += len(runs)
        # One may have many to make up for; and one that was cut short waits again.
        tasks[task.lane] += any(active.attempt is None for active in runs)
    for lane, stands in daemon.core._tasks._lanes.items():
        yield from _wrong_with_parked(world, stands)
        if stands.waiting != waiting[lane]:
            text = f"{waiting[lane]} runs of {lane} wait for a slot, not {stands.waiting}"
            yield "P4", text, ""
    for lane, number in tasks.items():
        if number > MOST_WAITING:
            yield "P4", f"{number} tasks of {lane} wait in memory", ""
    yield from _wrong_with_open(world, daemon.core, waiting)


def _wrong_with_parked(world: World, lane: LaneState) -> Iterator[Wrong]:
    """P4: a retry that is due begins, unless as many runs of its lane wait for a slot as may."""
    first_ns = lane.parked.first_ns
    if first_ns is None or world.pools_in_force.get(lane.lane.pool) == 0 or not lane.room:
        return
    late_ns = world.clock.monotonic_ns() - max(first_ns, world.awake_ns, world.trouble_until_ns)
    if late_ns > _GRACE_NS:
        yield "P4", f"a parked retry of {lane.lane} is due since {late_ns / 1e9} s", ""


def _waits(active: ActiveRun) -> bool:
    return active.stage is Stage.SLOT


def _wrong_with_open(world: World, core: Core, waiting: Mapping[Lane, int]) -> Iterator[Wrong]:
    """P4: what is due is taken up, unless as many runs of its lane, or of all, wait as may."""
    is_open = world.ledger.tasks(TaskQuery(limit=None))
    counts = core.status().tasks
    if counts.open != len(is_open):
        yield "P1", f"the daemon counts {counts.open} tasks, the ledger {len(is_open)}", ""
    assert world.daemon is not None
    awake_ns = max(world.awake_ns, world.trouble_until_ns, world.daemon.begun_ns)
    if world.clock.monotonic_ns() - awake_ns < _GRACE_NS:
        return
    together: Counter[tuple[str, int]] = Counter()
    for lane, number in waiting.items():
        together[lane.pool, lane.priority] += number
    for task in is_open:
        if world.pools_in_force.get(task.lane.pool) == 0:
            continue  # it waits until there is such a pool again
        if together[task.lane.pool, task.lane.priority] >= MANY * MOST_WAITING:
            continue  # so many wait already, of all lanes together
        due = core._tasks._attendance.wall(task.lane.scale, task.due)
        if due < world.clock.now() - _SOON and waiting.get(task.lane, 0) <= MOST_WAITING // 2:
            text = f"it is due since {due}, and {waiting.get(task.lane, 0)} runs of its lane wait"
            yield "P4", text, task.job


def wrong_at_end(world: World) -> Iterator[Wrong]:
    """Yield what is wrong with the tasks once everything is over."""
    rows: dict[int, list[Run]] = defaultdict(list)
    for run in world.ledger._content.runs.values():
        task_id = task_id_of(run.job)
        if task_id is not None:
            rows[task_id].append(run)
    for task_id in world.tasks.told:
        if world.ledger.task(task_id) is None:
            yield "P1", "somebody was told that it is handed in, and it is not", f"task:{task_id}"
    for task_id, first in world.tasks.handed_in.items():
        task = world.ledger.task(task_id)
        if task is None:
            if rows[task_id]:
                yield "P1", "it has rows and is unknown", first.job
            continue
        yield from _wrong_rows(world, first, task, rows[task_id])


def _wrong_rows(world: World, first: Task, task: Task, rows: list[Run]) -> Iterator[Wrong]:
    name = task.job
    is_to_come = task.lane.scale is Scale.WALL and task.due > world.clock.now()
    if task.ended_at is None and is_to_come and not rows:
        return  # the clock was years ahead when it was handed in, and is right again
    if task.ended_at is None:
        yield "P1", "it has never ended", name
    if any(run.cause not in _PLANNED for run in rows):
        yield "P1", f"it has rows of {[run.cause for run in rows]}", name
    yield from _wrong_number(world, first, task, sum(run.count for run in rows))
    is_fixed = task.period is None and first.lane.scale is Scale.WALL
    if is_fixed and any(run.due != first.due for run in rows):
        yield "P1", f"it was handed in for {first.due}, its row is {rows[0].due}", name
    if not world.may_step_clock:
        yield from _wrong_dues(first, rows)
    if task.id in world.tasks.cancelled and not any(
        run.outcome is Outcome.CANCELLED for run in rows
    ):
        yield "P6", "it was cancelled, and no row says so", name
    last_id = world.tasks.over.get(task.id)
    for run in rows:
        has_begun = run.attempts or run.outcome is Outcome.SKIPPED
        if last_id is not None and run.id > last_id and has_begun:
            yield "P6", f"it was cancelled, and came again as run {run.id}", name


def _wrong_number(world: World, first: Task, task: Task, number: int) -> Iterator[Wrong]:
    """P1: each instant up to its last has a row, and each that came before it was cancelled."""
    period = task.period or timedelta(seconds=1)
    expected = (task.due - first.due) // period + 1
    ended = world.tasks.ended.get(task.id) if task.period else None
    if ended is not None:
        expected = max(expected, (ended - first.due) // period + 1)
    is_known = ended is not None or not task.period
    if number < expected or (is_known and number > expected):
        yield "P1", f"it was due {expected} times, {number} have a row", task.job


def _wrong_dues(first: Task, rows: list[Run]) -> Iterator[Wrong]:
    """Where the clock is never set, every row is at one of the task's instants, and none twice."""
    due = first.due
    for run in sorted(rows, key=lambda run: run.due):
        if run.due != due:
            yield "P1", f"its next row should be due {due}, and is {run.due}", first.job
            return
        last = run.last_due or run.due
        period = first.period or timedelta(seconds=1)
        if last != due + (run.count - 1) * period:
            yield "P1", f"a row of {run.count} from {due} ends at {last}", first.job
        due = last + period
