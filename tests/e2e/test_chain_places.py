"""A chain of three and a diamond with real processes: what happens in each place, and what follows.

There is a chain for each place and each thing that happens there, all in one crontab, and each is
begun by hand. What is to become of their jobs is worked out by ``chain_shapes``.
"""

from __future__ import annotations

import os
import select
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

import pytest

from tests.support.chain_shapes import PLACES, SHAPES, End, expected
from tests.support.daemon import PATIENCE_S, Bell, Daemon, Event, Gate, job_text
from tests.support.kernel import TELLS_EXITS

BEGIN = 'sh "$STAMP" begin $$; '
HOLDS = "read x < gate"
"""It waits to be let go on by the test."""
WAITS = BEGIN + "test $PYCRON_ATTEMPT = 2 || { echo there > bell; read x < gate; }"
"""It says that it is there, and waits; a second attempt does not."""

NEVER = "at = 2099-01-01T00:00:00Z"
RETRY = 'retry = { attempts = 2, delay = "100ms" }'
SLOW_RETRY = 'retry = { attempts = 2, delay = "2s" }'


@dataclass(frozen=True)
class Case:
    """A shape, one of its places, and what the job there does; ``keys`` are more of its lines."""

    name: str
    shape: str
    place: str
    command: str
    keys: tuple[str, ...] = ()
    is_blocked: bool = False

    def job(self, which: str) -> str:
        """Return the name of a job of its crontab."""
        return f"{self.name}-{which}"

    @property
    def head(self) -> str:
        """The job that it begins with."""
        return self.job(next(iter(SHAPES[self.shape])))

    @property
    def at_place(self) -> str:
        """The job to which it happens."""
        return self.job(self.place)

    def crontab(self) -> str:
        """Return its jobs, and a pool of one slot with a job that may hold that."""
        jobs = []
        for name, above in SHAPES[self.shape].items():
            after = ", ".join(f'"{self.job(each)}"' for each in above)
            lines = [f"after = [{after}]" if above else NEVER]
            command = BEGIN
            if name == self.place:
                command = self.command
                lines += [*self.keys, *([f'pool = "{self.name}"'] if self.is_blocked else [])]
            jobs.append(job_text(self.job(name), command, *lines))
        for name, condition in (("alarm", "failure"), ("clean", "any")):
            line = f'after = {{ {self.at_place} = "{condition}" }}'
            jobs.append(job_text(self.job(name), BEGIN, line))
        pool = f'pool = "{self.name}"'
        jobs.append(job_text(self.job("blocker"), HOLDS, NEVER, pool))
        return f"[pools.{self.name}]\nworkers = 1\n\n" + "\n".join(jobs)


def cases(what: str, command: str, *keys: str, is_blocked: bool = False) -> list[Case]:
    """Return a case for each place."""
    return [
        Case(f"{what}-{place}", shape, place, command, keys, is_blocked) for shape, place in PLACES
    ]


def _begin(daemon: Daemon, chosen: Iterable[Case]) -> None:
    """Begin each chain, and have each place get to where the test comes in."""
    for case in chosen:
        if case.is_blocked:
            daemon.tell("trigger", case.job("blocker"))
            daemon.log.wait("run started", job=case.job("blocker"))
        daemon.tell("trigger", case.head)


def _await_others(daemon: Daemon, case: Case) -> None:
    """Wait until all have ended that the place follows from, or that begin together with it."""
    shape = SHAPES[case.shape]
    above = [*shape[case.place], *(job for job in shape if shape[job] == shape[case.place])]
    for job in above:
        if job != case.place:
            daemon.log.wait("run succeeded", job=case.job(job))


def _wrong(daemon: Daemon, chosen: Iterable[tuple[Case, End]]) -> list[str]:
    """Say which jobs of cases have not one row, or another end than they should."""
    rows_of: defaultdict[str, list[Event]] = defaultdict(list)
    for row in daemon.history():  # one command: that for each job would take a minute or more
        rows_of[row["job"]].append(row)
    return [text for case, end in chosen for text in _wrong_with(daemon, rows_of, case, end)]


def _wrong_with(
    daemon: Daemon, rows_of: Mapping[str, list[Event]], case: Case, end: End
) -> Iterator[str]:
    for job, allowed in expected(case.shape, case.place, {case.place: end}).items():
        rows = rows_of[case.job(job)]
        prefix = case.job("")
        ends = [
            End(row["outcome"], (row["reason"] or "").replace(prefix, ""), len(row["attempts"]))
            for row in rows
        ]
        if len(ends) != 1 or ends[0] not in allowed:
            yield f"{case.job(job)} is {ends}, and not one of {allowed}"
        stamps = [stamp.attempt for stamp in daemon.stamps(case.job(job))]
        begun = sum(_has_begun(attempt) for row in rows for attempt in row["attempts"])
        if len(stamps) != begun or len(set(stamps)) != begun:
            yield f"{case.job(job)} has begun {begun} times, and run as {stamps}"


def _has_begun(attempt: Event) -> bool:
    return attempt["started_at"] is not None


@pytest.mark.timeout(300)
def test_what_happens_in_each_place(daemon: Daemon, gate: Gate, bell: Bell) -> None:
    """P1, P2: a run retries, fails or is cancelled, and each job of its chain has its one row."""
    ends = {
        "fails": (cases("fails", BEGIN + "exit 3"), End("failed", "exit status 3")),
        "retried": (
            cases("retried", BEGIN + "test $PYCRON_ATTEMPT = 2", RETRY),
            End("succeeded", "", 2),
        ),
        "in-vain": (
            cases("in-vain", BEGIN + "exit 3", RETRY),
            End("failed", "exit status 3", 2),
        ),
        "running": (cases("running", WAITS), End("cancelled", "cancelled on request")),
        "waiting": (
            cases("waiting", BEGIN, is_blocked=True),
            End("cancelled", "cancelled on request", 0),
        ),
    }
    every = [case for chosen, _ in ends.values() for case in chosen]
    log = daemon.start("\n".join(case.crontab() for case in every))
    _begin(daemon, every)
    for _ in PLACES:
        bell.wait()
    for case in ends["running"][0]:
        log.wait("run started", job=case.at_place)
        daemon.tell("cancel", case.at_place)
    for case in ends["waiting"][0]:
        _await_others(daemon, case)
        daemon.tell("cancel", case.at_place)
    gate.open(len(PLACES))  # for those that hold the slots
    daemon.settle()
    daemon.stop()
    assert _wrong(daemon, [(case, end) for chosen, end in ends.values() for case in chosen]) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("on_crash", ["lost", "rerun"])
@pytest.mark.parametrize("is_seen", [True, False])
def test_killed_while_a_run_goes_on_in_each_place(
    daemon: Daemon, gate: Gate, bell: Bell, *, on_crash: str, is_seen: bool
) -> None:
    """P1, P2, P3: what the next daemon sees end ends as ever; of the rest ``on_crash`` tells."""
    every = cases("killed", WAITS, f'on_crash = "{on_crash}"')
    log = daemon.start("\n".join(case.crontab() for case in every))
    _begin(daemon, every)
    for case in every:
        bell.wait()
        _await_others(daemon, case)
    with ExitStack() as pidfds:
        begun = [log.wait("run started", job=case.at_place) for case in every]
        ends = [pidfds.enter_context(_Ending(event["pid"])) for event in begun]
        daemon.status()  # what was heard of is in the ledger
        daemon.kill()
        if not is_seen:
            gate.open(len(PLACES))
            for each in ends:
                each.wait()
        daemon.start()
    if is_seen:
        gate.open(len(PLACES))
    daemon.settle()
    daemon.stop()
    if is_seen and TELLS_EXITS:
        end = End("succeeded")
    elif is_seen:
        end = End("lost", "ended while pycron could not see its exit status")
    elif on_crash == "rerun":
        end = End("succeeded", "", 2)
    else:
        end = End("lost", "ended while pycron was away, nobody saw how")
    assert _wrong(daemon, [(case, end) for case in every]) == []


@pytest.mark.timeout(300)
def test_killed_while_a_run_waits_in_each_place(daemon: Daemon, gate: Gate) -> None:
    """P1, P2: what waits for a slot or its retry goes on waiting, and then down the chain."""
    for_slot = cases("slot", BEGIN, is_blocked=True)
    for_retry = cases("retry", BEGIN + "test $PYCRON_ATTEMPT = 2", SLOW_RETRY)
    every = [*for_slot, *for_retry]
    log = daemon.start("\n".join(case.crontab() for case in every))
    _begin(daemon, every)
    for case in for_slot:
        _await_others(daemon, case)
    for case in for_retry:
        log.wait("attempt failed", job=case.at_place)
        _await_others(daemon, case)
    daemon.status()  # what was heard of is in the ledger
    daemon.kill()
    daemon.start()
    gate.open(len(PLACES))
    daemon.settle()
    daemon.stop()
    first, second = End("succeeded"), End("succeeded", "", 2)
    ends = [*((case, first) for case in for_slot), *((case, second) for case in for_retry)]
    assert _wrong(daemon, ends) == []


class _Ending:
    """The end of a process that need not be a child."""

    def __init__(self, pid: int) -> None:
        self._pidfd = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pidfd)

    def wait(self) -> None:
        """Wait for it."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        assert poll.poll(PATIENCE_S * 1000), "a process lives on"


@pytest.mark.timeout(120)
def test_a_failed_chain_goes_on_by_hand(daemon: Daemon) -> None:
    """P1: the job that failed is run by hand, and what joins it with another one that had not."""
    chain = cases("mended", BEGIN + "test -e mended")[PLACES.index(("diamond", "left"))]
    log = daemon.start(chain.crontab())
    daemon.tell("trigger", chain.head)
    log.wait("run skipped", job=chain.job("end"))
    daemon.settle()
    (daemon.directory / "mended").touch()
    daemon.tell("trigger", chain.at_place, "--wait")
    daemon.settle()
    daemon.stop()
    ends = [(row["outcome"], row["reason"] or "") for row in daemon.history(chain.job("end"))]
    reason = f"upstream_failed: {chain.at_place} has failed"
    assert ends == [("skipped", reason), ("succeeded", "")]
    assert len(daemon.stamps(chain.job("right"))) == 1
