"""When a daemon was there to take up tasks, seen from outside, and what rows may say of that.

A task is not missed for an absence while a healthy daemon was there as it came due, though it had
to wait; and what came due while none was, or while it was frozen, is missed, or made up for. That
is looked at in histories that leave the clock alone, where both scales are the wall clock's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from crond_py.engine.agenda import LATE, WAS_DOWN, WAS_FROZEN, WAS_HELD_UP
from crond_py.engine.lanes import Hindrance
from crond_py.model import Cause, Lane, Outcome, Run, Task
from tests.simulation.world import Daemon, World

_BEHIND = timedelta(seconds=3)
"""How long before a crash nobody may know any more that pycron was there."""

_MARGIN = timedelta(seconds=1)
"""What is due so soon after the end of a daemon may have been taken up ahead of it."""

Stretch = tuple[datetime, datetime]


@dataclass(slots=True)
class Absences:
    """Watches one world.

    ``there`` are stretches in which a daemon was at rest whenever it was looked at, ``gone`` those
    without any; ``frozen`` those in which a lane's timer could not fire, by lane. ``taken_out`` are
    pools that were not in a crontab in force.
    """

    world: World
    there: list[Stretch] = field(default_factory=list)
    gone: list[Stretch] = field(default_factory=list)
    frozen: list[tuple[Lane, Stretch]] = field(default_factory=list)
    taken_out: set[str] = field(default_factory=set)
    _who: Daemon | None = None
    _since: datetime | None = None
    _until: datetime | None = None
    _gone_since: datetime | None = None
    _waits: dict[Lane, datetime] = field(default_factory=dict)
    _durable_at: datetime | None = None

    def __post_init__(self) -> None:
        self.world.on_drained.append(self._drained)
        self.world.on_frozen.append(self._froze)
        self.world.on_thawed.append(self._thawed)
        self.world.on_end.append(self._ended)
        self.world.on_begin.append(self._begins)
        self.world.on_force.append(self._in_force)
        self.world.on_durable.append(self._written)

    # --- what happens ---------------------------------------------------------------------

    def _drained(self) -> None:
        """Note that the daemon has dealt with all there is, if it has."""
        daemon, now = self.world.daemon, self.world.clock.now()
        is_at_rest = self.world.is_at_rest
        if self._since is None or daemon is not self._who or not is_at_rest:
            self._close()
            if is_at_rest:
                self._who, self._since = daemon, now
        if self._since is not None:
            self._until = now

    def _close(self) -> None:
        if self._since is not None and self._until is not None and self._since < self._until:
            self.there.append((self._since, self._until))
        self._who = self._since = self._until = None

    def _froze(self) -> None:
        """Note which lanes wait for an instant that is yet to come."""
        self._close()
        self._waits = {}
        if self.world.daemon is not None and self.world.is_at_rest:
            for lane, state in self.world.daemon.core._tasks._lanes.items():
                if state.timer is not None and state.first_due is not None and not state.unread:
                    self._waits[lane] = max(state.first_due, self.world.clock.now())

    def _thawed(self) -> None:
        """Note what could not be taken up in time; what is a little late is not missed."""
        late = self.world.clock.now() - LATE
        waits = self._waits.items()
        self.frozen += [(lane, (first, late)) for lane, first in waits if first < late]

    def _written(self) -> None:
        self._durable_at = self.world.clock.now()

    def _ended(self, power_cut: bool) -> None:
        """Note the end of a daemon; with power, what came after the last durable write is lost."""
        self._close()
        if self._gone_since is None:
            self._gone_since = self.world.clock.now()
        if power_cut:
            until = self._durable_at
            self.there = [
                (since, min(end, until)) for since, end in self.there if until and since < until
            ]

    def _begins(self) -> None:
        if self._gone_since is not None:
            self.gone.append((self._gone_since + _MARGIN, self.world.clock.now()))
        self._gone_since = None

    def _in_force(self) -> None:
        self.taken_out |= {name for name, size in self.world.pools_in_force.items() if size == 0}

    # --- what must hold -------------------------------------------------------------------

    def wrong(self, task: Task, run: Run) -> Iterator[str]:
        """Yield what is wrong with what a row says of an absence, or does not say."""
        instants = [run.due + number * (task.period or _MARGIN) for number in range(run.count)]
        if run.outcome is Outcome.MISSED and run.reason.startswith((WAS_DOWN, WAS_FROZEN)):
            due = next(filter(self._was_there, instants), None)
            if due is not None:
                yield f"it says that {run.reason}, and pycron was there at {due}"
        elif run.outcome is Outcome.MISSED:
            yield from self._wrong_wait(task, run)
        elif run.cause is Cause.SCHEDULE and _was_run(run) and run.due > task.submitted_at:
            where = self._was_absent(task.lane, run.due)
            if where and not self._has_overtaken(task, run):
                yield f"it was due at {run.due}, {where}, and is none that was missed"

        elif run.cause is Cause.CATCH_UP and task.period is None and self._was_there(run.due):
            yield f"it is made up for, and pycron was there at {run.due}"

    def _was_there(self, due: datetime) -> bool:
        return any(since < due <= until - _BEHIND for since, until in self.there)

    def _was_absent(self, lane: Lane, due: datetime) -> str:
        """Return in what kind of absence an instant of a lane was, if in any."""
        if any(since < due <= until for since, until in self.gone):
            return "without a daemon"
        stretches = [stretch for each, stretch in self.frozen if each == lane]
        return "in a freeze" if any(since <= due < until for since, until in stretches) else ""

    def _has_overtaken(self, task: Task, run: Run) -> bool:
        """Tell whether a run is for the newest of instants that have waited since a daemon was."""
        before = run.due - (task.period or timedelta(0))
        return any(
            each.job == run.job
            and each.outcome is Outcome.MISSED
            and (each.last_due or each.due) == before
            and not each.reason.startswith((WAS_DOWN, WAS_FROZEN))
            for each in self.world.ledger._content.runs.values()
        )

    def _wrong_wait(self, task: Task, run: Run) -> Iterator[str]:
        """Yield what is wrong with why it waited: only a ledger in trouble holds a daemon up."""
        was_calm = any(since < run.due <= until - _MARGIN for since, until in self.there)
        if run.reason.startswith(WAS_HELD_UP) and was_calm:
            yield f"it says that {run.reason}, and nothing held it up"
        if Hindrance.HELD in run.reason and task.lane.pool not in self.taken_out:
            yield f"it says that {run.reason}, and its pool was always there"


def _was_run(run: Run) -> bool:
    """Tell whether an occurrence was let in, whatever became of it then."""
    return bool(run.attempts) or run.outcome is Outcome.SKIPPED
