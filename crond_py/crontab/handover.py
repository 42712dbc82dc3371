"""A crontab on its way from the process that has read it to the one that needs it.

It is a stream of pickles: a head that says what comes, then the jobs, some at a time, or all
faults. What many jobs have in common goes once. Both ends are the same program, and nobody else
can write to what is between them. Still, the head says what the sender takes a job for: a pycron
may be replaced by another under a running daemon.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

from crond_py.crontab.model import Crontab, Group, Job, Pool
from crond_py.dataclass import dataclass
from crond_py.errors import CrontabError, Fault

_FIELDS: Final = tuple(field.name for field in fields(Job))
_OWN: Final = ("name", "trigger", "command")  # the first ones; ``source`` is the last
_COMMON: Final = _FIELDS[len(_OWN) : -1]
_AT_ONCE: Final = 1000

BROKEN: Final = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    IndexError,
    TypeError,
    ValueError,
)
"""What ``receive`` raises where the stream ends too early, or its sender is another program."""


@dataclass(frozen=True, slots=True)
class _Head:
    """What comes: a crontab of so many jobs, or faults."""

    files: tuple[Path, ...] = ()
    pools: tuple[Pool, ...] = ()
    groups: tuple[Group, ...] = ()
    jobs: int = 0
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Some jobs, column by column. ``common`` are the values of ``_COMMON``."""

    names: list[str]
    triggers: list[Any]
    commands: list[str | tuple[str, ...]]
    common: list[tuple[Any, ...]]
    sources: list[str]


def send(found: Crontab | CrontabError, stream: BinaryIO) -> None:
    """Write a crontab, or why it was refused."""
    pickler = _Pickler(stream, pickle.HIGHEST_PROTOCOL)
    pickler.dump(_FIELDS)
    if isinstance(found, CrontabError):
        pickler.dump(_Head(faults=found.faults))
        return
    pools, groups = tuple(found.pools.values()), tuple(found.groups.values())
    pickler.dump(_Head(found.files, pools, groups, len(found.jobs)))
    for some in _in_parts(list(found.jobs.values())):
        pickler.dump(some)


def receive(stream: BinaryIO) -> Crontab:
    """Read a crontab. Raises CrontabError where it was refused, or one of BROKEN."""
    unpickler = pickle.Unpickler(stream)  # noqa: S301 - of our own process, see above
    if unpickler.load() != _FIELDS:
        message = "a job is something else there"
        raise pickle.UnpicklingError(message)
    head: _Head = unpickler.load()
    if head.faults:
        raise CrontabError(head.faults)
    make_job: Callable[..., Job] = Job
    jobs: dict[str, Job] = {}
    while len(jobs) < head.jobs:
        some: _Jobs = unpickler.load()
        columns = (some.names, some.triggers, some.commands, some.common, some.sources)
        for name, trigger, command, common, source in zip(*columns, strict=True):
            jobs[name] = make_job(name, trigger, command, *common, source)
    return Crontab(
        MappingProxyType(jobs),
        MappingProxyType({pool.name: pool for pool in head.pools}),
        head.files,
        MappingProxyType({group.name: group for group in head.groups}),
    )


def _in_parts(jobs: list[Job]) -> Iterator[_Jobs]:
    common_of = attrgetter(*_COMMON)
    known: dict[tuple[int, ...], tuple[Any, ...]] = {}
    for start in range(0, len(jobs), _AT_ONCE):
        part = jobs[start : start + _AT_ONCE]
        common = []
        for job in part:
            values = common_of(job)
            # By identity: the loader has made one object of what is equal, and some has no hash.
            common.append(known.setdefault(tuple(map(id, values)), values))
        yield _Jobs(
            [job.name for job in part],
            [job.trigger for job in part],
            [job.command for job in part],
            common,
            [job.source for job in part],
        )


class _Pickler(pickle.Pickler):
    """Knows how to pickle the mappings of the model, which are read-only views."""

    def reducer_override(self, obj: object) -> Any:
        """Return how a view is made again; leave everything else to pickle."""
        if isinstance(obj, MappingProxyType):
            return _view, (dict(obj),)
        return NotImplemented


def _view(mapping: dict[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(mapping)
