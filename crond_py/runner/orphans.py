"""Our children that nobody started: what lost its parent and was handed to us.

As a subreaper, or as the first process of a container, the daemon is the parent of whatever its
jobs leave behind. Only it can reap that, and it learns in this way what a run has left even
where a process has no mark of its run any more.

Waiting for any child would now and then take the exit status of a job; so each child is looked
at by its number. The kernel hands orphans to our first thread, and no job is started by that, so
its children are orphans but for those in the table of jobs and our errands. A kernel without
CONFIG_PROC_CHILDREN lists only processes, among them children that are just being started and not
in the table yet. There, a child that is not in the table is an orphan once every start that was
going on when it was first seen is over.

Whose it is: it is in the session or group of a job, it carries a job's marks, it was seen as a
member of a tree, or it holds a job's output (see ``origins``). Of any other it is known which runs
can have brought it forth: those that were there when it was met, and began before it. It is ended
with the last of these that is ended, if all the others were, too: then whose it is makes no
difference. One that may be of a run which goes on, or has ended by itself, is let be, and told of
as a stray of the run that is ended: to end somebody else's process is worse than to leave one.
Where we are pid 1, or had children when we began (``service & exec pycron run``), what others have
started comes to us, too; so there each of them is a stray.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Final, NamedTuple

from crond_py.dataclass import dataclass
from crond_py.ports import AttemptKey
from crond_py.runner import procfile, proctree
from crond_py.runner.brand import BRANDING
from crond_py.runner.child import Child
from crond_py.runner.errands import ERRANDS
from crond_py.runner.marks import Marks, read_all_marks, read_brand, tag_of_brand
from crond_py.runner.origins import Lineage, Origin, is_among, outputs_of
from crond_py.runner.proctree import Process, Snapshot
from crond_py.runner.suspects import SOME_EARLIER, Start, Suspects, able, find_owner, joined

_MANY: Final = 20


@dataclass(slots=True, eq=False)
class Orphan:
    """A living process that became our child.

    ``suspects`` are the runs it may belong to, as of when it was met, with what is known of those
    until it is judged; ``key`` is the one it does belong to, None while nobody knows.
    ``is_marked``: it shows the marks of a run of ours, whichever that is. ``is_watched``: somebody
    will tell when it ends.
    """

    pid: int
    suspects: Suspects = field(default_factory=dict)
    start_ticks: int | None = None
    key: AttemptKey | None = None
    is_judged: bool = False
    is_marked: bool = False
    is_watched: bool = False


class Hunt(NamedTuple):
    """What a hunt has found: processes that nobody waits for yet, and whether some had ended.

    ``has_doubts``: there is, or was, what may be of the run or of another, and is not known yet.
    """

    living: list[Process]
    has_ended: bool
    has_doubts: bool = False


class Orphans:
    """Finds our orphans, reaps those that have ended, and knows whose the others are.

    ``children`` returns the table of jobs. It is made before the first of these is started: what
    child there is then, and what that brings forth, is somebody else's.
    """

    def __init__(self, children: Callable[[], Iterable[Child]]) -> None:
        self._children = children
        self._lock = threading.Lock()
        self._next_token = 0
        self._starts: dict[int, Start] = {}
        self._undecided: dict[int, set[int]] = {}
        self._living: dict[int, Orphan] = {}
        # What has ended since the last look that can have met all that it left.
        self._gone: list[Orphan] = []
        # What an usher has started is ours once that has ended, and in the table a little later.
        self._ushered: list[Callable[[], set[int]]] = []
        self._lineage = Lineage()
        # How many the last look has met that had ended already.
        self._late = 0
        self._has_met = False
        # Runs of which nothing was to be left, as long as something may yet be of them.
        self._done_with: set[AttemptKey] = set()
        self._has_strangers = _has_living_child()

    def usher_begins(self, pids: Callable[[], set[int]]) -> None:
        """Note that ``pids`` returns what an usher has started, which are no orphans."""
        with self._lock:
            self._ushered.append(pids)

    def usher_is_over(self, pids: Callable[[], set[int]]) -> None:
        """Note that all it has started is in the table."""
        with self._lock:
            self._ushered.remove(pids)

    def start_begins(self, key: AttemptKey) -> int:
        """Note that a process is about to be started; returns what ``start_is_over`` wants."""
        with self._lock:
            self._next_token += 1
            self._starts[self._next_token] = Start(key)
            return self._next_token

    def start_is_over(self, token: int, child: Child | None = None) -> bool:
        """Note that a started process is in the table, or that there is none.

        Returns whether there should be a look now, because some child waits for a verdict.
        """
        with self._lock:
            if (start := self._starts.pop(token, None)) is not None:
                start.child, start.is_over = child, True
            return bool(self._undecided)

    @property
    def are_there(self) -> bool:
        """Whether any was living at the last look, or had only just ended and may have left one."""
        return bool(self._living or self._gone)

    @property
    def want_another_look(self) -> bool:
        """Whether the last look has met any, so that it may have missed what these have left.

        Until one has met none, too, what had ended is suspected to have left what is met next.
        """
        return self._has_met or bool(self._gone)

    @property
    def come_fast(self) -> bool:
        """Whether so many had ended before the last look met them that the next should be soon."""
        return self._late >= _MANY

    def look(self, snapshot: Snapshot | None = None) -> list[Orphan]:
        """Reap all orphans that have ended, and return those that live and nobody watches.

        ``snapshot`` is needed where ``procfile.tells_children`` says no. Raises OSError where no
        descriptor is left to look with.

        What was met before stays until it has ended, whether it is seen now or not: a snapshot may
        be older than it, and a list may lack some where others are reaped meanwhile (proc(5)).
        """
        with self._lock:
            if snapshot is None:
                pids = procfile.list_children_of_thread(os.getpid(), os.getpid()) or []
            else:
                pids = _children_in(snapshot)
            table = list(self._children())
            own = self._jobs_in(table)
            pids = [pid for pid in (*self._living, *pids) if pid not in own]
            if snapshot is not None:
                pids = self._decide(pids)
            living = {pid: self._living.get(pid) for pid in pids}
            met = [pid for pid, orphan in living.items() if orphan is None]
            suspects: Suspects = self._suspects(table) if met else {}
            late = self._meet_ended(met, suspects, table)
            before = self._living
            self._living = {
                pid: orphan or self._meet(pid, suspects)
                for pid, orphan in living.items()
                if pid not in late and (orphan is None or orphan.is_watched or _still_lives(pid))
            }
            for pid in late:
                _still_lives(pid)  # reaped once nothing can keep us from noting it
            self._late, self._has_met = len(late), bool(met)
            if snapshot is None or not procfile.tells_children():  # a picture may be older
                self._gone.clear()
            self._gone += (before[pid] for pid in before.keys() - self._living.keys())
            self._gone += late.values()  # and what each of these has left is not met yet
            roots = self._roots(table) if snapshot is not None else {}
            unwatched = [orphan for orphan in self._living.values() if not orphan.is_watched]
        if snapshot is not None:  # without the lock, which every start waits for
            self._lineage.note(snapshot, roots)
        return unwatched

    def _meet(self, pid: int, suspects: Suspects) -> Orphan:
        """Return what is known of an orphan that was not seen before."""
        ticks, key = self._lineage.origin_of(pid) or (None, None)
        return Orphan(pid, suspects, ticks, key)

    def _meet_ended(
        self, pids: list[int], suspects: Suspects, table: list[Child]
    ) -> dict[int, Orphan]:
        """Return those that have ended, with what they still show of whose they were."""
        ended = [pid for pid in pids if not _still_lives(pid, os.WNOWAIT)]
        # Once a look: every start waits for it, and there may be thousands of both.
        identities = {child.tag.rpartition("-")[0] for child in table} if ended else set()
        keys = {pid: self._origin_of(pid, identities) for pid in ended}
        return {pid: Orphan(pid, {} if key else suspects, key=key) for pid, key in keys.items()}

    def _origin_of(self, pid: int, identities: set[str]) -> AttemptKey | None:
        """Return which attempt of these ledgers something is of that has ended and is not reaped.

        That its parents tell, or its brand; not so a brand that may be another start's, since what
        would tell that is gone. None: it does not show.
        """
        if (origin := self._lineage.origin_of(pid)) is not None:
            return origin[1]
        if not BRANDING.is_sure or (brand := read_brand(pid)) is None:
            return None
        for identity in identities:
            if (branded := tag_of_brand(brand, identity)) is not None:
                return AttemptKey(int(branded[0].rpartition("-")[2]), branded[1])
        return None

    def _roots(self, table: list[Child]) -> dict[int, Origin]:
        """Return the processes of which it is known whose they are, and with them their trees."""
        leaders = [(child.pid, child.start_ticks, child.key) for child in table]
        orphans = [(orphan.pid, orphan.start_ticks, orphan.key) for orphan in self._living.values()]
        return {
            pid: (ticks, key)
            for pid, ticks, key in leaders + orphans
            if ticks is not None and key is not None
        }

    def _decide(self, pids: list[int]) -> list[int]:
        """Return those of our children that are certainly no jobs, of those not in the table.

        A start that was over before the lock was taken has its child in the table, and one that
        began after the snapshot has none in it.
        """
        self._undecided = {
            pid: self._undecided.get(pid, set(self._starts)) & self._starts.keys()
            for pid in pids
            if pid not in self._living
        }
        decided = [pid for pid, starts in self._undecided.items() if not starts]
        for pid in decided:
            del self._undecided[pid]
        return [pid for pid in pids if pid not in self._undecided]

    def _jobs_in(self, table: list[Child]) -> set[int]:
        """Return the children that were started; called after these have been listed."""
        own = {child.pid for child in table if child.is_own} | ERRANDS.pids()
        return own.union(*(pids() for pids in self._ushered))

    def _suspects(self, table: list[Child]) -> Suspects:
        """Return the runs that an orphan which is met now may belong to."""
        found: Suspects = {}
        # Any of these may have brought forth the new one.
        for orphan in (*self._living.values(), *self._gone):
            if orphan.key is not None:
                found[orphan.key] = None
            else:
                found.update(orphan.suspects)
        going_on: Suspects = {start.key: start for start in self._starts.values()}
        going_on.update((child.key, child) for child in table if not child.is_adopted)
        return joined(found, going_on)

    def has_ended(self, pid: int) -> None:
        """Note that a watched orphan has ended; the next look reaps it."""
        with self._lock:
            if (orphan := self._living.get(pid)) is not None:
                orphan.is_watched = False

    def may_have(self, key: AttemptKey) -> bool:
        """Return whether a living orphan belongs to a run, or may do so."""
        with self._lock:
            return any(
                orphan.key == key or (orphan.key is None and key in orphan.suspects)
                for orphan in self._living.values()
            )

    def of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of the orphans that belong to a child's run, by pid.

        Raises OSError where no descriptor is left to look with.
        """
        with self._lock:
            living = list(self._living.values())
        doubtful = [orphan for orphan in living if _may_be_of(orphan, child)]
        table = {each.key: each for each in self._children()} if doubtful else {}
        shown = read_all_marks([orphan.pid for orphan in doubtful])
        for orphan in doubtful:
            self._judge(orphan, shown[orphan.pid], child, table)
        return {
            orphan.pid: orphan.start_ticks
            for orphan in living
            if orphan.start_ticks is not None and _is_key_of(orphan.key, child)
        }

    def strays_of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of what may be of a child's run and was not ended with it, by pid.

        As of the last look for what is of that run.
        """
        with self._lock:
            living = list(self._living.values())
        return {
            orphan.pid: orphan.start_ticks
            for orphan in living
            if orphan.start_ticks is not None and not orphan.is_marked and _may_be_of(orphan, child)
        }

    def is_done_with(self, key: AttemptKey) -> None:
        """Note that an attempt is over, and that nothing of it was to be left."""
        with self._lock:
            there = [*self._living.values(), *self._gone]
            # As far as what is there hands that on.
            keys = {orphan.key for orphan in there}
            unclear = [orphan for orphan in there if orphan.key is None]
            self._done_with = {
                each
                for each in (*self._done_with, key)
                if each in keys or any(each in orphan.suspects for orphan in unclear)
            }

    def hunt(self, child: Child, known: Mapping[int, int], *, kill: bool) -> Hunt:
        """Find what of a run is our child just now, by its brand, and reap what of it has ended.

        A process that forks and ends, again and again, is gone before anybody has learnt more
        of it. But the end of each hands the next one to us and stays to be reaped, so where
        nothing of a run is found, nothing is left of it. With ``kill`` what lives gets SIGKILL at
        once. ``known`` are the start ticks of those that others wait for, by pid.

        What has no brand at all is of the run if it can be of no other. Else it is let be, but its
        end tells as well that there may be a next one.
        """
        with self._lock:
            branded, bare = self._list_for(child)
            if BRANDING.is_sure and not bare:
                its = {pid: Orphan(pid, key=child.key) for pid in branded}
                return self._catch(branded, its, known, kill=kill)
            since = {pid: proctree.start_ticks(pid) for pid in (*branded, *bare)}
        # The brand may be another start's, and then the environment tells. Reading that can hang,
        # and every start and end waits for the lock.
        shown = read_all_marks(since)
        with self._lock:
            there = [pid for pid, ticks in since.items() if proctree.start_ticks(pid) == ticks]
            mine = [pid for pid in there if child.is_named_by(shown[pid])]
            unmarked = [
                bare[pid]
                for pid in there
                if pid in bare and not shown[pid].are_of_ledger_of(child.tag)
            ]
            caught, others = self._divided(unmarked, child)
            its = {pid: Orphan(pid, key=child.key) for pid in mine}
            found = self._catch([*mine, *caught], bare | its, known, kill=kill)
            # What may be of another run and has ended, or was not told of yet, may have left more.
            doubts = self._catch(
                [pid for pid in others if _has_ended(pid)], bare, known, kill=False
            )
            are_known = all(pid in self._living and self._living[pid].is_judged for pid in others)
            # What somebody else has reaped meanwhile has ended, too.
            gone = since.keys() - there
            _, foreign = self._divided([bare[pid] for pid in gone if pid in bare], child)
            has_ended = found.has_ended or len(gone) > len(foreign)
        return Hunt(
            found.living, has_ended, has_doubts=doubts.has_ended or bool(foreign) or not are_known
        )

    def _divided(self, unmarked: list[Orphan], child: Child) -> tuple[list[int], list[int]]:
        """Return those that are of a child's run, and those that may be of others."""
        table = {each.key: each for each in self._children()} if unmarked else {}
        its: list[int] = []
        others: list[int] = []
        for orphan in unmarked:
            is_its = _is_key_of(orphan.key, child) or self._is_its_or_nobodys(orphan, child, table)
            (its if is_its else others).append(orphan.pid)
        return its, others

    def _list_for(self, child: Child) -> tuple[list[int], dict[int, Orphan]]:
        """Return what is our child, but no job: with the brand of a child's run, and with none.

        Of what has none, only that which may be of the run.
        """
        pids = procfile.list_children_of_thread(os.getpid(), os.getpid()) or []
        table = list(self._children())
        own = self._jobs_in(table)
        branded: list[int] = []
        bare: dict[int, Orphan] = {}
        suspects: Suspects | None = None
        for pid in pids:
            if pid in own:
                continue
            if (brand := read_brand(pid)) is not None:
                if child.is_named_by(Marks(brand=brand)):
                    branded.append(pid)
                continue
            if (orphan := self._living.get(pid)) is None:
                if suspects is None:
                    suspects = self._suspects(table)
                orphan = Orphan(pid, suspects)
            if _is_key_of(orphan.key, child) or _may_be_of(orphan, child):
                bare[pid] = orphan
        return branded, bare

    def _catch(
        self,
        pids: Iterable[int],
        orphans: Mapping[int, Orphan],
        known: Mapping[int, int],
        *,
        kill: bool,
    ) -> Hunt:
        """Kill, if so wanted, what others do not wait for yet, and reap what has ended.

        ``orphans`` are what is known of some of them, which is handed on to what they have left.
        """
        living: list[Process] = []
        has_ended = False
        for pid in pids:
            if kill and pid not in known:
                with suppress(PermissionError):
                    os.kill(pid, signal.SIGKILL)  # ours until it is reaped here
            process = proctree.read_process(pid)
            if process is None or process.is_zombie:
                has_ended = True
                met = self._living.pop(pid, None)
                self._gone.append(met or orphans.get(pid) or Orphan(pid))
                _still_lives(pid)
            elif known.get(pid) != process.start_ticks:
                living.append(process)
        return Hunt(living, has_ended)

    def _judge(
        self, orphan: Orphan, marks: Marks, child: Child, table: Mapping[AttemptKey, Child]
    ) -> None:
        """Find out whose an orphan is, or at least whether it is a child's.

        That is asked again even where it was not known before: when the orphan was met, the
        child may have been just about to be entered in the table. ``table`` has those by now.
        """
        process = proctree.read_process(orphan.pid)
        if process is None:
            return
        orphan.start_ticks = process.start_ticks
        outputs = frozenset[str]() if orphan.is_marked else outputs_of(process.pid)
        if child.has_marked(process, marks) or is_among(outputs, child.output):
            orphan.key = child.key
        elif not orphan.is_judged:
            orphan.key = find_owner(process, marks, outputs, orphan.suspects)
            orphan.is_marked = marks.are_of_ledger_of(child.tag)
        orphan.is_judged = True
        orphan.suspects = able(orphan.suspects, process, table)
        if _may_be_of(orphan, child) and self._is_its_or_nobodys(orphan, child, table):
            orphan.key = child.key

    def _is_its_or_nobodys(
        self, orphan: Orphan, child: Child, table: Mapping[AttemptKey, Child]
    ) -> bool:
        """Return whether what shows no mark is a child's, or is to be left by no run it may be of.

        A run that is being ended more gently than the child still has a say.
        """
        if orphan.is_marked or self._has_strangers or os.getpid() == 1:
            return False
        others = {key for key in orphan.suspects if not _is_key_of(key, child)}
        if child.leaves_nothing:
            others -= self._done_with
            others = {k for k in others if k not in table or table[k].stop is not signal.SIGKILL}
        return not others


def list_children() -> list[int]:
    """Return the pids of our children, zombies included."""
    found = procfile.list_children_of(os.getpid())
    return _children_in(Snapshot.take()) if found is None else found


def _children_in(snapshot: Snapshot) -> list[int]:
    me = os.getpid()
    return [process.pid for process in snapshot.processes.values() if process.parent == me]


def _has_living_child() -> bool:
    """Return whether we have a child that is no errand and has not ended."""
    pids = list_children()
    ours = ERRANDS.pids()
    found = (proctree.read_process(pid) for pid in pids if pid not in ours)
    return any(process is not None and not process.is_zombie for process in found)


def _is_key_of(key: AttemptKey | None, child: Child) -> bool:
    """Return whether a key is that of a child, or of an earlier attempt to be ended with it."""
    if key is None or not child.ends_earlier:
        return key == child.key
    return key.run_id == child.key.run_id and key.number <= child.key.number


def _may_be_of(orphan: Orphan, child: Child) -> bool:
    """Return whether nobody knows whose an orphan is, and it may be of a child's run."""
    if orphan.key is not None:
        return False
    if SOME_EARLIER in orphan.suspects and (child.ends_earlier or not child.pid):
        return True  # one of those may be an attempt of its run
    if not child.ends_earlier:
        return child.key in orphan.suspects
    return any(_is_key_of(key, child) for key in orphan.suspects)


def _has_ended(pid: int) -> bool:
    process = proctree.read_process(pid)
    return process is None or process.is_zombie


def _still_lives(pid: int, options: int = 0) -> bool:
    """Return whether a child of ours has not ended; if it has it is reaped, but for WNOWAIT."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | options) is None
    except ChildProcessError:
        return False
