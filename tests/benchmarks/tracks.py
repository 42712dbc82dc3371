"""Starts on time: what is due in turn with the machine's own limit, in one run.

A cycle of seconds is divided between tracks. A track is a number of jobs that are due at one
instant of each cycle; or the same processes started by a program that does nothing else, beside
which the daemon's figures are put. A machine that is slower for a while is so for neighbours in a
cycle too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from statistics import median

from tests.benchmarks.jobs import Job, Seconds, Way, due
from tests.benchmarks.moments import MINUTE_S, SECOND_NS, wait_until, wall_s
from tests.benchmarks.peer import PROGRAMS, Peer, Started, Workplace
from tests.benchmarks.processes import usage
from tests.benchmarks.stamps import EARLY_S, Lateness, read_stamps, wait_for_stamps

SETTLE_S = 30.0
UP_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Track:
    """Starts of one kind: of the daemon's jobs, or where ``program`` is given of that."""

    label: str
    count: int
    seconds: tuple[float, ...]
    """When in a cycle; the daemon's in whole seconds."""
    way: Way = Way.SHELL
    user: str | None = None
    program: tuple[str, ...] | None = None
    beside: tuple[str, ...] = ()
    """The labels of the tracks of programs that the daemon's figures are divided by."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """Tracks and the length of their cycle in seconds, a divisor of a minute."""

    seconds: int
    tracks: tuple[Track, ...]
    rest_s: float
    """How long after the last instant its starts are waited for at most."""
    shift_s: int = 0
    """How much later in the minute all of it is."""

    @property
    def first_s(self) -> float:
        """When in the cycle the first track begins."""
        return min(min(track.seconds) for track in self.tracks)

    @property
    def end_s(self) -> float:
        """When in the cycle, or after it, nothing more is waited for."""
        return max(max(track.seconds) for track in self.tracks) + self.rest_s

    def jobs(self, tick: Path, file: Path) -> list[Job]:
        """Return the daemon's jobs."""
        jobs: list[Job] = []
        for track in self.tracks:
            if track.program is None:
                when = Seconds(self._of_minute(track))
                jobs += due(
                    track.count, when, tick, file, label=track.label, way=track.way, user=track.user
                )
        return jobs

    def _of_minute(self, track: Track) -> tuple[int, ...]:
        begins = range(self.shift_s, self.shift_s + MINUTE_S, self.seconds)
        return tuple(
            sorted(int(begin + second) % MINUTE_S for begin in begins for second in track.seconds)
        )

    def begin(self, first_after: float) -> float:
        """Return when the next one begins whose first track is not before an instant."""
        earliest = first_after - self.first_s - self.shift_s
        return ceil(earliest / self.seconds) * self.seconds + self.shift_s

    def soon(self) -> Cycle:
        """Return the cycle shifted so that one begins a few seconds from now.

        Only of use where a minute's seconds need not be left to others.
        """
        first = ceil(wall_s() + UP_WITHIN_S - self.first_s)
        return replace(self, shift_s=first % self.seconds)


def c_program(work: Workplace) -> tuple[str, ...]:
    """Return the command of the limit in C."""
    return (str(work.limit),)


def bare_python() -> tuple[str, ...]:
    """Return the command of the floor in Python."""
    return (sys.executable, "-IS", str(PROGRAMS / "bare.py"))


def measure(
    peer: Peer, cycle: Cycle, rounds: int, work: Workplace
) -> dict[str, dict[str, float | int | None]]:
    """Return the figures of each track, by label.

    Those of a daemon's track have ``of_LABEL`` for each of the tracks that it is put beside: of
    bursts the ratio of the rates, of lone starts the difference of the lateness in seconds. The
    daemon's processor time for each start, ``cpu_s_a_start``, is of all its tracks together.
    """
    directory = work.directory()
    with Started(peer, cycle.jobs(work.tick, directory / "stamps"), directory) as daemon:
        daemon.settle(SETTLE_S, quiet_s=0.4)
        begin = cycle.begin(wall_s() + 0.7)
        end = begin + cycle.seconds * (rounds - 1) + cycle.end_s
        dues = {track.label: _dues(track, begin, cycle.seconds, rounds) for track in cycle.tracks}
        counts = {track.label: track.count for track in cycle.tracks}
        programs = [
            start_program(track, dues[track.label], work, directory / "stamps")
            for track in cycle.tracks
            if track.program is not None
        ]
        before = usage(daemon.pid)
        wanted = {label: len(dues[label]) * counts[label] for label in dues}
        wait_until(max(map(max, dues.values())))
        first = min(map(min, dues.values()))
        wait_for_stamps(daemon.stamps, wanted, first, end - first)
        for program in programs:
            program.wait()
        daemon.check()
        used_s = usage(daemon.pid).cpu_s - before.cpu_s
        stamps = read_stamps(directory / "stamps")
    late = {}
    for track in cycle.tracks:
        over = begin + cycle.seconds * rounds + track.seconds[0] - EARLY_S
        starts = [at for at in stamps[track.label] if at < over]
        late[track.label] = Lateness.of(starts, dues[track.label], track.count)
    figures = {
        track.label: late[track.label].figures() | _beside(track, late) for track in cycle.tracks
    }
    for track in cycle.tracks:
        others = sorted(at for label, ats in dues.items() if label != track.label for at in ats)
        figures[track.label]["overran"] = late[track.label].overran(dues[track.label], others)
    ours = [track.label for track in cycle.tracks if track.program is None]
    count = sum(len(late[label].all) for label in ours)
    for label in ours:
        figures[label]["cpu_s_a_start"] = used_s / count if count else None
    return figures


def _dues(track: Track, begin: float, cycle: int, rounds: int) -> list[float]:
    return [begin + n * cycle + second for n in range(rounds) for second in track.seconds]


def start_program(
    track: Track, dues: Sequence[float], work: Workplace, file: Path
) -> subprocess.Popen[bytes]:
    """Start a track's program with its instants, in seconds."""
    assert track.program is not None
    way = "sh" if track.way is Way.SHELL else "exec"
    instants = [str(round(at * SECOND_NS)) for at in dues]
    return subprocess.Popen(
        [*track.program, way, str(track.count), str(work.tick), str(file), track.label, *instants],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def _beside(track: Track, late: dict[str, Lateness]) -> dict[str, float | int | None]:
    found: dict[str, float | int | None] = {}
    for label in track.beside:
        mine, other = late[track.label], late[label]
        if track.count == 1:
            both = bool(mine.all and other.all)
            found[f"after_{label}_s"] = median(mine.all) - median(other.all) if both else None
        else:
            pairs = zip(mine.rates(), other.rates(), strict=True)
            ratios = [a / b for a, b in pairs if a is not None and b is not None]
            found[f"of_{label}"] = median(ratios) if ratios else None
    return found
