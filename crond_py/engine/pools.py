"""Worker slots: how many runs of a pool may have a process at once, and who is next.

A free slot goes to the run of the highest priority; of those, to the group whose turn it is by its
share (``lines``); of that group's, to the earliest due. So that no priority starves, of every ten
slots that a pool gives to runs that wait, one goes to the priority of the run that waits longest,
and of those that have waited as long to a second, as they were due together, to the lowest. A
run whose group may have no more slots is passed over in all this.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from datetime import timedelta

from crond_py.clock import to_ns
from crond_py.crontab.model import Job, Pool
from crond_py.engine.lag import LagRecord
from crond_py.engine.lines import Line, Ticket
from crond_py.engine.records import ActiveRun, JobState, Stage
from crond_py.engine.shares import Share, Shares, Stake
from crond_py.engine.telling import fields, log
from crond_py.engine.view import LagSummary
from crond_py.model import Lag

LONGEST_WAITING_EVERY = 10
"""Of so many slots that a pool gives to waiting runs, one goes by how long they have waited.

Each time it is another one of these, so that it does not fall time and again to a moment at which
the group of the one that waits longest happens to be full.
"""

_MOVES_BY = 3
"""By how much earlier it is each time, of these; it has no divisor in common with the number."""

ITS_GROUP_EVERY = 10
"""Of so many of those slots, one is for the group of the run that has waited longest."""

AS_LONG = timedelta(seconds=1)
"""Runs of which one has waited longer than another by no more than this have waited as long."""

IN_TIME_AGAIN = timedelta(minutes=5)
"""Once nobody has been late for so long, or for the limit if that is longer, it is said so."""

_FEW = 64


class Slots:
    """The slots of one pool, and the runs that wait for one.

    A run that no longer waits (cancelled, too late, moved to another pool) is passed over when its
    turn comes. As long as nobody who may go waits, a newcomer need not. Where the pool ``is_held``
    all wait, until those stand in line that are just about to. ``is_late``: it was told that runs
    start late, and not yet that this is over; ``look_ns`` is when somebody will ``look``, if ever.
    """

    def __init__(self, pool: Pool, shares: Shares) -> None:
        self.pool = pool
        self.taken = 0
        self._shares = shares
        self._stakes: dict[Share, Stake] = {}
        self._lines: dict[int, Line] = {}
        self._descending: list[int] = []  # the priorities that have a line, negated, in order
        self._arrivals: deque[Ticket] = deque()
        self._is_in_order = True
        self._tidy_at = _FEW
        self._turns = 0
        self.is_held = False
        self.look_ns: int | None = None
        self.is_late = False
        self._late_ns = 0
        self.given_up = 0
        self._late_jobs: dict[JobState, None] = {}
        self._lags = LagRecord()

    @property
    def waiting(self) -> int:
        """How many runs wait for a slot."""
        return sum(self._is_valid(ticket) for ticket in self._arrivals)

    @property
    def is_crowded(self) -> bool:
        """Whether some run may go as soon as another one ends."""
        return not self.has_room and self._next() is not None

    @property
    def is_in_use(self) -> bool:
        """Whether some run has a slot or waits for one."""
        return self.taken > 0 or self.oldest_since_ns is not None

    def has_higher_than(self, priority: int) -> bool:
        """Whether some run of a higher priority waits that may go.

        The line of that priority is not asked: a group of which nobody waits for a moment has its
        turn by what it has used, as long as nobody asks who is next.
        """
        now_ns = self._shares.reading()
        higher = self._descending[: bisect_left(self._descending, -priority)]
        return any(self._lines[-each].first(now_ns) is not None for each in higher)

    def is_on_the_move(self, priority: int) -> bool:
        """Whether somebody waits at a priority who may go, or has just been given up."""
        line = self._lines.get(priority)
        return line is not None and line.is_on_the_move

    @property
    def has_room(self) -> bool:
        """Whether a slot is free."""
        return self.pool.workers is None or self.taken < self.pool.workers

    def has_bound_for(self, job: Job) -> bool:
        """Whether a run of the job could ever have to wait for a slot."""
        if self.pool.workers is not None:
            return True
        return self._shares.ceiling(job) is not None

    def is_free_for(self, job: Job) -> bool:
        """Whether a run of the job, coming now, would get a slot at once."""
        return self.has_room and not self._shares.is_full(job) and self._next() is None

    def take(self, run: ActiveRun) -> None:
        """Count a run as one that has a slot, whether there is one or not."""
        self.taken += 1
        run.stake = self._stake(run.job)
        run.stake.take(self._shares.reading())

    def release(self, run: ActiveRun) -> None:
        """Take a run's slot back."""
        if run.stake is not None:
            self.taken -= 1
            run.stake.give_back(self._shares.reading())
            run.stake = None

    def wait(self, run: ActiveRun, now_ns: int) -> None:
        """Put a run, whose stage is SLOT, among those that wait.

        One that waits already, elsewhere or by another rule, has waited from when it began to.
        """
        since_ns = now_ns
        if run.ticket is not None:
            if not run.ticket.is_void:
                since_ns = run.ticket.since_ns
            run.ticket.is_void = True
        ticket = run.ticket = Ticket(run, self._stake(run.job), run.job.priority, since_ns)
        line = self._lines.get(ticket.priority)
        if line is None:
            line = self._lines[ticket.priority] = Line(self._is_valid)
            insort(self._descending, -ticket.priority)
        line.add(ticket, now_ns)
        if self._arrivals and since_ns < self._arrivals[-1].since_ns:
            self._is_in_order = False  # it has waited elsewhere
        self._arrivals.append(ticket)
        if len(self._arrivals) > self._tidy_at:
            # Those that went from the middle are dropped before they are half of all.
            self._arrivals = deque(filter(self._is_valid, self._arrivals))
            self._tidy_at = max(_FEW, 2 * len(self._arrivals))

    @property
    def oldest_since_ns(self) -> int | None:
        """Since when the run has waited that waits longest, on the monotonic clock."""
        oldest = self._oldest()
        return oldest.since_ns if oldest is not None else None

    def _sort(self) -> None:
        """Have the runs that wait in the order in which they came, also those from elsewhere."""
        if not self._is_in_order:
            valid = filter(self._is_valid, self._arrivals)
            self._arrivals = deque(sorted(valid, key=lambda each: each.since_ns))
            self._is_in_order = True

    def _oldest(self) -> Ticket | None:
        """Return the ticket of the run that waits longest."""
        self._sort()
        while self._arrivals and not self._is_valid(self._arrivals[0]):
            self._arrivals.popleft()
        return self._arrivals[0] if self._arrivals else None

    @property
    def lag(self) -> LagSummary | None:
        """How late the pool's newest runs have started, or were when they were given up."""
        return self._lags.sample().summary()

    def note_lag(self, lag: Lag, run: ActiveRun, state: JobState | None) -> None:
        """Note how late a run of the pool has started; tell where that passes the pool's limit.

        ``state`` is its job. As long as more of a job waits behind one that was late, so will that
        be.
        """
        self._lags.add(lag)
        limit = self.pool.lag_warning
        if limit is not None and lag.own > limit:
            if state is not None and state.queued:
                self._late_jobs[state] = None
                self._keeps_waiting(limit)  # and forget those of which nothing waits any more
            self._tell_late(lag.own, run)

    def note_given_up(self, lag: Lag) -> None:
        """Note how late a run of the pool was when it was given up, as it did not start in time."""
        self.given_up += 1
        self._lags.add(lag)
        limit = self.pool.lag_warning
        if limit is not None and lag.own > limit:
            self._late_ns = self._shares.reading()

    def look(self) -> int | None:
        """Tell that runs start late, or do so no more; return when to look again, if at all.

        They start late from when one waits for longer than the limit, or has started as late, until
        there was none for a while.
        """
        limit = self.pool.lag_warning
        if limit is None:
            self.is_late = False
            return None
        now_ns = self._shares.reading()
        if self.is_late:
            if self._keeps_waiting(limit):
                self._late_ns = now_ns
            over_ns = self._late_ns + to_ns(max(limit, IN_TIME_AGAIN))
            if now_ns < over_ns:
                return over_ns
            self.is_late = False
            log.info("runs start in time again", extra=fields(pool=self.pool.name))
        oldest = self._oldest()
        if oldest is None:
            return None
        if now_ns >= oldest.since_ns + to_ns(limit):
            self._tell_late(timedelta(microseconds=(now_ns - oldest.since_ns) // 1000), oldest.run)
            return now_ns + to_ns(max(limit, IN_TIME_AGAIN))
        return oldest.since_ns + to_ns(limit)

    def _tell_late(self, late: timedelta, run: ActiveRun) -> None:
        """Note that runs start late, and tell of the first; the next one once that is over."""
        self._late_ns = self._shares.reading()
        if self.is_late:
            return
        self.is_late = True
        log.warning(
            "runs start late",
            extra=fields(
                pool=self.pool.name,
                job=run.job.name,
                run=run.run.id,
                late=late,
                limit=self.pool.lag_warning,
            ),
        )

    def _keeps_waiting(self, limit: timedelta) -> bool:
        """Whether some run waits for as long as that, or behind others of its job that did."""
        self._late_jobs = {job: None for job in self._late_jobs if job.queued}
        if self._late_jobs:
            return True
        since_ns = self.oldest_since_ns
        return since_ns is not None and self._shares.reading() - since_ns >= to_ns(limit)

    def next_waiting(self) -> ActiveRun | None:
        """Take a slot for the run whose turn it is and return it; None: no slot or nobody."""
        if not self.has_room:
            return None
        ticket = self._next()
        if ticket is None:
            return None
        if self._is_by_age():
            ticket = self._of_longest_waiting() or ticket
        self._turns += 1
        ticket.is_void = True
        self.take(ticket.run)
        return ticket.run

    def _is_by_age(self) -> bool:
        """Whether this is the slot that goes by how long runs have waited."""
        times, place = divmod(self._turns, LONGEST_WAITING_EVERY)
        return place == (LONGEST_WAITING_EVERY - 1 - _MOVES_BY * times) % LONGEST_WAITING_EVERY

    def _of_longest_waiting(self) -> Ticket | None:
        """Return whose turn it is of the lowest priority whose first run has waited longest.

        One time of ``ITS_GROUP_EVERY`` it is the turn of the group of that run, whatever it has
        used: that may be slots of a higher priority, which it goes on to use.
        """
        oldest = [ticket for line in self._lines.values() if (ticket := line.oldest()) is not None]
        if not oldest:
            return None
        until_ns = min(each.since_ns for each in oldest) + to_ns(AS_LONG)
        found = (each for each in oldest if each.since_ns <= until_ns)
        longest = min(found, key=lambda each: each.priority)
        line, times = self._lines[longest.priority], self._turns // LONGEST_WAITING_EVERY
        if times % ITS_GROUP_EVERY == ITS_GROUP_EVERY - 1:
            return line.first_of_group(longest)
        return line.first(self._shares.reading())

    def _next(self) -> Ticket | None:
        """Return the ticket whose turn it is by priority and share."""
        now_ns = self._shares.reading()
        for negated in list(self._descending):
            line = self._lines[-negated]
            if (ticket := line.first(now_ns)) is not None:
                return ticket
            if line.is_empty:
                line.close()
                del self._lines[-negated]
                self._descending.remove(negated)
        return None

    def _stake(self, job: Job) -> Stake:
        """Return the stake in this pool that a job's runs count to."""
        share = self._shares.of(job)
        stake = self._stakes.get(share)
        if stake is None:
            stake = self._stakes[share] = Stake(share, self.pool.name, self._let_go)
            share.stakes[stake] = None
        return stake

    def _let_go(self, stake: Stake) -> None:
        del self._stakes[stake.share]
        self._shares.let_go(stake)

    def _is_valid(self, ticket: Ticket) -> bool:
        """Whether a ticket's run still waits, and here: a reload may have moved its job.

        One that has been given up only waits for the ledger to have it.
        """
        run = ticket.run
        is_waiting = run.stage is Stage.SLOT and run.stop is None
        return not ticket.is_void and is_waiting and run.job.pool == self.pool.name
