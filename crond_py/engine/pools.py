"""Worker slots: how many runs of a pool may have a process at once, and who is next.

A free slot goes to the run of the highest priority; of those, to the group whose turn it is by its
share (``shares``); of that group's, to the earliest due. So that no priority starves, of every ten
slots that a pool gives to runs that wait, one goes to the priority of the run that waits longest.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Mapping
from datetime import timedelta

from crond_py.crontab.model import Group, Job, Pool
from crond_py.engine.lag import LagRecord
from crond_py.engine.records import ActiveRun, Stage
from crond_py.engine.shares import Line, Share, Ticket
from crond_py.engine.telling import fields, log
from crond_py.engine.view import LagSummary
from crond_py.model import Lag

LONGEST_WAITING_EVERY = 10
"""Of so many slots that a pool gives to waiting runs, one goes by how long they have waited."""

_FEW = 64


class Shares:
    """The groups of all pools. A job without a group is one of its own, of weight 1."""

    def __init__(self) -> None:
        self._groups: Mapping[str, Group] = {}
        self._shares: dict[str, Share] = {}

    def set_groups(self, groups: Mapping[str, Group]) -> None:
        """Take the groups of a crontab; what they have in use stays counted."""
        self._groups = groups
        for name, share in list(self._shares.items()):
            if not share.in_use and not share.lines:
                del self._shares[name]
            else:
                share.group = self._group(name)
                share.note_change()

    def of(self, job: Job) -> Share:
        """Return the share that a job's runs count to."""
        # A group and a job may have one name and are still two.
        name = f"group {job.group}" if job.group is not None else f"job {job.name}"
        share = self._shares.get(name)
        if share is None:
            share = self._shares[name] = Share(self._group(name))
        return share

    def _group(self, name: str) -> Group:
        kind, _, given = name.partition(" ")
        group = self._groups.get(given) if kind == "group" else None
        return group or Group(given)


class Slots:
    """The slots of one pool, and the runs that wait for one.

    A run that no longer waits (cancelled, too late, moved to another pool) is passed over when its
    turn comes. As long as nobody who may go waits, a newcomer need not.
    """

    def __init__(self, pool: Pool, shares: Shares) -> None:
        self.pool = pool
        self.taken = 0
        self._shares = shares
        self._lines: dict[int, Line] = {}
        self._ranks: list[int] = []  # the priorities that have a line, negated, in order
        self._arrivals: deque[Ticket] = deque()
        self._tidy_at = _FEW
        self._turns = 0
        self.is_watched = False
        self.is_late = False
        self._lags = LagRecord()

    @property
    def waiting(self) -> int:
        """How many runs wait for a slot."""
        return sum(self._is_valid(ticket) for ticket in self._arrivals)

    @property
    def is_crowded(self) -> bool:
        """Whether some run may go as soon as another one ends."""
        return not self._has_room and self._next() is not None

    @property
    def is_in_use(self) -> bool:
        """Whether some run has a slot or waits for one."""
        return self.taken > 0 or any(map(self._is_valid, self._arrivals))

    @property
    def _has_room(self) -> bool:
        return self.pool.workers is None or self.taken < self.pool.workers

    def has_bound_for(self, job: Job) -> bool:
        """Whether a run of the job could ever have to wait for a slot."""
        if self.pool.workers is not None:
            return True
        return job.group is not None and self._shares.of(job).group.max_running is not None

    def is_free_for(self, job: Job) -> bool:
        """Whether a run of the job, coming now, would get a slot at once."""
        return self._has_room and not self._shares.of(job).is_full and self._next() is None

    def take(self, run: ActiveRun) -> None:
        """Count a run as one that has a slot, whether there is one or not."""
        self.taken += 1
        run.share = self._shares.of(run.job)
        run.share.take()

    def release(self, run: ActiveRun) -> None:
        """Take a run's slot back."""
        if run.share is not None:
            self.taken -= 1
            run.share.give_back()
            run.share = None

    def wait(self, run: ActiveRun, now_ns: int) -> None:
        """Put a run, whose stage is SLOT, among those that wait.

        One that waits already, elsewhere or by another rule, has waited from when it began to.
        """
        since_ns = now_ns
        if run.ticket is not None:
            if not run.ticket.is_void:
                since_ns = run.ticket.since_ns
            run.ticket.is_void = True
        ticket = run.ticket = Ticket(run, self._shares.of(run.job), run.job.priority, since_ns)
        line = self._lines.get(ticket.priority)
        if line is None:
            line = self._lines[ticket.priority] = Line(self._is_valid)
            insort(self._ranks, -ticket.priority)
        line.add(ticket)
        self._arrivals.append(ticket)
        if len(self._arrivals) > self._tidy_at:
            # Those that went from the middle are dropped before they are half of all.
            self._arrivals = deque(filter(self._is_valid, self._arrivals))
            self._tidy_at = max(_FEW, 2 * len(self._arrivals))

    @property
    def oldest_since_ns(self) -> int | None:
        """Since when the run has waited that waits longest, on the monotonic clock."""
        return min(
            (ticket.since_ns for ticket in self._arrivals if self._is_valid(ticket)), default=None
        )

    @property
    def lag(self) -> LagSummary | None:
        """How late the pool's newest runs have started."""
        return self._lags.sample().summary()

    def note_lag(self, lag: Lag) -> None:
        """Note how late a run of the pool has started; tell where that passes the pool's limit."""
        self._lags.add(lag)
        limit = self.pool.lag_warning
        if limit is None:
            self.is_late = False
        elif lag.own > limit:
            self.note_waiting(lag.own)
        elif self.is_late:
            self.is_late = False
            log.info("runs start in time again", extra=fields(pool=self.pool.name))

    def note_waiting(self, lag: timedelta) -> None:
        """Note that a run waits for too long; it is told once, until one starts in time."""
        if not self.is_late:
            self.is_late = True
            log.warning(
                "runs start late",
                extra=fields(pool=self.pool.name, late=lag, limit=self.pool.lag_warning),
            )

    def next_waiting(self) -> ActiveRun | None:
        """Take a slot for the run whose turn it is and return it; None: no slot or nobody."""
        if not self._has_room:
            return None
        ticket = self._next()
        if ticket is None:
            return None
        self._turns += 1
        if self._turns % LONGEST_WAITING_EVERY == 0:
            ticket = self._lines[self._longest_waiting().priority].first() or ticket
        ticket.is_void = True
        self._lines[ticket.priority].note_served(ticket.share)
        self.take(ticket.run)
        return ticket.run

    def _longest_waiting(self) -> Ticket:
        """Return the ticket of the run that came first; there is one."""
        while not self._is_valid(self._arrivals[0]):
            self._arrivals.popleft()
        return self._arrivals[0]

    def _next(self) -> Ticket | None:
        """Return the ticket whose turn it is by priority and share."""
        for rank in list(self._ranks):
            line = self._lines[-rank]
            if (ticket := line.first()) is not None:
                return ticket
            if line.is_empty:
                del self._lines[-rank]
                self._ranks.remove(rank)
        return None

    def _is_valid(self, ticket: Ticket) -> bool:
        """Whether a ticket's run still waits, and here: a reload may have moved its job.

        One that has been given up only waits for the ledger to have it.
        """
        run = ticket.run
        is_waiting = run.stage is Stage.SLOT and run.stop is None
        return not ticket.is_void and is_waiting and run.job.pool == self.pool.name
