"""Hands over a crontab to the process that needs it; the other end is ``handover``.

It is another module because the daemon, which only receives, has no need of ``pickle``.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, BinaryIO, Final

from crond_py.crontab.handover import Head, Jobs, shape, view
from crond_py.crontab.model import Crontab, Job
from crond_py.dataclass import shared_part
from crond_py.errors import CrontabError

_AT_ONCE: Final = 200


def send(found: Crontab | CrontabError, stream: BinaryIO) -> None:
    """Write a crontab, or why it was refused."""
    pickler = _Pickler(stream, pickle.HIGHEST_PROTOCOL)
    pickler.dump(shape())
    if isinstance(found, CrontabError):
        pickler.dump(Head(faults=found.faults))
        return
    pools, groups = tuple(found.pools.values()), tuple(found.groups.values())
    pickler.dump(Head(found.files, pools, groups, found.defaults, len(found.jobs)))
    for some in _in_parts(list(found.jobs.values())):
        pickler.dump(some)


def _in_parts(jobs: list[Job]) -> Iterator[Jobs]:
    known: dict[tuple[int, ...], tuple[Any, ...]] = {}
    for start in range(0, len(jobs), _AT_ONCE):
        part = jobs[start : start + _AT_ONCE]
        yield Jobs(
            [job.name for job in part],
            [job.trigger for job in part],
            [job.command for job in part],
            [job.source for job in part],
            # By identity: the loader has made one object of what is equal, and some has no hash.
            [known.setdefault(tuple(map(id, values)), values) for values in map(shared_part, part)],
        )


class _Pickler(pickle.Pickler):
    """Knows how to pickle the mappings of the model, which are read-only views."""

    def reducer_override(self, obj: object) -> Any:
        """Return how a view is made again; leave everything else to pickle."""
        if isinstance(obj, MappingProxyType):
            return view, (dict(obj),)
        return NotImplemented
