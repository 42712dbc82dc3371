"""A small machine with chosen jobs, for tests that look at one rule of the engine at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType

import pytest

from crond_py.crontab.model import Crontab, Group, Job, Pool
from crond_py.engine.events import Call
from crond_py.model import Exit, Run
from crond_py.ports import RunQuery
from tests.simulation.fakes import Behaviour
from tests.simulation.world import World

SECOND = timedelta(seconds=1)

MachineWith = Callable[..., World]


@pytest.fixture
def machine_with() -> MachineWith:
    """Give a function that boots a daemon with some jobs, whose processes behave as told."""

    def boot(
        *jobs: Job,
        lasts: timedelta = SECOND,
        exits: tuple[Exit, ...] = (Exit(code=0),),
        ignores_term: bool = False,
    ) -> World:
        world = World(0)
        behaviour = Behaviour(lasts=(lasts,), exits=exits, ignores_term=ignores_term)
        world.jobs = {job.name: job for job in jobs}
        world.machine.behaviours = {job.name: behaviour for job in jobs}
        world.boot_daemon()
        return world

    return boot


def rows(world: World, job: str = "a") -> list[Run]:
    """Return a job's rows, oldest due first."""
    return list(reversed(world.ledger.runs(RunQuery(job=job, limit=None))))


def outcomes(world: World, job: str = "a") -> list[str]:
    """Return how a job's runs ended, or where they stand, oldest due first."""
    return [str(run.outcome or run.state) for run in rows(world, job)]


def is_alive(world: World, job: str = "a") -> int:
    """Return how many processes of a job live."""
    return sum(process.job == job for process in world.machine.alive)


def reload(
    world: World,
    *jobs: Job,
    pools: tuple[Pool, ...] = (),
    groups: Mapping[str, Group] = MappingProxyType({}),
) -> None:
    """Put other jobs in force."""
    assert world.daemon is not None
    core = world.daemon.core
    world.jobs = {job.name: job for job in jobs}
    crontab = Crontab(
        MappingProxyType(world.jobs),
        MappingProxyType({pool.name: pool for pool in pools}),
        groups=groups,
    )
    core.handle([Call(lambda: core.reload(crontab))])
