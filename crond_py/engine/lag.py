"""How late runs start, and what they waited for: measured for each run, remembered for a while.

A run's lag is the time from when it was due to the start of its first process. It is split by what
the run waited for at each moment. A run that was made up counts from when it was found to be
missed, and one that was asked for from then. Behind an earlier run that waits for a slot itself it
is a slot that is waited for: more slots are what would help.

A run that is given up, as it did not start within its ``start_within``, was as late as it had
waited: a pool that drops all it should run does not look well.

A run that waits across a restart of the daemon goes on counting from that instant. What the earlier
daemon has seen it wait for is forgotten with that one: all of it counts to what the run still has
to wait for, be it an earlier run or a slot, and where it has not to, to the daemon (``DISPATCH``).

A submitted task that waits in the ledger, as enough others of its lane wait for a slot or its pool
is in no crontab, waits for a slot; also where an earlier daemon had left it there.

Everything is measured on the monotonic clock, so setting the wall clock makes nobody late. It is
only by the wall clock that a restarted daemon can tell since when a run has waited.
"""

from __future__ import annotations

from array import array
from dataclasses import field
from datetime import timedelta
from enum import Enum, auto

from crond_py.dataclass import dataclass
from crond_py.engine.view import LagSample
from crond_py.model import Lag

REMEMBERED = 1000
"""Of how many starts the distribution is known: the newest."""

LAGS_OF_A_JOB = 100
"""Of how many starts of one job it is known; there may be a hundred thousand jobs."""

_MICROSECOND = timedelta(microseconds=1)
_NARROW, _WIDE = "I", "q"
_WIDEST_NARROW = (1 << 8 * array(_NARROW).itemsize) - 1


class Wait(Enum):
    """What a run waits for before its process starts."""

    DISPATCH = auto()
    DEPENDENCY = auto()
    OVERLAP = auto()
    POOL = auto()
    SPAWN = auto()


@dataclass(slots=True)
class Waits:
    """What one run has waited for; instants are those of the monotonic clock.

    ``since_ns`` is when it began to wait for ``what``. It may lie ahead, for a run that was claimed
    before it was due: until then it is not late.
    """

    since_ns: int
    what: Wait = Wait.DISPATCH
    spent_ns: dict[Wait, int] = field(default_factory=dict)

    def count_rest_to(self, what: Wait) -> None:
        """Note what it has really waited for, since it last turned to something."""
        self.what = what

    def turn_to(self, what: Wait, now_ns: int) -> None:
        """Note that from now on it waits for something else."""
        self._spend(now_ns)
        self.what = what

    def end(self, now_ns: int) -> Lag:
        """Return what it has waited for, now that its process has started."""
        self._spend(now_ns)
        return Lag(
            dispatch=self._span(Wait.DISPATCH),
            dependency=self._span(Wait.DEPENDENCY),
            overlap=self._span(Wait.OVERLAP),
            pool=self._span(Wait.POOL),
            spawn=self._span(Wait.SPAWN),
        )

    def _spend(self, now_ns: int) -> None:
        if now_ns > self.since_ns:
            self.spent_ns[self.what] = self.spent_ns.get(self.what, 0) + now_ns - self.since_ns
            self.since_ns = now_ns

    def _span(self, wait: Wait) -> timedelta:
        return _MICROSECOND * (self.spent_ns.get(wait, 0) // 1000)


class LagRecord:
    """The lags of the newest starts of a pool or a job, and what they are made of.

    There may be one for each of a hundred thousand jobs, so it is small: a column for each cause
    that there was, of narrow numbers as long as none is wide; ``dispatch`` is the rest of a lag.
    """

    __slots__ = ("_columns", "_next", "_remembered")

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._columns: list[array[int] | None] = [array(_NARROW), *[None] * 4]
        self._next = 0

    def add(self, lag: Lag) -> None:
        """Remember the lag of a run that has started."""
        spans = (lag.own, lag.dependency, lag.overlap, lag.pool, lag.spawn)
        for index, span in enumerate(spans):
            self._enter(index, span // _MICROSECOND)
        self._next += 1

    def _enter(self, index: int, span_us: int) -> None:
        column = self._columns[index]
        if column is None:
            if not span_us:
                return
            column = array(_NARROW, [0]) * min(self._next, self._remembered)
        if span_us > _WIDEST_NARROW:
            column = array(_WIDE, column)
        place = self._next % self._remembered
        if place == len(column):
            column.append(span_us)
        else:
            column[place] = span_us
        self._columns[index] = column

    def sample(self) -> LagSample:
        """Return a copy; what it comes to can be worked out where there is time."""
        copies = (column[:] if column is not None else () for column in self._columns)
        return LagSample((self._next - 1) % self._remembered, *copies)
