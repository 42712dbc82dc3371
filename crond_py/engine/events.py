"""What can happen to the engine, as plain values in its inbox.

Processes report ``ports.ProcessEvent``; timers deliver the ``*Due`` values below, each of which
names the state it was set for, so that one that comes too late is recognised.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from crond_py.dataclass import dataclass
from crond_py.engine.lanes import LaneState
from crond_py.engine.pools import Slots
from crond_py.engine.records import ActiveRun, JobState


@dataclass(frozen=True, slots=True)
class OccurrenceDue:
    """A job's next occurrence has come."""

    state: JobState
    due: datetime


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The delay before a run's next attempt is over."""

    run: ActiveRun


@dataclass(frozen=True, slots=True)
class TimeoutDue:
    """An attempt has used up its ``timeout``."""

    run: ActiveRun
    attempt: int


@dataclass(frozen=True, slots=True)
class KillDue:
    """An attempt that was asked to end has used up its ``kill_after``."""

    run: ActiveRun
    attempt: int


@dataclass(frozen=True, slots=True)
class TooLateDue:
    """A run that has not begun has used up its ``start_within``."""

    run: ActiveRun


@dataclass(frozen=True, slots=True)
class LagDue:
    """A run may have waited for a slot of the pool for longer than that allows."""

    slots: Slots


@dataclass(frozen=True, slots=True)
class TasksDue:
    """The first task of a lane is due, or it is time to take up more of those that are."""

    lane: LaneState


@dataclass(frozen=True, slots=True)
class KeptBackDue:
    """Some task may be due that has to wait in the ledger."""


@dataclass(frozen=True, slots=True)
class FeedDue:
    """It is time to take up more of the tasks that are due, after what has come meanwhile."""


@dataclass(frozen=True, slots=True)
class CyclesDue:
    """It is time to look up again what jobs that follow others wait for."""


@dataclass(frozen=True, slots=True)
class AskAgainDue:
    """It is time to ask the ledger again for what it could not tell."""

    ask: Callable[[], None]


@dataclass(frozen=True, slots=True)
class LedgerRetryDue:
    """It is time to try again to write what the ledger did not take."""


@dataclass(frozen=True, slots=True)
class LedgerSettleDue:
    """It is time for a ledger in trouble to see whether that is over."""


@dataclass(frozen=True, slots=True)
class StartsGivenUpDue:
    """A stopping daemon has waited for starts that hang as long as it may."""


@dataclass(frozen=True, slots=True)
class StopLimitDue:
    """A stopping daemon has waited for its jobs as long as it may."""


@dataclass(frozen=True, slots=True)
class TimersFired:
    """Entries of the heap that came due together, and when they were taken from it.

    ``is_after_ends``: what had ended by then has been told of.
    """

    items: list[Any]
    popped_ns: int
    is_after_ends: bool = False


@dataclass(frozen=True, slots=True)
class ClockChanged:
    """Somebody says that the wall clock was set; the engine looks for itself."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request from another thread: ``function`` is called in the engine's."""

    function: Callable[[], None]
