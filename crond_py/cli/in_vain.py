"""What a crontab says in vain: keys without an effect, single steps, words for a missing shell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from crond_py.crontab.model import Crontab, CronTrigger, Job
from crond_py.crontab.vain import keys_without_effect
from crond_py.printable import printable_line
from crond_py.schedule.expression import FIVE, SIX
from crond_py.schedule.fields import HOUR, MINUTE, SECOND, FieldKind

_OPERATORS: Final = frozenset({"|", "||", "&", "&&", ">", ">>", "<", "2>", "2>>", "2>&1", "&>"})
_MAY_BE_LAST: Final = frozenset({"&", "2>&1"})
_TAKE_OPERATORS: Final = frozenset({"expr", "test", "[", "tr"})
# Options that a separator follows, of cut, sort, awk, paste, column, comm, join, seq and others.
_TAKE_SEPARATORS: Final = frozenset(
    {"-d", "-F", "-o", "-s", "-S", "-t", "--delimiter", "--delimiters", "--field-separator"}
    | {"--output-delimiter", "--output-separator", "--separator"}
)
_STEP: Final = re.compile(r"(?:\*|([0-9]+)(?:-([0-9]+))?)/([0-9]{1,4})")
_UNITS: Final = {SECOND: "s", MINUTE: "m", HOUR: "h"}


def in_vain(crontab: Crontab) -> Iterator[str]:
    """Yield a warning for each. What ``[defaults]`` says is for those jobs that it concerns."""
    for job in crontab.jobs.values():
        inherited = crontab.defaults.values
        for key, why in keys_without_effect(
            lambda key: getattr(job, key) not in {None, inherited.get(key)},  # noqa: B023
            partial(getattr, job),
        ):
            yield f"{job.source}: {key} of job {job.name} {why}"
        yield from _single_steps(job)
        if said := words_for_a_shell(job.command):
            yield f"{job.source}: command of job {job.name}: {said}"


def words_for_a_shell(command: str | Sequence[str]) -> str:
    """Say what in an array seems to be for a shell, which there is none for, or return "".

    What is only an argument, as a separator is, is to stay one; nor does a shell's command end in
    what something has to follow.
    """
    if isinstance(command, str):
        return ""
    program, *arguments = command
    if os.path.basename(program) in _TAKE_OPERATORS:  # noqa: PTH119 - any text
        return ""
    for before, word, *after in (command[place:] for place in range(len(arguments))):
        is_argument = before in _TAKE_SEPARATORS or (not after and word not in _MAY_BE_LAST)
        if word in _OPERATORS and not is_argument:
            return (
                f"an array has no shell, so {word} is an argument; "
                "if it is meant for one, write it all as text"
            )
    if " " in program and not os.path.exists(program):  # noqa: PTH110 - and Path's may raise
        return f'"{printable_line(program)}" is one word, the program; write it all as text'
    return ""


def _single_steps(job: Job) -> Iterator[str]:
    """Yield a warning for each step that is wider than what it steps through."""
    if not isinstance(job.trigger, CronTrigger):
        return
    for expression in job.trigger.expressions:
        words = expression.split()
        for kind, word in zip(SIX if len(words) == len(SIX) else FIVE, words, strict=False):
            for item in word.split(","):
                if said := _said_of_step(kind, item):
                    yield f"{job.source}: schedule of job {job.name}: {said}"


def _said_of_step(kind: FieldKind, item: str) -> str:
    """Say of one item of a field that its step leaves a single number, or return ""."""
    match = _STEP.fullmatch(item)
    if match is None:
        return ""
    low, high = int(match[1] or kind.low), int(match[2] or kind.high)
    step = int(match[3])
    if low + step <= high:
        return ""
    is_interval = match[1] is None and kind in _UNITS
    interval = f'; an interval is every = "{step}{_UNITS[kind]}"' if is_interval else ""
    return f"{kind.name} {item} is only ever {low}{interval}"
