"""How the commands show what waits, how late runs start, and what for."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.control.address import Peer
from crond_py.control.protocol import (
    DaemonStatus,
    GetStatus,
    JobList,
    JobView,
    ListJobs,
    Request,
)
from crond_py.engine.lag import LagRecord
from crond_py.engine.view import LagSummary, PoolStatus
from crond_py.model import Cause, Lag, State
from tests.cli.program import environment, on_terminal, pycron, without_colour
from tests.cli.running import serving
from tests.unit.control.fakes import ME, NOON, RUNNING

SECOND = timedelta(seconds=1)
QUEUED = replace(RUNNING, id=9, state=State.QUEUED, claimed_at=NOON - 20 * SECOND, attempts=())


def summary_of(*lags: Lag) -> LagSummary:
    """Return what some starts come to."""
    record = LagRecord()
    for lag in lags:
        record.add(lag)
    summary = record.sample().summary()
    assert summary is not None
    return summary


SLOTS = summary_of(
    Lag(dispatch=SECOND), Lag(dependency=99 * SECOND, overlap=2 * SECOND, pool=5 * SECOND)
)


def answer(request: Request[object], peer: Peer) -> object:
    """Tell of a pool that is late and of another, and of a job of which two runs wait."""
    if isinstance(request, GetStatus):
        late = PoolStatus("batch", 1, 1, 2, 20 * SECOND, SLOTS)
        pools = (late, PoolStatus("default", None, 0, 0))
        return DaemonStatus(
            ME.pid, "1", NOON, NOON, False, (), 1, 1, (), pools, (), None, ""
        )  # fmt: skip
    if isinstance(request, ListJobs):
        newer = replace(QUEUED, id=10, claimed_at=NOON - SECOND)
        waits = JobView(
            "poll", "1m", "UTC", True, None, (RUNNING, QUEUED, newer), None, "queue", "x", lag=SLOTS
        )  # fmt: skip
        return JobList(NOON, (), (waits, replace(waits, name="calm", active=(), lag=None)))
    raise TypeError(request)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose home is empty."""
    return environment(tmp_path, COLUMNS="200")


def test_status_counts_retries_that_are_not_in_memory(env: dict[str, str]) -> None:
    """They are too many to be listed."""

    def tell(request: Request[object], peer: Peer) -> object:
        told = answer(request, peer)
        assert isinstance(told, DaemonStatus)
        return replace(told, active=(RUNNING,), parked_runs=4711)

    with serving(env, tell):
        lines = pycron("status", env=env).stdout.splitlines()
        found = json.loads(pycron("status", "--json", env=env).stdout)
    assert "and 4711 more tasks that wait for their retry" in lines
    assert found["parked_runs"] == 4711


def test_status_says_what_a_pool_is_late_for(env: dict[str, str]) -> None:
    """By name in the table, and by figures for each cause for programs."""
    with serving(env, answer):
        *_, head, batch, default = pycron("status", env=env).stdout.splitlines()
        found = json.loads(pycron("status", "--json", env=env).stdout)["pools"]
    assert head.split()[-3:] == ["MAX", "MOSTLY", "FOR"]
    assert batch.split() == [
        "batch",
        "1",
        "1",
        "2",
        "20s",
        "7.0s",
        "1.0s",
        "7.0s",
        "7.0s",
        "a",
        "slot",
    ]
    assert default.split() == ["default", "any", "0", "0"]
    assert found[1]["lag"] is None
    lag = found[0]["lag"]
    assert (lag["max"], lag["count"]) == (7, 2)
    assert lag["causes"]["pool"] == {"last": 5, "p50": 0, "p99": 5, "max": 5}
    assert lag["causes"]["dispatch"] == {"last": 0, "p50": 0, "p99": 1, "max": 1}
    assert {name: figures["max"] for name, figures in lag["causes"].items()} == {
        "dispatch": 1,
        "dependency": 99,
        "overlap": 2,
        "pool": 5,
        "spawn": 0,
    }


def test_status_says_which_columns_have_no_room(env: dict[str, str]) -> None:
    """Else nobody would know that a wider window tells more."""
    with serving(env, answer):
        narrow, wide = (
            without_colour(on_terminal("status", env={**env, "COLUMNS": ""}, columns=columns))
            for columns in (60, 120)
        )
    assert narrow.splitlines()[-1] == "no room for MAX, MOSTLY FOR; a wider window shows all"
    assert max(map(len, narrow.splitlines())) <= 60
    assert "MOSTLY FOR" in wide
    assert "no room" not in wide


def test_status_counts_from_when_a_run_was_due(env: dict[str, str]) -> None:
    """A task has waited in the ledger before it was claimed; what is made up is due no more."""
    claimed = replace(QUEUED, claimed_at=NOON - SECOND, due=NOON - 18 * SECOND)
    made_up = replace(claimed, id=10, cause=Cause.CATCH_UP)

    def tell(request: Request[object], peer: Peer) -> object:
        told = answer(request, peer)
        assert isinstance(told, DaemonStatus)
        return replace(told, active=(claimed, made_up))

    with serving(env, tell):
        lines = pycron("status", env=env).stdout.splitlines()
    waits = [line.split() for line in lines if "queued" in line.split()]
    assert [(run, since) for run, *_, since in waits] == [("9", "18s"), ("10", "1.0s")]


def test_status_says_how_many_wait_behind_others_and_were_given_up(env: dict[str, str]) -> None:
    """A pool in which one of each queue waits, and one that has dropped its runs, look crowded."""

    def crowded(request: Request[object], peer: Peer) -> object:
        told = answer(request, peer)
        assert isinstance(told, DaemonStatus)
        first, other = told.pools
        return replace(told, pools=(replace(first, behind=66, given_up=3), other))

    with serving(env, crowded):
        text = pycron("status", env=env).stdout
        found = json.loads(pycron("status", "--json", env=env).stdout)["pools"]
    assert "2 (+66)" in text
    assert "TOO LATE" in text
    assert [(each["behind"], each["too_late"]) for each in found] == [(66, 3), (0, 0)]


def test_list_says_how_many_runs_of_a_job_wait_and_how_long(env: dict[str, str]) -> None:
    """The oldest one of them counts."""
    with serving(env, answer):
        head, poll, calm = pycron("list", env=env).stdout.splitlines()
        found = json.loads(pycron("list", "--json", env=env).stdout)
    assert head.split()[-1] == "OLDEST"
    assert poll.split()[-4:] == ["running,", "queued", "(2)", "20s"]
    assert calm.split()[-1] == "idle"
    assert (found[0]["waiting"], found[0]["oldest_waiting_seconds"]) == (2, 20)
    assert (found[1]["waiting"], found[1]["oldest_waiting_seconds"]) == (0, None)
    assert found[0]["lag"]["causes"]["overlap"]["max"] == 2
