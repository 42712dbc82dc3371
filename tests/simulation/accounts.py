"""Whether every due occurrence has been said something of, once, and nothing else has (P1).

An oracle beside the engine's cursor: for each job a ``Segment`` holds a stretch of readings of the
wall clock in which the job was in force, with its schedule made anew from its definition. Of what
is due in it, every instant must be covered by exactly one row of the ledger, or lie in one row's
missed stretch; a row that lies in no segment, or at an instant at which nothing is due, is a row
too many.

A segment goes on through crashes and steps of the clock; another one begins where the job comes
into force, where its schedule changes, in a new era (the clock was set back so far that its
readings are a new time), when it is back in an older time (``again`` knows up to where that needs
no account), and for a job that counts elapsed time at every step of the clock. From
the cursor in the ledger only these beginnings are taken, and each is held against what the world
did: no beginning without its cause, none that leaves a gap behind an earlier look at which all was
well. Where that cannot be told exactly (several such things at once, unwritten when the daemon
died) the segment is not ``is_sure``, and only the dues of its rows are checked.

Jobs that are due after the end of their last run, and at a start, are looked at more simply:
something is to come, and no start is counted twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from crond_py.crontab.model import AfterTrigger, AtTrigger, EveryTrigger, Job, StartupTrigger
from crond_py.crontab.summary import fingerprint
from crond_py.engine.ahead import LONGEST_AHEAD as AHEAD
from crond_py.engine.view import EngineStatus
from crond_py.model import Cause, Cursor, EveryMode, Run, task_id_of
from crond_py.policy import TICK
from crond_py.schedule import Schedule
from tests.simulation.again import Again, has_past_times
from tests.simulation.jobs import is_elapsed, schedule_of
from tests.simulation.story import Broken
from tests.simulation.world import World

NEW_TIME = timedelta(hours=3)

_PLANNED = frozenset({Cause.SCHEDULE, Cause.CATCH_UP})


@dataclass(slots=True)
class Segment:
    """Readings of the clock, ``spans`` of (after, until], in which a job was due by one schedule.

    There is more than one where the clock was set back to before the first of them and has not
    come there again. ``begin`` and ``end`` are where the first and the last row may lie; outside
    the spans none is counted on.
    """

    fingerprint: str
    era: int
    baseline: datetime
    anchor: datetime | None
    spans: list[tuple[datetime, datetime]]
    schedule: Schedule
    is_sure: bool = True
    begin: datetime | None = None
    end: datetime | None = None
    covered: int = 0

    @property
    def after(self) -> datetime:
        """Where its readings begin."""
        return min(after for after, _ in self.spans)

    @property
    def until(self) -> datetime:
        """Where its readings end."""
        return max(until for _, until in self.spans)

    def holds(self, run: Run) -> bool:
        """Whether a row belongs here."""
        if run.era != self.era:
            return False
        if self.begin is not None and self.begin < run.due <= self.after:
            return True
        return self.counts(run) or (self.end is not None and self.after < run.due <= self.end)

    def counts(self, run: Run) -> bool:
        """Whether a row is one that must be here."""
        return any(after < run.due <= until for after, until in self.spans)

    def fits(self, run: Run) -> bool:
        """Whether a row is of this era and at an instant of this schedule."""
        return run.era == self.era and self.schedule.next_after(run.due - TICK) == run.due

    def is_ahead(self, run: Run) -> bool:
        """Whether a row is of an instant of this schedule that has not come yet."""
        return run.due > self.until and self.fits(run)

    def read(self, baseline: datetime, now: datetime) -> None:
        """Let its readings go on to now, from a new beginning if the clock was set back there."""
        after, until = self.spans.pop()
        if baseline < self.baseline:
            self.spans.append((after, until))
            after = until = baseline
        self.baseline = baseline
        until = max(until, now)
        apart = [span for span in self.spans if span[1] < after or span[0] > until]
        met = [span for span in self.spans if span not in apart]
        after = min([after, *(span[0] for span in met)])
        self.spans = [*apart, (after, max([until, *(span[1] for span in met)]))]

    def due(self) -> int:
        """Return how often it was due."""
        return sum(self.schedule.count(after, until) for after, until in self.spans)


@dataclass(slots=True)
class Accounts:
    """The segments of every job of a world.

    Rows that lie in none are ``pending`` where they were claimed ahead, else ``doubtful``.
    ``others`` are those of runs that a person or another job has asked for.
    """

    world: World
    again: Again
    open: dict[str, Segment] = field(default_factory=dict)
    closed: dict[str, list[Segment]] = field(default_factory=lambda: defaultdict(list))
    pending: list[Run] = field(default_factory=list)
    doubtful: list[Run] = field(default_factory=list)
    others: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    unsettled: set[str] = field(default_factory=set)
    out_of_force: dict[str, datetime] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    seen: int = 0
    looked_at: datetime | None = None
    looked_ns: int = 0
    begins: Counter[str] = field(default_factory=Counter)
    boots: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        self.world.on_begin.append(self._begins)
        self.world.on_force.append(self._comes_into_force)

    # --- what the world does --------------------------------------------------------------

    def _begins(self) -> None:
        """Look at the ledger as a daemon that is about to start finds it."""
        cursors = self.world.ledger.cursors()
        for name, job in self.world.jobs.items():
            stored, last = cursors.get(name), self.cursors.get(name)
            mark = fingerprint(job)
            if stored is None or stored.fingerprint != mark or stored != last:
                self.unsettled.add(name)
            was_seen = last is not None and last.fingerprint == mark and job.enabled
            in_force = self.world.in_force.get(name)
            was_in_force = was_seen and in_force is not None and in_force.enabled
            if was_in_force and (stored is None or stored.fingerprint != mark):
                self._breach("a power cut has undone that it came into force", name)
            if job.enabled and isinstance(job.trigger, StartupTrigger):
                self.begins[name] += 1
                self.boots[name].add(self.world.boots)

    def _comes_into_force(self) -> None:
        """Jobs whose schedule is another now, or that were not in force, begin anew."""
        for name, job in self.world.jobs.items():
            known = self.world.requests.definitions[name]
            if len(known) > 1 and fingerprint(known[-2]) != fingerprint(job):
                self.unsettled.add(name)
            if not job.enabled or name in self.out_of_force or name not in self.cursors:
                self.unsettled.add(name)
            if not job.enabled:
                self.cursors.pop(name, None)  # that it was in force is over
        self.unsettled |= self.open.keys() - self.world.jobs.keys()

    # --- a look ---------------------------------------------------------------------------

    def look(self, status: EngineStatus) -> None:
        """Look at the accounts of a daemon at rest, and at what it waits for."""
        world = self.world
        now = world.clock.now()
        cursors = world.ledger.cursors()
        for name, job in world.in_force.items():
            if job.enabled and _is_counted(job):
                self._follow(job, cursors.get(name), now)
            else:
                self._goes_out_of_force(name, now)
        for name in [*self.out_of_force, *self.open]:
            if name not in world.in_force:
                self._goes_out_of_force(name, now)
        self._enter_rows(now)
        for name, segment in self.open.items():
            self._check(name, segment)
            if has_past_times(world.in_force[name]):
                self.again.reaches(name, segment.after, segment.until)
        self._look_ahead(status, now, cursors)
        self._look_at_startups()
        self.unsettled.clear()
        self.cursors = cursors
        self.looked_at, self.looked_ns = now, world.clock.monotonic_ns()
        world.steps.clear()

    def look_at_end(self) -> None:
        """Look at every stretch once more, and at rows that lie in none."""
        for name, segments in self.closed.items():
            for segment in segments:
                self._check(name, segment)
        for run in self.pending:
            self._breach(f"nothing was due at {run.due}", run.job, run.id)

    def _breach(self, text: str, job: str, run: int | None = None) -> None:
        self.world.breach(Broken("P1", text, job=job, run=run))

    # --- stretches ------------------------------------------------------------------------

    def _goes_out_of_force(self, name: str, now: datetime) -> None:
        self.out_of_force[name] = now
        segment = self.open.pop(name, None)
        if segment is not None:
            self._close(name, segment, now)

    def _close(self, name: str, segment: Segment, now: datetime) -> None:
        segment.end = max(now, segment.until) + AHEAD
        self.closed[name].append(segment)

    def _follow(self, job: Job, cursor: Cursor | None, now: datetime) -> None:
        """Let the job's segment go on up to now, or begin another."""
        name = job.name
        if cursor is None or cursor.fingerprint != fingerprint(job):
            self._breach("the ledger does not say how far it is accounted for", name)
            return
        segment = self.open.get(name)
        if segment is None or segment.fingerprint != cursor.fingerprint:
            since = self.out_of_force.pop(name, None)
            self._begin_in_force(job, cursor, now, since)
        elif is_elapsed(job):
            self._follow_elapsed(job, segment, cursor, now)
        elif cursor.era != segment.era:
            back = -min((step for _, step, _ in self.world.steps), default=timedelta(0))
            if back <= NEW_TIME and not self._was_set_while_down():
                self._breach(f"a new era begins, and the clock was set back by {back}", name)
            self._begin_after_step(job, cursor, now)
        elif cursor.baseline > segment.baseline:
            self._begins_anew(job, cursor, now)
        elif has_past_times(job) and self._is_passed_over(name, segment):
            self._begin_after_step(job, cursor, now)
        else:
            self._read_on(name, segment, cursor, now)

    def _read_on(self, name: str, segment: Segment, cursor: Cursor, now: datetime) -> None:
        """Let a segment go on; before its beginning there may be what an older time has had."""
        if cursor.baseline < segment.baseline:
            over = self.again.passed_over(name)
            if over is not None and over.until > cursor.baseline:
                segment.is_sure = False  # that has its row in the other era
        segment.read(cursor.baseline, now)
        self._doubt_overlaps(name, segment)

    def _doubt_overlaps(self, name: str, segment: Segment) -> None:
        """Where readings of an earlier stretch come again, which has a row nobody can tell."""
        for each in self.closed[name]:
            if each.end is None or each.era != segment.era:
                continue
            if each.end > segment.after - AHEAD:
                each.is_sure = segment.is_sure = False

    def _is_passed_over(self, name: str, segment: Segment) -> bool:
        """Tell whether a step has led back to an older time, which had its account."""
        steps = self.world.steps
        if not steps or name in self.again.unknown:
            return bool(steps)
        over = self.again.passed_over(name)
        if over is not None and over.until > segment.until:
            return True
        before = self.world.clock.skew - sum((step for _, step, _ in steps), timedelta(0))
        over = self.again.passed_over(name, was_away_at=before)
        return over is not None and over.until > segment.spans[-1][1]

    def _begin_in_force(
        self, job: Job, cursor: Cursor, now: datetime, since: datetime | None
    ) -> None:
        """Begin a segment of a job that was not in force, or not by this schedule."""
        over = self.again.passed_over(job.name) if has_past_times(job) else None
        was_set = bool(self.world.steps)
        is_unknown = job.name in self.again.unknown and has_past_times(job)
        is_barred = over is not None and over.until + AHEAD > cursor.baseline
        if is_barred or cursor.barriers or (was_set and is_unknown):
            is_told = not was_set and not is_unknown
            self._begin_in_its_time(job, cursor, now, is_told=is_told, since=since)
        else:
            self._begin(job, cursor, now, since=since)
        if was_set and is_elapsed(job):
            self.open[job.name].is_sure = False  # which rows have old readings, nobody can tell

    def _begin_after_step(self, job: Job, cursor: Cursor, now: datetime) -> None:
        """Begin a segment in a new time, or in an older one that is back."""
        is_plain = [was_up for _, _, was_up in self.world.steps] == [True]
        is_told = is_plain and job.name not in self.again.unknown
        self._begin_in_its_time(job, cursor, now, is_told=is_told)

    def _begin_in_its_time(
        self,
        job: Job,
        cursor: Cursor,
        now: datetime,
        *,
        is_told: bool,
        since: datetime | None = None,
    ) -> None:
        """Begin a segment where an older time had ended, if the clock is back in one."""
        over, after = self.again.passed_over(job.name), None
        if over is not None and over.until + AHEAD > cursor.baseline:
            is_told = is_told and over.is_known and over.since <= cursor.baseline
            after = over.until + AHEAD if is_told else None  # what was claimed ahead has its row
        self._begin(job, cursor, now, since=since, after=after)
        if after is not None:
            self.open[job.name].begin = after - AHEAD
        if not is_told:
            self.open[job.name].is_sure = False

    def _follow_elapsed(self, job: Job, segment: Segment, cursor: Cursor, now: datetime) -> None:
        """Have a job that counts elapsed time keep its beat, whatever the clock is set to."""
        steps = self.world.steps
        anchor, before = cursor.anchor, segment.anchor
        assert anchor is not None
        assert before is not None
        is_same = cursor.era == segment.era and anchor == before
        if is_same and cursor.baseline == segment.baseline:
            segment.read(cursor.baseline, now)
            return
        shift = sum((step for _, step, was_up in steps if was_up), timedelta(0))
        is_plain = len(steps) == 1 and steps[0][0] == self.looked_ns and steps[0][2]
        if not is_plain:
            self._begins_anew(job, cursor, now)
            return
        if anchor - before != shift:
            text = f"its beat moved by {anchor - before}, the clock was set by {shift}"
            self._breach(text, job.name)
        # What was claimed ahead has its row at the old reading.
        ahead = [run.due for run in self.pending if run.job == job.name and segment.fits(run)]
        self._begin(job, cursor, now, after=max([segment.until, *ahead]) + shift)

    def _begins_anew(self, job: Job, cursor: Cursor, now: datetime) -> None:
        """Its beginning has moved, without another schedule or era: a power cut may undo one."""
        if job.name not in self.unsettled and not self.world.steps:
            self._breach(f"it begins anew at {cursor.baseline} for no reason", job.name)
        self._begin_in_force(job, cursor, now, None)

    def _was_set_while_down(self) -> bool:
        return any(not was_up for _, _, was_up in self.world.steps)

    def _begin(
        self,
        job: Job,
        cursor: Cursor,
        now: datetime,
        *,
        since: datetime | None = None,
        after: datetime | None = None,
    ) -> None:
        """Begin another segment. ``since``: its baseline may not be before that, or leave a gap."""
        name = job.name
        old = self.open.pop(name, None)
        if old is not None:
            self._close(name, old, now)
        schedule = schedule_of(job, cursor.anchor)
        assert schedule is not None
        begin = after or cursor.baseline
        new = Segment(
            cursor.fingerprint,
            cursor.era,
            cursor.baseline,
            cursor.anchor,
            [(begin, max(now, begin))],
            schedule,
        )
        is_one_off = isinstance(job.trigger, AtTrigger)
        is_plain = not self.world.steps and not is_one_off
        if since is not None and is_plain and cursor.baseline < since - AHEAD:
            text = f"it is accounted for from {cursor.baseline}, and came into force after {since}"
            self._breach(text, name)
        self._doubt_overlaps(name, new)
        # What is past when it is first read has its account from before that.
        earlier = self.world.requests.definitions[name][:-1]
        if is_one_off and (self.closed[name] or not all(map(_is_counted, earlier))):
            new.is_sure = False
        self.open[name] = new

    # --- rows -----------------------------------------------------------------------------

    def _enter_rows(self, now: datetime) -> None:
        rows = self.world.ledger._content.runs
        last = self.world.ledger.last_id
        fresh = [rows[number] for number in range(self.seen + 1, last + 1) if number in rows]
        self.seen = last
        self.doubtful = [run for run in self.doubtful if not self._enter(run)]
        waiting, self.pending = self.pending, []
        for run in [*waiting, *fresh]:
            if task_id_of(run.job) is not None:
                continue  # see ``tasks``
            job = self.world.in_force.get(run.job) or self.world.parked[run.job]
            if run.cause not in _PLANNED:
                self.others[run.job].append(run)
            elif _is_counted(job) and not self._enter(run):
                self._has_no_place(run, now)

    def _enter(self, run: Run) -> bool:
        segments = [*self.closed[run.job]]
        if run.job in self.open:
            segments.append(self.open[run.job])
            if segments[-1].is_ahead(run):
                return False  # it is this one's, not one that the one before has claimed ahead
        for segment in reversed(segments):
            if segment.holds(run):
                if segment.counts(run):
                    segment.covered += run.count
                if run.last_due is not None and run.last_due > segment.until:
                    segment.is_sure = False  # of readings that were there while nobody looked
                if not segment.is_sure:
                    return True
                for due in {run.due, run.last_due or run.due}:
                    if segment.schedule.next_after(due - TICK) != due:
                        self._breach(f"nothing was due at {due}", run.job, run.id)
                return True
        return False

    def _has_no_place(self, run: Run, now: datetime) -> None:
        if now < run.due <= now + AHEAD:
            self.pending.append(run)  # claimed ahead
        elif run.job not in self.unsettled and run.job in self.open and not self.world.steps:
            self._breach(f"nothing was due at {run.due}", run.job, run.id)
        else:
            self.doubtful.append(run)  # of readings at which nobody looked, which may come again

    def _check(self, name: str, segment: Segment) -> None:
        if not segment.is_sure:
            return
        due, covered = segment.due(), segment.covered
        if due != covered:
            # By chance another run may have been asked for at the very instant.
            covered += sum(segment.counts(run) and segment.fits(run) for run in self.others[name])
        if due != covered:
            spans = [f"after {after} up to {until}" for after, until in segment.spans]
            span = f"{' and '.join(spans)} (era {segment.era})"
            self._breach(f"it was due {due} times {span}, {covered} have a row", name)

    # --- what is to come ------------------------------------------------------------------

    def _look_ahead(self, status: EngineStatus, now: datetime, cursors: dict[str, Cursor]) -> None:
        """P1: every live job waits for its next occurrence, and for no other."""
        gone = [name for name, size in self.world.pools_in_force.items() if size == 0]
        for trouble in status.troubles:
            if not any(f" wait for the pool {name}," in trouble for name in gone):
                self._breach(f"a healthy daemon says: {trouble}", "")
        for each in status.jobs:
            job, name = each.job, each.job.name
            if not job.enabled:
                if each.next_due is not None:
                    self._breach(f"it is disabled, and next due at {each.next_due}", name)
            elif _is_fixed_delay(job):
                if each.next_due is None and not each.active:
                    self._breach("it waits for nothing", name)
            elif name in self.open:
                may_be = _may_be_next(job, self.open[name], cursors[name], now)
                if each.next_due not in may_be:
                    self._breach(f"it waits for {each.next_due}, and is due next {may_be}", name)

    def _look_at_startups(self) -> None:
        """P2: a start of the daemon, or of the machine, makes a job due once."""
        rows: Counter[str] = Counter()
        for run in self.world.ledger._content.runs.values():
            if run.cause is Cause.STARTUP:
                rows[run.job] += 1
        for name, number in rows.items():
            definitions = self.world.requests.definitions[name]
            per_boot = all(
                isinstance(job.trigger, StartupTrigger) and job.trigger.per_boot
                for job in definitions
            )
            starts = len(self.boots[name]) if per_boot else self.begins[name]
            if number > starts:
                what = "starts of the machine" if per_boot else "starts of the daemon"
                self._breach(f"it was due {number} times for {starts} {what}", name)


def _may_be_next(job: Job, segment: Segment, cursor: Cursor, now: datetime) -> set[datetime | None]:
    """Return which occurrence may be waited for: the first is perhaps claimed, ahead or before."""
    if isinstance(job.trigger, AtTrigger):
        return {segment.schedule.next_after(cursor.accounted_until)}
    expected = segment.schedule.next_after(now)
    may_be = {expected}
    if expected is not None and expected <= now + AHEAD:
        may_be.add(segment.schedule.next_after(expected))
    for known in (cursor.accounted_until, *(until for _, until in cursor.barriers)):
        may_be.add(segment.schedule.next_after(max(known, now)))
    return may_be


def _is_counted(job: Job) -> bool:
    """Tell whether the job is due at instants that can be told beforehand."""
    is_timed = not isinstance(job.trigger, StartupTrigger | AfterTrigger)
    return is_timed and not _is_fixed_delay(job)


def _is_fixed_delay(job: Job) -> bool:
    trigger = job.trigger
    return isinstance(trigger, EveryTrigger) and trigger.mode is EveryMode.FIXED_DELAY
