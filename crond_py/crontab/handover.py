"""A crontab on its way from the process that has read it to the one that needs it.

It is a stream of pickles: a head that says what comes, then the jobs, some at a time, or all
faults. What many jobs have in common goes once. ``sender`` writes it; here it is read. Both are of
one program, and nobody else can write to what is between them. Still, the first thing says of what
shape all is: a pycron may be replaced by another under a running daemon, and what is pickled by
place would be taken for something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

from crond_py import model as values
from crond_py.crontab import model
from crond_py.crontab.model import Crontab, Group, Job, Pool, Scope
from crond_py.dataclass import dataclass, of_shared, own_fields
from crond_py.errors import CrontabError, Fault

try:  # this alone, without the module in Python around it, which takes a quarter of a megabyte
    from _pickle import Unpickler, UnpicklingError
except ImportError:
    from pickle import Unpickler, UnpicklingError

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


def shape() -> tuple[tuple[str, ...], ...]:
    """Return what the classes are like that are handed over: their names, fields and order."""
    handed_over = (*vars(model).values(), *vars(values).values(), Head, Jobs, Fault)
    classes = {each for each in handed_over if isinstance(each, type) and is_dataclass(each)}
    shapes = {(each.__qualname__, *(field.name for field in fields(each))) for each in classes}
    return (own_fields(Job), *sorted(shapes))


def receive(stream: BinaryIO) -> Crontab:
    """Read a crontab. Raises CrontabError where it was refused, or one of BROKEN."""
    unpickler = Unpickler(stream)  # noqa: S301 - of our own process, see above
    if unpickler.load() != shape():
        message = "a crontab is something else there"
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
