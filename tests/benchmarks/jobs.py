"""The jobs that the daemons are given: when they are due, and what they run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from tests.benchmarks.moments import CLOCK

LONG_AHEAD = timedelta(days=60)


class Way(StrEnum):
    """How a command is written down; the others than SHELL are for daemons that know them."""

    SHELL = "shell"
    """A line with shell syntax in it."""
    PLAIN = "plain string"
    """A line that is one simple command."""
    ARRAY = "array"
    """A list of arguments."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """Due in these seconds of each minute."""

    of_minute: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Minutely:
    """Due in each minute."""


@dataclass(frozen=True, slots=True)
class FarAway:
    """Due once a year, in two months."""

    minute_of_day: int


When = Seconds | Minutely | FarAway


@dataclass(frozen=True, slots=True)
class Job:
    """One job: ``argv`` is a list of words that need no quotes."""

    name: str
    when: When
    argv: tuple[str, ...]
    way: Way = Way.SHELL
    user: str | None = None

    @property
    def line(self) -> str:
        """The command as a line for a shell; the semicolon makes it one that needs a shell."""
        return shlex.join(self.argv) + (";" if self.way is Way.SHELL else "")

    @property
    def five_fields(self) -> str:
        """When, as a classic crontab has it."""
        if isinstance(self.when, FarAway):
            day = CLOCK.now() + LONG_AHEAD
            hour, minute = divmod(self.when.minute_of_day, 60)
            return f"{minute} {hour} {min(day.day, 28)} {day.month} *"
        assert isinstance(self.when, Minutely), "five fields have no seconds"
        return "* * * * *"

    @property
    def of_minute(self) -> tuple[int, ...]:
        """The seconds of a minute in which it is due."""
        return self.when.of_minute if isinstance(self.when, Seconds) else (0,)

    @property
    def six_fields(self) -> str:
        """When, with the seconds first."""
        if isinstance(self.when, Seconds):
            return ",".join(map(str, self.of_minute)) + " * * * * *"
        return f"0 {self.five_fields}"


def far_away(count: int, tick: Path, file: Path, way: Way = Way.SHELL) -> list[Job]:
    """Return jobs that are not due while anything is measured."""
    return [
        Job(f"far{n}", FarAway(n % 1440), (str(tick), str(file), f"far.{n}"), way)
        for n in range(count)
    ]


def due(
    count: int,
    when: When,
    tick: Path,
    file: Path,
    *,
    label: str,
    way: Way = Way.SHELL,
    user: str | None = None,
    stay_s: int = 0,
) -> list[Job]:
    """Return jobs that are all due at the same instants."""
    stay = (str(stay_s),) if stay_s else ()
    return [
        Job(f"{label}-{n}", when, (str(tick), str(file), f"{label}.{n}", *stay), way, user)
        for n in range(count)
    ]
