"""Fair shares of the slots: what each group has used of a pool while it stood in line for more.

Runs belong to groups. What is shared is the time of a pool's slots, by weight: a group of weight 3
gets three times as much as one of weight 1, however many slots there are and however long the
runs take. Each start counts as ``START_S`` besides, so that very short runs are shared by number.

Use is counted from when a group first stands in line, in that pool, until nobody does any more:
what it had when nobody else wanted it, or elsewhere, it does not owe. Nor has it saved anything up
when it comes to wait: it is then level with the one that has used least of those that wait already
and may go, or a little behind that where the others have used more (``lines.MOST_BEHIND_S``). How
long ever new groups may keep out one that has used more is bounded, too (``lines.MOST_PASSED``).

Not responsible for who is next (``lines``), nor for how many slots there are (``pools``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from crond_py.crontab.model import Group, Job
from crond_py.dataclass import dataclass

START_S = 0.01
"""What a start counts as, in seconds of a slot."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crond_py.engine.lines import Line, Place


@dataclass(slots=True, eq=False)
class Share:
    """A group, and how many slots of all pools it has in use. ``stakes``: its part in each pool.

    ``starts`` counts the slots that it has had.
    """

    name: str
    group: Group
    in_use: int = 0
    starts: int = 0
    stakes: dict[Stake, None] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether the group may have no more slots."""
        ceiling = self.group.max_running
        return ceiling is not None and self.in_use >= ceiling


@dataclass(slots=True, eq=False)
class Stake:
    """A group in the pool of that name: its slots in use there, and its places in line.

    ``let_go`` is called once it has neither. ``last_start`` is the number of the group's last slot
    that was one of this pool; 0: none was.
    """

    share: Share
    pool: str
    let_go: Callable[[Stake], None]
    in_use: int = 0
    last_start: int = 0
    places: dict[Line, Place] = field(default_factory=dict)

    def take(self, now_ns: int) -> None:
        """Note that a run of the group has got a slot."""
        self.settle(now_ns)
        for line, place in self.places.items():
            start_s = START_S / self.share.group.weight
            place.used_s += start_s
            line.note_use(place, start_s)
            line.note_start(now_ns)
        self.in_use += 1
        self.share.in_use += 1
        self.share.starts += 1
        self.last_start = self.share.starts
        for stake in self.share.stakes if self.share.is_full else (self,):
            stake.look_again(now_ns)

    def give_back(self, now_ns: int) -> None:
        """Note that a run of the group has let go of its slot; others of it may go, anywhere."""
        was_full = self.share.is_full
        self.settle(now_ns)
        self.in_use -= 1
        self.share.in_use -= 1
        for stake in self.share.stakes if was_full else (self,):
            stake.look_again(now_ns)
        self._go_if_idle()

    def leave(self, line: Line) -> None:
        """Give up the place in a line."""
        del self.places[line]
        self._go_if_idle()

    def settle(self, now_ns: int) -> None:
        """Bring what is counted as used up to now, before it changes how fast that grows."""
        for line, place in self.places.items():
            line.note_use(place, place.settle(now_ns))

    def look_again(self, now_ns: int) -> None:
        """Have the places in line found anew, after what they go by has changed."""
        for line, place in self.places.items():
            line.enter(place, now_ns)

    def _go_if_idle(self) -> None:
        if not self.in_use and not self.places:
            self.let_go(self)


class Shares:
    """The groups of all pools. A job without a group is one of its own, of weight 1.

    ``reading`` is the monotonic clock, in nanoseconds. Only groups that have a stake in some pool
    are kept.
    """

    def __init__(self, reading: Callable[[], int]) -> None:
        self.reading = reading
        self._groups: Mapping[str, Group] = {}
        self._shares: dict[str, Share] = {}

    def set_groups(self, groups: Mapping[str, Group]) -> None:
        """Take the groups of a crontab; what they have in use stays counted."""
        self._groups = groups
        now_ns = self.reading()
        for name, share in self._shares.items():
            for stake in share.stakes:
                stake.settle(now_ns)
            share.group = self._group(name)
            for stake in share.stakes:
                stake.look_again(now_ns)

    def is_full(self, job: Job) -> bool:
        """Whether the group of a job may have no more slots."""
        share = self._shares.get(_name(job))
        return share is not None and share.is_full

    def ceiling(self, job: Job) -> int | None:
        """Return how many slots the group of a job may have; None: any number."""
        return self._group(_name(job)).max_running

    def weight(self, group: str) -> float:
        """Return the weight of a group of a crontab; 1 for one that is not there."""
        return self._groups[group].weight if group in self._groups else 1.0

    def of(self, job: Job) -> Share:
        """Return the share that a job's runs count to."""
        name = _name(job)
        share = self._shares.get(name)
        if share is None:
            share = self._shares[name] = Share(name, self._group(name))
        return share

    def let_go(self, stake: Stake) -> None:
        """Forget a stake, and a group that has no other."""
        share = stake.share
        del share.stakes[stake]
        if not share.stakes:
            del self._shares[share.name]

    def _group(self, name: str) -> Group:
        kind, _, given = name.partition(" ")
        group = self._groups.get(given) if kind == "group" else None
        return group or Group(given)


def _name(job: Job) -> str:
    """Return the name of a job's group; a group and a job may have one name and are still two."""
    return f"group {job.group}" if job.group is not None else f"job {job.name}"
