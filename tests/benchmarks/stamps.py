"""What the jobs wrote: who started when, and so how late the starts of a burst were."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median

from tests.benchmarks.moments import pause, wall_s

LOOK_EVERY_S = 0.1
EARLY_S = 0.05
"""A start this much before its instant still belongs to it: clocks are read one after another."""


def read_stamps(file: Path) -> dict[str, list[float]]:
    """Return the instants of the starts, in seconds, by label."""
    found: dict[str, list[float]] = defaultdict(list)
    if not file.exists():
        return found
    for line in file.read_text("utf-8").splitlines():
        name, at_ns = line.split()
        found[name.partition(".")[0]].append(int(at_ns) / 1e9)
    return found


def wait_for_stamps(file: Path, wanted: Mapping[str, int], since: float, within_s: float) -> None:
    """Wait until so many of each label have come since an instant, so long after it at most."""
    while wall_s() < since + within_s:
        stamps = read_stamps(file)
        new = {label: sum(at > since - EARLY_S for at in stamps[label]) for label in wanted}
        if all(new[label] >= number for label, number in wanted.items()):
            return
        pause(LOOK_EVERY_S)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all is not above."""
    ordered = sorted(values)
    return ordered[max(ceil(share * len(ordered)) - 1, 0)]


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the starts of bursts of one size were, in seconds after their instants."""

    bursts: tuple[tuple[float, ...], ...]
    """Of each instant, in their order, the lateness of its starts, sorted."""
    size: int

    @classmethod
    def of(cls, starts: Sequence[float], dues: Sequence[float], size: int) -> Lateness:
        """Give each start to the newest instant that it is not before."""
        late: dict[int, list[float]] = defaultdict(list)
        for at in starts:
            index = bisect_right(dues, at + EARLY_S) - 1
            if index >= 0:
                late[index].append(at - dues[index])
        return cls(tuple(tuple(sorted(late[n])) for n in range(len(dues))), size)

    @property
    def all(self) -> list[float]:
        """All starts' lateness."""
        return [value for burst in self.bursts for value in burst]

    @property
    def whole(self) -> list[tuple[float, ...]]:
        """The bursts of which everything started."""
        return [burst for burst in self.bursts if len(burst) == self.size]

    def rates(self) -> list[float | None]:
        """Return for each burst the starts a second from its instant to its last start."""
        return [self.size / b[-1] if len(b) == self.size else None for b in self.bursts]

    def overran(self, dues: Sequence[float], others: Sequence[float]) -> int:
        """Return how many bursts went on when the next of ``others``, in order, was due."""
        count = 0
        for due, burst in zip(dues, self.bursts, strict=True):
            index = bisect_right(others, due)
            if index < len(others) and (not burst or due + burst[-1] > others[index]):
                count += 1
        return count

    def figures(self) -> dict[str, float | int | None]:
        """Return what is kept of it: seconds, and starts a second."""
        if not self.all:
            return {"starts": 0, "wanted": self.size * len(self.bursts)}
        rates = [rate for rate in self.rates() if rate is not None]
        return {
            "starts": len(self.all),
            "wanted": self.size * len(self.bursts),
            "p50_s": quantile(self.all, 0.5),
            "p99_s": quantile(self.all, 0.99),
            "most_s": max(self.all),
            "first_s": median(burst[0] for burst in self.bursts if burst),
            "last_s": median(b[-1] for b in self.whole) if self.whole else None,
            "per_s": median(rates) if rates else None,
        }
