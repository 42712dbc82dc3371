"""Submitted tasks: taken up from the ledger when they are due, a few of each lane at a time.

A task is in memory only as long as it has a run without an outcome. When it is taken up, its
occurrence is claimed, and in the same transaction it ends, or moves on to its next due instant: a
crash leaves it as it was, or accounted for.

What is due while as many runs of its lane wait for a slot as may, stays in the ledger and is taken
up in the order in which it was due, and so does what is due while its pool is in no crontab or the
ledger cannot tell. A task that is run once is not missed by that, it merely waits. One that comes
again is run for the newest of its instants when its turn comes; those that this has overtaken are
missed ones, and made up where it says ``missed = "all"``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from heapq import nlargest

from crond_py.crontab.model import Crontab, EveryTrigger
from crond_py.engine.admission import Admitter
from crond_py.engine.agenda import LATE, Agenda
from crond_py.engine.ahead import AHEAD
from crond_py.engine.attendance import Attendance
from crond_py.engine.events import FeedDue, TasksDue
from crond_py.engine.feeding import Hunger, Shelf
from crond_py.engine.lanes import FirstDues, Hindered, Hindrance, LaneState
from crond_py.engine.parking import Parking
from crond_py.engine.parts import AGAIN, Parts, Register
from crond_py.engine.pools import LONGEST_WAITING_EVERY, Slots
from crond_py.engine.presence import Presence
from crond_py.engine.records import NOT_THERE, ActiveRun, JobState, Stage
from crond_py.engine.status import Crowd, seen
from crond_py.engine.telling import INTERNAL_FAULT, fields, log
from crond_py.engine.uptake import Uptake
from crond_py.engine.view import TaskCounts
from crond_py.errors import LedgerError, PycronError
from crond_py.model import Cursor, Lane, Outcome, Run, Scale, Task, task_id_of
from crond_py.ports import Gap, Ledger, NewTask, SetTask, Submitted

LOST = "the definition of its task is lost: the ledger was damaged"

COUNTED = 4_000
"""Up to how many tasks are counted, of all lanes together, when somebody asks how many wait.

Nothing is started meanwhile.
"""

MOST_UNWRITTEN = 4
"""So many times what is taken up in a batch may wait to be written: then no more is taken up."""

LANES_COUNTED = 100
"""Of how many lanes, those that have most; of the others only the first task is known to wait."""


class Tasks:
    """Keeps a timer for each lane, and takes up what is due.

    A lane is hungry (``feeding``) from when its timer fires, as timers of one deadline come by
    priority, until nothing of it is due or there is no room. A batch of events takes up ``left``
    more tasks, of all lanes; the next batch goes on, after what has come meanwhile. ``held`` are
    pools that give no slot until those stand in line that come together, or go first. ``stale``:
    the first task may be another one; ``unread``: it is not known which are due. ``has_come``:
    timers have fired since lanes were fed; ``has_fed``: some was taken up in this batch.
    ``unwritten`` are tasks that have moved on, as they stand, which the ledger does not know yet;
    ``is_blocked``: so many that no more are taken up. ``put_off`` are lanes whose timers have fired
    and are dealt with in the next batch. ``is_over``: lanes were fed with this batch, and what it
    has changed is being written; those that get hungry from now on want another one. ``is_begun``:
    what was due at the start has been seen to; ``is_feeding``: a lane is just being fed. ``kept``
    is how much of what each pool takes up is still to go to its priorities by turns.
    """

    def __init__(
        self,
        parts: Parts,
        register: Register,
        admitter: Admitter,
        agenda: Agenda,
        ledger: Ledger,
        *,
        parking: Parking,
    ) -> None:
        self._parts = parts
        self._register = register
        self._ledger = ledger
        self._parking = parking
        parking.lanes = self
        self._attendance = Attendance(parts)
        self._uptake = Uptake(parts, register, admitter, agenda, self._attendance)
        self._lanes: dict[Lane, LaneState] = {}
        self._first_dues = FirstDues()
        self._hunger = Hunger(parts.most_waiting, register.bounded)
        self._stale: dict[LaneState, None] = {}
        self._held: dict[Slots, None] = {}
        self._put_off: dict[str, set[LaneState]] = {}
        self._kept: defaultdict[str, float] = defaultdict(float)
        self._left = 0
        self._is_blocked = self._is_feeding = self._is_over = False
        self._turn = 0
        self._is_begun = True
        self._has_come = False
        self._is_to_go_on = False
        self._fill: Callable[[Slots], None] = lambda _slots: None
        self._unread: dict[LaneState, None] = {}
        self._has_fed = False
        self._unwritten: dict[int, Task] = {}
        self._presence = Presence(parts, ledger, self._attendance, self._attend)
        self._pools: frozenset[str] = frozenset()

    # --- start, reload, stop --------------------------------------------------------------

    def set_crontab(self, crontab: Crontab) -> None:
        """Take what a crontab says of tasks; what runs or waits keeps what it has."""
        self._uptake.set_crontab(crontab)
        self._pools = frozenset(crontab.pools)
        self._look_again()

    def _look_again(self) -> None:
        """Take up, with this batch, what of all lanes is due as things stand now."""
        for lane in self._lanes.values():
            self.arm(lane, at_once=True)
        for pool in self._hunger.pools:  # they come together
            self._hold_pool(pool)

    @property
    def keep_for(self) -> timedelta | None:
        """How long tasks are remembered that have ended; None: for ever."""
        return self._uptake.keep_for

    def enter(self, run: Run) -> str:
        """Enter the job of a run that an earlier daemon has left; else return why it cannot be."""
        if task_id_of(run.job) is None:
            return NOT_THERE
        try:
            task = self._stored(run.job)
        except LedgerError as error:
            return _not_understood(run, error)
        return self.enter_job(task, run)

    def enter_job(self, task: Task | None, run: Run) -> str:
        """Enter the job of a run, whose task the ledger has so; else return why it cannot be."""
        try:
            if task is not None:
                self._uptake.enter(task, run.due)
                return ""
        except PycronError as error:
            return _not_understood(run, error)
        return _not_understood(run, None)

    def _stored(self, name: str) -> Task | None:
        """Return the task whose job has that name. Raises LedgerError where it cannot be read."""
        task_id = task_id_of(name)
        return None if task_id is None else self._ledger.task(task_id)

    def read_lanes(self) -> None:
        """Read of which lanes tasks are stored. Raises LedgerError.

        Their pools give no slot until ``begin``: what is due of them goes by priority and share
        with what an earlier daemon has left, and with what jobs have missed.
        """
        self._is_begun = False
        for lane, stock in self._ledger.lanes().items():
            state = self.lane(lane)
            state.open = stock.open
            self._first_dues.set(state, stock.first_due)
            self._hold_pool(lane.pool)

    def begin(self, stored: Cursor | None, now: datetime, gap: Gap | None) -> None:
        """Take up what is due of the lanes that were read, and wait for the rest.

        ``stored`` is the cursor of all tasks.
        """
        self._attendance.begin(stored, now, gap, self._ledger.last_task_id)
        for job in self._register.tasks.values():
            for active in [*job.active, *job.queued]:
                self.watch(self._lane_of(active), active)
        for each in list(self._lanes.values()):
            self._note_left(each, now)
            self.arm(each, at_once=True)
            self.let_go(each)
        self._is_begun = True
        self.begin_batch()
        self.feed()

    def _note_left(self, lane: LaneState, now: datetime) -> None:
        """Note where an earlier daemon has left something of a lane that was due.

        What is due since that one ended has merely been missed, and that is said of it.
        """
        scale = lane.lane.scale
        if lane.first_due is not None and self._attendance.wall(scale, lane.first_due) <= now:
            lane.hinder(Hindrance.LEFT, 0)

    def _lane_of(self, active: ActiveRun) -> LaneState:
        """Return the lane in which a run of an earlier daemon counts as one that waits."""
        job = active.job
        task = None
        with suppress(LedgerError):  # it counts where its job says then
            task = self._stored(job.name)
        return self.lane(task.lane if task else Lane(job.pool, job.priority, job.group or ""))

    def stop(self) -> None:
        """Take up nothing more. What is due already, and late, is for the next daemon to miss."""
        now = self._parts.timekeeper.now()
        for lane in self._lanes.values():
            if lane.timer is not None:
                self._note_if_late(lane, now)
            self._disarm(lane)
        self._presence.stop()
        if self._lanes:
            self._attend()

    def clock_changed(self, step: timedelta) -> None:
        """Derive every deadline again after the wall clock was set by ``step``."""
        self._attendance.clock_set(step, self._parts.timekeeper.now())
        self._look_again()

    # --- requests -------------------------------------------------------------------------

    def begin_attending(self) -> None:
        """Note, before a task is handed in, that tasks are attended to, and as the clock stands.

        After a restart of the machine whose clock was set back, elapsed time goes on from there.
        """
        if not self._lanes or self._attendance.is_old:
            self._attend()

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Enter tasks, all or none. Their due instants are on the wall clock, there and back.

        What ``begin_attending`` and steps of the clock noted must be in the ledger. Raises
        LedgerError.
        """
        wall, on_scale = self._attendance.wall, self._attendance.on_scale
        rows = [replace(each, due=on_scale(each.lane.scale, each.due)) for each in tasks]
        submitted = self._ledger.submit(rows, self._parts.timekeeper.now())
        for task in (each.task for each in submitted if each.is_new):
            lane = self.lane(task.lane)
            lane.open += 1
            if self._first_dues.note(lane, task.due):
                self.arm(lane)
            self._presence.has_come(lane)
        return [
            replace(each, task=replace(each.task, due=wall(each.task.lane.scale, each.task.due)))
            for each in submitted
        ]

    def cancel(self, task_id: int, reason: str) -> bool:
        """End a task that has an occurrence without a row, with one for that; False: it has none.

        What came due already, and waited, is told of in the same row.

        Raises LedgerError.
        """
        task = self._unwritten.get(task_id) or self._ledger.task(task_id)
        if task is None or task.ended_at is not None:
            return False
        self._uptake.enter_row(task, self._parts.timekeeper.now(), Outcome.CANCELLED, reason)
        lane = self.lane(task.lane)
        self._move_on(lane, task, None)
        self._stale[lane] = None  # it may have been the first
        return True

    def counts(self) -> TaskCounts:
        """Return how the tasks stand."""
        states = self._register.tasks.values()
        runs = [seen(active) for state in states for active in [*state.active, *state.queued]]
        first = [
            self._attendance.wall(scale, due)
            for scale, due in self._first_of_each_scale().items()
            if due is not None
        ]
        total = sum(lane.open for lane in self._lanes.values())
        parked = sum(len(lane.parked) for lane in self._lanes.values())
        return TaskCounts(total, min(first, default=None), tuple(runs), parked)

    def count_stored(self, crowds: defaultdict[str, Crowd]) -> None:
        """Count, of each pool, what is due of tasks and has not been taken up, at least."""
        timekeeper = self._parts.timekeeper
        now = timekeeper.now()
        due = [lane for lane in self._lanes.values() if self._is_due(lane, now)]
        numbers = self._numbers_due(due, now)
        for lane in due:
            assert lane.first_due is not None  # noqa: S101 - it is due
            since = self._attendance.wall(lane.lane.scale, lane.first_due)
            crowds[lane.lane.pool].add(numbers.get(lane, 1), timekeeper.deadline(since))
        now_ns, left = timekeeper.reading(), COUNTED
        for lane in self._lanes.values():
            since_ns = lane.parked.first_ns
            if since_ns is not None and (number := lane.parked.number_due(now_ns, left)):
                crowds[lane.lane.pool].add(number, since_ns)
                left -= number

    def _is_due(self, lane: LaneState, now: datetime) -> bool:
        until = self._attendance.on_scale(lane.lane.scale, now)
        return lane.first_due is not None and lane.first_due <= until

    def _numbers_due(self, due: Sequence[LaneState], now: datetime) -> dict[LaneState, int]:
        """Return how many tasks are due of lanes of which some are, and that have several.

        Each gets its part of what may be counted; what those with few leave is for the others.
        """
        several = (lane for lane in due if lane.open > 1)
        counted = nlargest(LANES_COUNTED, several, key=lambda lane: lane.open)
        numbers, left = {}, COUNTED
        while counted:
            most = left // len(counted)
            lane = counted.pop()
            numbers[lane], used = self._number_due(lane, now, most)
            left -= used
        return numbers

    def _number_due(self, lane: LaneState, now: datetime, most: int) -> tuple[int, int]:
        """Return how many tasks of a lane are due, at least, and how many were counted for that.

        That are all but those that come later, if these are not too many to be counted.
        """
        count, half = self._ledger.count_due, most // 2
        until = self._attendance.on_scale(lane.lane.scale, now)
        try:
            later = count(lane.lane, after=until, until=None, limit=half)
            if later < half:
                return max(1, lane.open - later), later
            number = count(lane.lane, after=None, until=until, limit=most - half)
        except LedgerError:
            return 1, half
        return max(1, number), later + number

    @property
    def troubles(self) -> list[str]:
        """What a person should know of: tasks that no pool takes, or that cannot be read."""
        troubles = [
            f"submitted tasks ({number}) wait for the pool {pool}, which is not in the crontab; "
            f"add [pools.{pool}] with workers, or cancel them"
            for pool, number in self._held_tasks().items()
        ]
        if self._unread:
            number = sum(lane.open + len(lane.parked) for lane in self._unread)
            troubles.append(
                f"submitted tasks ({number}) wait, as nobody knows which of them are due: "
                f"{next(iter(self._unread)).unread}"
            )
        return troubles

    def tell_held(self) -> None:
        """Log of each pool that is in no crontab how many tasks wait for it."""
        for pool, number in self._held_tasks().items():
            log.warning(
                "submitted tasks wait for a pool that is not in the crontab; "
                "add it with workers, or cancel them",
                extra=fields(pool=pool, tasks=number),
            )

    def _held_tasks(self) -> dict[str, int]:
        """Return how many tasks wait for each pool that is in no crontab."""
        held: Counter[str] = Counter()
        for lane in filter(self._is_held, self._lanes.values()):
            held[lane.lane.pool] += lane.open + len(lane.parked)
        for state in self._register.tasks.values():
            # One that comes again is among those that are open.
            is_counted = isinstance(state.job.trigger, EveryTrigger)
            if state.job.pool not in self._pools and not is_counted and _wants_a_slot(state):
                held[state.job.pool] += 1
        return {pool: number for pool, number in held.items() if number}

    def kept_back_due(self) -> None:
        """Note that we are there as tasks come due that have to wait."""
        self._presence.look()

    # --- taking up ------------------------------------------------------------------------

    def due(self, lane: LaneState, fired_at: datetime) -> None:
        """Take up tasks of a lane whose timer fired at wall-clock instant ``fired_at``."""
        self._take_back(lane)
        if self._lanes.get(lane.lane) is not lane:
            return  # it was let go of since, and what has come to its lane has another timer
        if not self._register.is_stopping:
            self._starve(lane)  # also where an error comes next
            self._has_come = True
        self._note_if_late(lane, fired_at)
        self._disarm(lane)

    def _starve(self, lane: LaneState) -> None:
        """Have a lane be hungry, as something of it is due."""
        first_ns = self._first_ns(lane)
        if first_ns is None:
            self._note_read(lane)  # there is nothing that could be
            self.let_go(lane)
            return
        if self._is_over:
            self._go_on()
        self._hunger.add(lane, first_ns, self._parts.timekeeper.reading())
        self._presence.keep_back(lane)  # there may be no room for long

    def put_off(self, lane: LaneState) -> None:
        """Note that a timer has fired which is to be dealt with in the next batch, as ``due``.

        Nobody gets a slot of its pool until then.
        """
        self._put_off.setdefault(lane.lane.pool, set()).add(lane)
        self._hold_pool(lane.lane.pool)

    def _take_back(self, lane: LaneState) -> None:
        """Note that a lane is put off no more."""
        lanes = self._put_off.get(lane.lane.pool, set())
        lanes.discard(lane)
        if not lanes:
            self._put_off.pop(lane.lane.pool, None)

    def note_late(self, lane: LaneState, fired_at: datetime) -> None:
        """Note that a timer fired late which is to be dealt with later, as ``due``."""
        self._note_if_late(lane, fired_at)
        lane.deadline_ns = self._parts.timekeeper.deadline(fired_at)

    def _note_if_late(self, lane: LaneState, fired_at: datetime) -> None:
        expected = self._parts.timekeeper.wall_at(lane.deadline_ns)
        if fired_at - expected > LATE:
            self._attendance.note_frozen(expected, fired_at)

    def when_taken_up(self, fill: Callable[[Slots], None]) -> None:
        """Have ``fill`` called with a pool once those stand in line that come together."""
        self._fill = fill

    def begin_batch(self) -> None:
        """Note that a batch of events begins; so many tasks are taken up in it at most.

        None are while the ledger does not take what it is handed.
        """
        self._is_over = False
        most = self._parts.most_waiting
        self._is_blocked = len(self._unwritten) >= MOST_UNWRITTEN * most
        self._left = 0 if self._is_blocked else most

    def goes_on(self) -> None:
        """Note that what has come meanwhile is dealt with, and it is time to go on."""
        self._is_to_go_on = False

    def feed_in_place(self) -> None:
        """Take up what is due of the lanes whose timers fired just now, before what is after."""
        if self._has_come and self._left > 0:
            self._feed_all()

    def feed(self) -> None:
        """Take up what is due and may wait in memory, as much as is for one batch, at its end."""
        self._feed_all()
        self._is_over = True

    def _feed_all(self) -> None:
        self._has_come = False
        if self._register.is_stopping:
            return
        for lane in list(self._stale):
            del self._stale[lane]
            self._feed_or_wait(lane, 0)
        pools = self._hunger.pools
        if pools:
            self._turn = (self._turn + 1) % len(pools)
            pools = [*pools[self._turn :], *pools[: self._turn]]
        for number, pool in enumerate(pools):
            self._feed_pool(pool, self._left // (len(pools) - number))
        for slots in [each for each in self._held if each.pool.name not in self._put_off]:
            self._let_have(slots)
        if self._has_fed:
            self._has_fed = False
            self._attend()
        if self._held or any(self._wants_more(pool) for pool in self._hunger.pools):
            self._go_on()

    def _go_on(self) -> None:
        """Have another batch take up more, unless that has to wait for the ledger."""
        if not self._is_to_go_on and not self._is_blocked:
            self._is_to_go_on = True
            self._parts.timers.call_at(self._parts.timekeeper.reading(), FeedDue())

    def _feed_pool(self, pool: str, most: int) -> None:
        """Take up tasks of a pool's lanes, the higher priority first.

        A tenth is for all priorities by turns, as with slots.
        """
        slots, rack = self._register.bounded(pool), self._hunger.rack(pool)
        if slots is not None and rack.has_several:
            self._hold(slots)  # they come together
        least = self._left - most
        by_turns, first = rack.by_turns, next(iter(rack), None)
        kept = 0 if by_turns in {None, first} else self._keep_of(pool, most)
        for shelf in rack.ahead:
            self._feed_shelf(shelf, least + kept)
            if shelf.next_lane is not None:
                break
        if by_turns is not None:
            self._feed_shelf(by_turns, least)
        if not any(rack):
            return
        if self._left > least:
            rack.full_ns = self._parts.timekeeper.reading()
        if slots is not None and (self._left <= 0 or slots.has_room):
            self._hold(slots)  # who has not been taken up may be next

    def _wants_more(self, pool: str) -> bool:
        """Whether more of a pool is taken up as soon as there is time for it."""
        rack = self._hunger.rack(pool)
        by_turns = rack.by_turns
        if by_turns is not None and by_turns.next_lane is not None:
            return True
        return any(shelf.next_lane is not None for shelf in rack.ahead)

    def _keep_of(self, pool: str, most: int) -> int:
        """Return how many of those that may be taken up are kept for whose turn it is."""
        self._kept[pool] += most / LONGEST_WAITING_EVERY
        kept = int(self._kept[pool])
        self._kept[pool] -= kept
        return kept

    def _feed_shelf(self, shelf: Shelf, least: int) -> None:
        """Take up tasks of a shelf's lanes, as long as more than ``least`` may be."""
        most = self._left - least
        number = len(shelf.hungry)
        while self._left > least and (lane := shelf.next_lane) is not None:
            self._feed_or_wait(lane, min(self._left - least, max(1, most // number)))
        now_ns = self._parts.timekeeper.reading()
        shelf.note_if_full(now_ns)
        if most > 0:  # else it has had no turn
            shelf.asked_ns = now_ns

    def _hold_pool(self, name: str) -> None:
        if name in self._register.pools:
            self._hold(self._register.pools[name])

    def _hold(self, slots: Slots) -> None:
        """Let nobody have a slot before those stand in line that come together."""
        if slots.pool.workers is not None:
            slots.is_held = True
            self._held[slots] = None

    def _let_have(self, slots: Slots) -> None:
        """Give the slots of a pool to whose turn it is, unless somebody is to come first."""
        slots.is_held = False
        del self._held[slots]
        self._fill(slots)

    def bring(self, slots: Slots, priority: int | None) -> bool:
        """Take up what goes before all that wait for a slot which is free.

        With a ``priority``, of a run that comes: whether something may go before that, which is
        then taken up with what else is due. False: nobody gets the slot until then.
        """
        pool = slots.pool.name
        if not slots.has_room or slots.pool.workers is None or self._is_feeding:
            return True
        if slots in self._held and (not self._is_begun or pool in self._put_off):
            return False
        rack = self._hunger.rack(pool)
        while (shelf := rack.awaited) is not None:
            is_lower = priority is not None and shelf.priority < priority
            if is_lower or slots.has_higher_than(shelf.priority):
                break
            left = self._left - self._left_for_others(pool)
            if left <= 0 or self._is_over or priority is not None:
                self._hold(slots)
                if self._is_over:
                    self._go_on()
                return False
            lane = shelf.next_of_none
            assert lane is not None  # noqa: S101 - it is awaited
            was_held, slots.is_held = slots.is_held, True
            self._feed_or_wait(lane, max(1, left // len(shelf.hungry)))
            slots.is_held = was_held
        return True

    def _left_for_others(self, pool: str) -> int:
        """Return how many of what a batch takes up are not for a pool, as others want them."""
        others = len([name for name in self._hunger.pools if name != pool])
        return self._parts.most_waiting * others // (others + 1)

    def _feed_or_wait(self, lane: LaneState, most: int) -> None:
        """Take up some tasks of a lane; where that fails, do it again in a while."""
        self._has_fed = self._is_feeding = True
        try:
            self._feed(lane, most)
        except LedgerError as error:
            self._feed_again(lane, str(error))
        except Exception:  # noqa: BLE001 - the boundary of one lane: its faults stay its own
            if lane.unread != INTERNAL_FAULT:
                where = fields(pool=lane.lane.pool, group=lane.lane.group)
                log.exception("tasks not taken up", extra=where)
            self._feed_again(lane, INTERNAL_FAULT)
        finally:
            self._is_feeding = False

    def _feed_again(self, lane: LaneState, why: str) -> None:
        """Try again in a while to take up what of a lane is due."""
        self._note_unread(lane, why)
        lane.hinder(Hindrance.UNREAD, self._parts.timekeeper.reading())
        self._left -= 1
        self._hunger.drop(lane)
        self._disarm(lane)
        self._wait(lane, self._parts.timekeeper.after(AGAIN))

    def _note_unread(self, lane: LaneState, why: str) -> None:
        """Note, and say once, that the ledger cannot tell which tasks of a lane are due."""
        if not self._unread:
            log.error("it is not known which tasks are due; they wait", extra=fields(reason=why))
        lane.unread = why
        self._unread[lane] = None

    def _note_read(self, lane: LaneState) -> None:
        if lane.unread:
            lane.unread = ""
            del self._unread[lane]
            if not self._unread:
                log.warning("it is known again which tasks are due", extra=fields())

    def _feed(self, lane: LaneState, most: int) -> None:
        shelf = self._hunger.shelf(lane)
        room = 0 if self._is_held(lane) else min(most, shelf.room(lane))
        if lane in self._hunger and max(shelf.last_full_ns, shelf.rack.full_ns) > lane.hungry_ns:
            lane.hinder(Hindrance.FULL, max(lane.hungry_ns, shelf.full_ns))
        begun = self._parking.take_up_due(lane, room)
        self._left -= begun
        room -= begun
        limit = room + len(self._unwritten) + 1
        found = self._ledger.tasks_due(lane.lane, after=None, until=None, limit=limit)
        if len(found) < limit and not self._unwritten:
            lane.open = len(found)  # a ledger that was damaged may have lost some
        found = [task for task in found if task.id not in self._unwritten]
        now = self._parts.timekeeper.now()
        until = self._attendance.on_scale(lane.lane.scale, now + AHEAD)
        taken = used = 0
        for task in found:
            if used >= room or task.due > until:
                break
            runs = self._take_up(lane, task, now)
            begun += sum(run.stage is not Stage.BEHIND for run in runs)
            used += max(1, len(runs))  # one may have many to make up for
            taken += 1
        self._left -= max(1, used)
        self._first_dues.set(lane, found[taken].due if taken < len(found) else None)
        self._note_read(lane)
        if begun or taken:
            weight = self._register.shares.weight(lane.lane.group)
            self._hunger.note_fed(lane, weight, is_barren=not begun)
        self.arm(lane, at_once=True)
        self.let_go(lane)

    def _take_up(self, lane: LaneState, task: Task, now: datetime) -> Sequence[ActiveRun]:
        """Take up what of a task is due, and return the runs that came of it."""
        runs, next_due = self._uptake.take_up(task, now, lane.hindered)
        for active in runs:
            self.watch(lane, active)
        self._move_on(lane, task, next_due)
        return runs

    def _move_on(self, lane: LaneState, task: Task, next_due: datetime | None) -> None:
        """Have a task be due then, or end it, with the claim that was just handed in."""
        if next_due is not None:
            moved = replace(task, due=next_due)
        else:
            moved = replace(task, ended_at=self._parts.timekeeper.now())
            lane.open -= 1
        self._unwritten[task.id] = moved
        self._parts.outbox.write(SetTask(task.id, moved.due, moved.ended_at))
        self._parts.outbox.then(partial(self._moved_on, moved, lane.hindered))

    def _moved_on(self, task: Task, hindered: Hindered) -> None:
        """Wait for a task that has moved on, unless it was cancelled meanwhile.

        Where it is due already, what kept it back is what ``hindered`` its lane then.
        """
        if self._unwritten.get(task.id) is not task:
            return
        del self._unwritten[task.id]
        if self._is_blocked:
            self._is_blocked = False
            self._go_on()
        if task.ended_at is None:
            lane = self.lane(task.lane)
            if self._first_dues.note(lane, task.due):
                lane.hindered = lane.hindered or hindered
                self.arm(lane, at_once=True)

    def watch(self, lane: LaneState, active: ActiveRun) -> None:
        """Count a run of a lane for as long as it waits for a slot, now or later."""
        self._hunger.count(lane, int(active.is_in_line))
        active.lane = lane.lane
        active.on_line = partial(self._line_changed, lane.lane)

    def _line_changed(self, of: Lane, is_in_line: bool) -> None:
        lane = self.lane(of)
        if is_in_line:
            self._hunger.count(lane, 1)
        else:
            self._begun(lane)

    def _begun(self, lane: LaneState) -> None:
        self._hunger.count(lane, -1)
        if lane.timer is None and lane not in self._hunger:
            self.arm(lane, at_once=True)
        self.let_go(lane)

    # --- lanes ----------------------------------------------------------------------------

    def lane(self, lane: Lane) -> LaneState:
        """Return a lane, which is begun if need be."""
        return self._lanes.setdefault(lane, LaneState(lane, self._parts.most_waiting))

    def _is_held(self, lane: LaneState) -> bool:
        """Whether nothing of a lane is taken up, as there is no such pool."""
        return lane.lane.pool not in self._pools

    def let_go(self, lane: LaneState) -> None:
        """Forget a lane that has nothing left."""
        if not lane.open and not lane.waiting and not lane.parked:
            self._disarm(lane)
            self._presence.let_go(lane)
            self._first_dues.set(lane, None)
            self._unread.pop(lane, None)
            self._hunger.drop(lane)
            self._stale.pop(lane, None)
            self._take_back(lane)
            self._lanes.pop(lane.lane, None)

    def arm(self, lane: LaneState, *, at_once: bool = False) -> None:
        """Wait for what is due first of a lane, or have more taken up of what is due.

        ``at_once``: with this batch, if there is still time in it.
        """
        self._disarm(lane)
        first_ns = self._first_ns(lane)
        if lane.first_due is None or self._register.is_stopping:
            lane.hindered = ()
        if first_ns is None:
            self._note_read(lane)
        if first_ns is None or self._register.is_stopping:
            self._hunger.drop(lane)
            self._presence.let_go(lane)
            return
        now_ns = self._parts.timekeeper.reading()
        if self._is_held(lane) or not lane.room:
            if lane.first_due is not None:
                lane.hinder(Hindrance.HELD if self._is_held(lane) else Hindrance.FULL, now_ns)
                self._presence.keep_back(lane)
            self._hunger.drop(lane)
            return
        if lane.first_due is not None and self._task_ns(lane, lane.first_due) > now_ns:
            lane.hindered = ()
        if at_once and first_ns <= now_ns:
            self._starve(lane)
        else:
            self._hunger.drop(lane)
            self._wait(lane, max(first_ns, now_ns))

    def _first_ns(self, lane: LaneState) -> int | None:
        """Return when the first task of a lane is to be taken up, or the first parked run."""
        parked_ns = lane.parked.first_ns
        task_ns = None if lane.first_due is None else self._task_ns(lane, lane.first_due)
        return min((each for each in (parked_ns, task_ns) if each is not None), default=None)

    def _task_ns(self, lane: LaneState, due: datetime) -> int:
        wall = self._attendance.wall(lane.lane.scale, due)
        return self._parts.timekeeper.deadline(wall - AHEAD)

    def _wait(self, lane: LaneState, deadline_ns: int) -> None:
        self._presence.let_go(lane)
        lane.deadline_ns = deadline_ns
        lane.timer = self._parts.timers.call_at(
            deadline_ns, TasksDue(lane), priority=lane.lane.priority
        )

    def _disarm(self, lane: LaneState) -> None:
        if lane.timer is not None:
            self._parts.timers.cancel(lane.timer)
            lane.timer = None

    def _first_of_each_scale(self) -> dict[Scale, datetime | None]:
        """Return the first due instant of each scale that is left to be taken up."""
        first = {scale: self._first_dues.first(scale) for scale in Scale}
        for task in self._unwritten.values():
            scale = task.lane.scale
            known = first[scale]
            if task.ended_at is None and (known is None or task.due < known):
                first[scale] = task.due
        return first

    def attend(self) -> None:
        """Note, with what is written anyway, up to when tasks were attended to."""
        is_at_work = bool(self._lanes) and not self._register.is_stopping
        if is_at_work and not self._parts.outbox.is_empty and self._attendance.is_old:
            self._attend()

    def _attend(self) -> None:
        until = self._parts.timekeeper.now() + AHEAD
        self._attendance.attend(until, self._first_of_each_scale())


def _not_understood(run: Run, error: PycronError | None) -> str:
    why = LOST if error is None else f"the task's definition cannot be used: {error}"
    log.warning("task not understood", extra=fields(job=run.job, reason=why))
    return why


def _wants_a_slot(state: JobState) -> bool:
    """Whether a run of the job waits for a slot, or for the time at which it will."""
    return any(active.stage in {Stage.SLOT, Stage.RETRY} for active in state.active)
