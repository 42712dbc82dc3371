"""Schedules: when a job is due, as pure functions of an instant.

A schedule is a fixed set of due instants, told by ``Schedule``: ``parse_schedule`` makes one of
cron expressions, ``Interval`` and ``OneOff`` are the other kinds. From the text to an instant:

    parse ── expression ── fields ── hashed       text to sets of numbers, or a ScheduleError
                 │
             readings = days x times              which wall-clock readings are meant
                 │
    cron ── timeline ── zones                     at which instants a zone's clocks show them
      └──── changes                               what a clock change did, in words

beside them ``kinds`` (the interface, intervals, one-offs), ``aligned`` (intervals that keep to a
zone's clocks), ``shifted`` with ``spacing`` (a schedule moved by a fixed span, and by how much it
may be), ``duration``, ``system_zone`` and ``instants``. Nothing here reads a clock, keeps a
position or does input and output other than reading zone data.

What is due does not depend on where one asks from, on the host's zone, or on croniter: how far
that library is used, and why no further, is told in ``hashed``. The rule for changes of the
clocks is told in ``timeline``.
"""

from __future__ import annotations

from crond_py.schedule.aligned import Aligned
from crond_py.schedule.cron import CronSchedule
from crond_py.schedule.duration import format_duration, parse_duration
from crond_py.schedule.kinds import Explaining, Interval, OneOff, Schedule
from crond_py.schedule.parse import clear_zone_cache, forget_parsed, parse_schedule
from crond_py.schedule.shifted import Shifted, spread
from crond_py.schedule.spacing import shortest_distance
from crond_py.schedule.system_zone import known_system_timezone, system_timezone

__all__ = [
    "Aligned",
    "CronSchedule",
    "Explaining",
    "Interval",
    "OneOff",
    "Schedule",
    "Shifted",
    "clear_zone_cache",
    "forget_parsed",
    "format_duration",
    "known_system_timezone",
    "parse_duration",
    "parse_schedule",
    "shortest_distance",
    "spread",
    "system_timezone",
]
