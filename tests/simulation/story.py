"""The story of a simulated history: what happened, when, in which life of the daemon.

Everything that takes part tells the story: the world (crashes, clock steps, requests), the
observer of processes (starts, ends, signals) and the ledger (what was entered). A line costs
next to nothing until it is read. When a promise is broken, ``Broken`` names it and whom it
concerns, and ``Story.excerpt`` shows what matters: the lines of that job or run, and the frame
(lines of nobody in particular: the daemon's lives, the clock, the requests to all).

What is not here: what is a broken promise (``checks``, ``accounts``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from crond_py.ports import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HEAD_LINES = 6
TAIL_LINES = 70
"""How much of the beginning and of the end an excerpt shows."""


class Broken(AssertionError):  # noqa: N818 - it names what a promise is
    """A promise has been broken, for a job or a run (None: for the daemon as a whole).

    ``others`` are runs that have to do with it; their lines belong into its story, too.
    """

    def __init__(
        self,
        promise: str,
        text: str,
        *,
        job: str | None = None,
        run: int | None = None,
        others: Iterable[int] = (),
    ) -> None:
        super().__init__(f"{promise}: {text}")
        self.promise = promise
        self.job = job
        self.run = run
        self.others = frozenset(others)


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened. ``job`` None: it concerns everybody. ``values`` fill ``text``."""

    time_ns: int
    life: int
    job: str | None
    run: int | None
    text: str
    values: tuple[object, ...]

    def __str__(self) -> str:
        at = _EPOCH + timedelta(microseconds=self.time_ns // 1000)
        who = f"{self.job or '':<6}{f'run {self.run}' if self.run else '':<8}"
        what = self.text.format(*map(_shown, self.values))
        return f"{at:%d %H:%M:%S}.{at.microsecond // 1000:03} life {self.life:<3}{who}{what}"

    def concerns(self, broken: Broken) -> bool:
        """Tell whether the line belongs into the story of what was broken."""
        if self.job is None or self.run in broken.others:
            return True
        return self.job == broken.job and self.run in {None, broken.run or self.run}


@dataclass(slots=True)
class Story:
    """The lines, oldest first. ``life`` counts the starts of the daemon."""

    clock: Clock
    life: int = 0
    lines: list[Line] = field(default_factory=list)

    def tell(
        self, text: str, *values: object, job: str | None = None, run: int | None = None
    ) -> None:
        """Add a line; ``text`` is a format, filled in only when the line is shown."""
        self.lines.append(Line(self.clock.time_ns(), self.life, job, run, text, values))

    def whole(self) -> str:
        """Return every line."""
        return "\n".join(map(str, self.lines))

    def excerpt(self, broken: Broken) -> str:
        """Return the lines that concern what was broken, and the frame; long ones are cut."""
        chosen = [line for line in self.lines if line.concerns(broken)]
        return "\n".join(_cut([str(line) for line in chosen]))


def _cut(lines: list[str]) -> Iterable[str]:
    beyond = len(lines) - HEAD_LINES - TAIL_LINES
    if beyond <= 1:
        return lines
    return [*lines[:HEAD_LINES], f"... {beyond} lines left out ...", *lines[-TAIL_LINES:]]


def _shown(value: object) -> object:
    """Return a value as the story shows it: instants as times of day, spans in seconds."""
    match value:
        case datetime():
            text = f"{value:%d %H:%M:%S.%f}" if value.microsecond else f"{value:%d %H:%M:%S}"
            return text if value.year == 2026 else f"{value:%Y-%m-}{text}"
        case timedelta():
            return f"{value.total_seconds():g}s"
        case _:
            return value
