"""A crontab on its way from the process that has read it to the one that needs it.

It is a stream of pickles: a head that says what comes, then the jobs, some at a time, or all
faults. What many jobs have in common goes once. ``sender`` writes it; here it is read. Both are of
one program, and nobody else can write to what is between them. Still, the head says what the
sender takes a job for: a pycron may be replaced by another under a running daemon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

from crond_py.crontab.model import Crontab, Group, Job, Pool, Scope
from crond_py.dataclass import dataclass, of_shared
from crond_py.errors import CrontabError, Fault

try:  # this alone, without the module in Python around it, which takes a quarter of a megabyte
    from _pickle import Unpickler, UnpicklingError
except ImportError:
    from pickle import Unpickler, UnpicklingError

FIELDS: Final = tuple(field.name for field in fields(Job))

BROKEN: Final = (
    UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    IndexError,
    TypeError,
    ValueError,
)
"""What ``receive`` raises where the stream ends too early, or its sender is another program."""


@dataclass(frozen=True, slots=True)
class Head:
    """What comes: a crontab of so many jobs, or faults."""

    files: tuple[Path, ...] = ()
    pools: tuple[Pool, ...] = ()
    groups: tuple[Group, ...] = ()
    defaults: Scope = field(default_factory=Scope)
    jobs: int = 0
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Jobs:
    """Some jobs, column by column. ``shared`` is what many of them have alike."""

    names: list[str]
    triggers: list[Any]
    commands: list[str | tuple[str, ...]]
    sources: list[str]
    shared: list[tuple[Any, ...]]


def receive(stream: BinaryIO) -> Crontab:
    """Read a crontab. Raises CrontabError where it was refused, or one of BROKEN."""
    unpickler = Unpickler(stream)  # noqa: S301 - of our own process, see above
    if unpickler.load() != FIELDS:
        message = "a job is something else there"
        raise UnpicklingError(message)
    head: Head = unpickler.load()
    if head.faults:
        raise CrontabError(head.faults)
    jobs: dict[str, Job] = {}
    while len(jobs) < head.jobs:
        some: Jobs = unpickler.load()
        columns = (some.names, some.triggers, some.commands, some.sources)
        for own, shared in zip(zip(*columns, strict=True), some.shared, strict=True):
            jobs[own[0]] = of_shared(Job, own, shared)
    return Crontab(
        MappingProxyType(jobs),
        MappingProxyType({pool.name: pool for pool in head.pools}),
        head.files,
        MappingProxyType({group.name: group for group in head.groups}),
        head.defaults,
    )


def view(mapping: dict[str, Any]) -> Mapping[str, Any]:
    """Return a mapping of the model, which is a view that cannot be written to, made again."""
    return MappingProxyType(mapping)
