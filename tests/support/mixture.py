"""Jobs of every policy, about fifty starts a second, each of which tells what it does.

For each there is the crontab's text and the rule that the auditor holds it to. What a job does is
in its name: ``late`` ones take longer than their period, ``deaf`` ones heed no SIGTERM.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import cycle, product

from tests.support.auditor import Rule
from tests.support.daemon import PROGRAMS
from tests.support.witness import SECOND

ALL_SECONDS = frozenset(range(60))

Keys = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a job is due, in the crontab's words and in the auditor's."""

    key: str
    value: str
    seconds: frozenset[int] = frozenset()
    period: int = 0
    more: Keys = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Act:
    """What a job does: how long it runs, its exit status, and the keys that go with it."""

    name: str
    seconds: float
    status: int = 0
    manner: str = ""
    keys: Keys = field(default_factory=dict)


EACH_SECOND = Trigger("schedule", "* * * * * *", ALL_SECONDS)
UNEVEN = Trigger(
    "schedule", "0-58/3,1-59/4 * * * * *", frozenset({*range(0, 59, 3), *range(1, 60, 4)})
)
BEAT = Trigger("every", "1s", period=SECOND)
HALF_BEAT = Trigger("every", "500ms", period=SECOND // 2)
AFTER_END = Trigger("every", "700ms", more={"every_mode": "fixed-delay"})

QUICK = Act("quick", 0)
SHORT = Act("short", 0.2)
LATE = Act("late", 1.4)
FAILS = Act("fails", 0.1, 3)
RETRIES = Act("retries", 0.1, 4, keys={"retry": {"attempts": 3, "delay": "300ms", "backoff": 1.5}})
ORPHAN = Act("orphan", 0.1, manner="orphan")
TIDY = Act("tidy", 0.1, manner="orphan", keys={"leftovers": "kill", "kill_after": "300ms"})
TIMED = Act("timed", 30, keys={"timeout": "600ms", "kill_after": "300ms"})
DEAF = Act("deaf", 30, manner="deaf", keys={"timeout": "400ms", "kill_after": "300ms"})
TIMED_RETRIES = Act(
    "timed-retries",
    30,
    keys={"timeout": "300ms", "retry": {"attempts": 2, "delay": "200ms"}},
)

NOWHERE: Keys = {}
NARROW: Keys = {"pool": "narrow"}
NARROW_AND_SOON: Keys = {"pool": "narrow", "start_within": "3s"}

RETRY_DELAYS = {RETRIES.name: 300_000, TIMED_RETRIES.name: 200_000}


@dataclass(frozen=True, slots=True)
class Mixture:
    """A crontab's jobs, and the rule of each."""

    text: str
    rules: tuple[Rule, ...]


def mix(*, is_enabled: bool = True, workers: int = 8) -> Mixture:
    """Return jobs in which each value of each policy meets each of the others.

    Those that are not enabled do nothing new, but are the same jobs and end what they have begun.
    With few ``workers`` some wait for a slot, and those that may overlap get further behind.
    """
    policies = product(
        ("skip", "queue", "allow", "replace"), ("skip", "once", "all"), ("lost", "rerun")
    )
    acts = cycle([QUICK, SHORT, FAILS, LATE, RETRIES, TIMED, TIDY, ORPHAN, DEAF, TIMED_RETRIES])
    triggers = cycle([EACH_SECOND, BEAT, UNEVEN, HALF_BEAT, EACH_SECOND, BEAT, EACH_SECOND])
    places = cycle([NOWHERE, NARROW, NOWHERE, NARROW_AND_SOON])
    made = [
        _job(next(triggers), next(acts), *policy, on_stop=on_stop, place=next(places))
        for policy in policies
        for on_stop in ("wait", "leave", "terminate")
    ]
    made.append(_job(AFTER_END, SHORT, "skip", "once", "lost"))
    made.append(_job(EACH_SECOND, LATE, "allow", "all", "lost", max_running=2))
    switch = "" if is_enabled else "enabled = false\n"
    pool = f"[pools.narrow]\nworkers = {workers}\n\n"
    text = pool + "\n".join(f"{text}keep = {{ runs = 1000000 }}\n{switch}" for text, _ in made)
    return Mixture(text, tuple(rule for _, rule in made))


def _job(
    trigger: Trigger,
    act: Act,
    overlap: str,
    missed: str,
    on_crash: str,
    *,
    max_running: int = 0,
    on_stop: str = "wait",
    place: Keys = NOWHERE,
) -> tuple[str, Rule]:
    value = "".join(character for character in trigger.value if character.isalnum())
    name = "-".join([act.name, overlap, missed, on_crash, trigger.key, value, str(max_running)])
    command = ["sh", str(PROGRAMS / "witness.sh"), str(act.seconds), str(act.status)]
    keys: dict[str, object] = {
        trigger.key: trigger.value,
        "command": [*command, act.manner] if act.manner else command,
        "overlap": overlap,
        "missed": missed,
        "on_crash": on_crash,
        "on_stop": on_stop,
        **trigger.more,
        **act.keys,
        **place,
        **({"max_running": max_running} if max_running else {}),
        **({"queue_limit": 3} if overlap == "queue" else {}),
    }
    lines = [f"{key} = {_toml(item)}" for key, item in keys.items()]
    retry = act.keys.get("retry")
    rule = Rule(
        name,
        seconds=trigger.seconds,
        period=trigger.period,
        overlap=overlap,
        max_running=max_running,
        missed=missed,
        on_crash=on_crash,
        attempts=retry["attempts"] if isinstance(retry, dict) else 1,
        retry_delay=RETRY_DELAYS.get(act.name, 0),
        has_timeout="timeout" in act.keys,
    )
    return "\n".join([f"[jobs.{name}]", *lines, ""]), rule


def _toml(value: object) -> str:
    """Return a value as TOML; JSON's text, lists and numbers are the same there."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
