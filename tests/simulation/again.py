"""Whether readings of the wall clock that come again make a job due again (P2).

An oracle beside the engine's cursor, which knows every step of the clock. ``Again`` keeps at which
``skew`` of the clock (how far it has been set in all) each occurrence of a job was run first. It
may be run a second time only where the clock is more than three hours behind what it was then:
that is a new time. A clock that was set back so far and is right again comes back to the old one.

It is not asked for where no daemon can know: the clock was set on by hours, or the machine
started anew, while none was there or none could write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from crond_py.crontab.model import AfterTrigger, AtTrigger, Job, StartupTrigger
from crond_py.model import Cause, Run, State
from tests.simulation.jobs import is_elapsed
from tests.simulation.world import World

NEW_TIME = timedelta(hours=3)


@dataclass(slots=True)
class Reached:
    """How far a job was accounted for when the clock stood at a skew.

    ``is_known``: whether a daemon can know that the clock is back there, once it is.
    """

    since: datetime
    until: datetime
    skew: timedelta
    is_known: bool = True


@dataclass(slots=True)
class Again:
    """What has been run of each job, and how the clock stood then.

    ``unknown`` are jobs of which no look has told how far they were when the clock was set; one
    that went by elapsed time then may go by the clock since.
    ``far`` is how far the clock has been set in steps of more than three hours alone: smaller ones
    may come to as much together, and nobody is asked to add them up.
    """

    world: World
    runs: dict[tuple[str, datetime], list[tuple[timedelta, timedelta]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    past: dict[str, list[Reached]] = field(default_factory=lambda: defaultdict(list))
    present: dict[str, Reached] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    far: timedelta = timedelta(0)
    boots: int = 1
    is_unseen: bool = False

    def __post_init__(self) -> None:
        self.world.on_step.append(self._stepped)
        self.world.on_begin.append(self._begins)

    def _stepped(self, step: timedelta, was_seen: bool) -> None:
        # Of a job with a time to come back to, a daemon keeps how the clock stood.
        told = {name for name, past in self.past.items() if any(each.is_known for each in past)}
        if abs(step) > NEW_TIME:
            for name, reached in self.present.items():
                self.past[name].append(replace(reached))
            self.unknown |= self.world.in_force.keys() - self.present.keys()
            self.far += step
        if not was_seen:
            self.is_unseen = True
        if not was_seen and step > NEW_TIME:
            before = self.world.clock.skew - step
            self._forget(before - NEW_TIME, told)

    def _begins(self) -> None:
        if self.world.boots != self.boots:
            if self.is_unseen:
                self._forget(timedelta.min)
            # Where its readings do not count, a job does not note each boot's clock.
            for name, job in self.world.in_force.items():
                if not has_past_times(job):
                    self._doubt(name)
        self.boots, self.is_unseen = self.world.boots, False

    def _forget(self, since: timedelta, told: Collection[str] = ()) -> None:
        """Forget what was run when the clock was set so far or farther; jobs ``told`` know more."""
        for known in self.runs.values():
            known[:] = [each for each in known if each[0] < since]
        for name in self.past.keys() - told:
            self._doubt(name, since)

    def _doubt(self, name: str, since: timedelta = timedelta.min) -> None:
        """Note that no daemon can know of what a job had at such times."""
        for reached in self.past[name]:
            reached.is_known = reached.is_known and reached.skew < since

    def claimed(self, job: Job, run: Run) -> Iterator[tuple[str, str]]:
        """Enter a run; say what is wrong with it."""
        if not _is_at_readings(job) or run.cause not in {Cause.SCHEDULE, Cause.CATCH_UP}:
            return
        if run.state is State.DONE:
            return
        skew = self.world.clock.skew
        known = self.runs[job.name, run.due]
        for before, far in known:
            if isinstance(job.trigger, AtTrigger):
                yield "P2", f"{run.due} comes once, and is run again"
            elif max(before - skew, far - self.far) <= NEW_TIME:
                text = f"{run.due} was run when the clock was set by {before} in all"
                yield "P2", f"{text}, and is run again when it is set by {skew}"
        known.append((skew, self.far))

    # --- for the accounts -----------------------------------------------------------------

    def reaches(self, name: str, since: datetime, until: datetime) -> None:
        """Note how far a job is accounted for as the clock stands."""
        self.present[name] = Reached(since, until, self.world.clock.skew)

    def passed_over(self, name: str, was_away_at: timedelta | None = None) -> Reached | None:
        """Return which stretch of a job needs no account, for it had one before the clock left.

        Where it is not known to a daemon, it may be given one all the same. ``was_away_at``: only
        what the clock was not back in when it was set by so much.
        """
        skew = self.world.clock.skew
        back = [each for each in self.past[name] if each.skew - skew <= NEW_TIME]
        if was_away_at is not None:
            back = [each for each in back if each.skew - was_away_at > NEW_TIME]
        return max(back, key=lambda each: each.until, default=None)


def has_past_times(job: Job) -> bool:
    """Tell whether a job's cursor knows the times that a clock has left; a one-off comes once."""
    return not is_elapsed(job) and not isinstance(job.trigger, AtTrigger)


def _is_at_readings(job: Job) -> bool:
    return not is_elapsed(job) and not isinstance(job.trigger, StartupTrigger | AfterTrigger)
