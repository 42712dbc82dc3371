"""What a daemon takes: idle, with jobs running, and with a large crontab."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from itertools import product

from tests.benchmarks.jobs import Minutely, Seconds, Way, due, far_away
from tests.benchmarks.moments import MINUTE_S, monotonic_s, next_multiple, pause, wait_until
from tests.benchmarks.peer import Peer, Started
from tests.benchmarks.processes import peak_kb, reaped_cpu_s, usage
from tests.benchmarks.stage import Stage

SETTLE_S = 60.0
STARTED_S = 5.0
LOOK_AFTER_S = 8.0
STAY_S = 50
LOAD_LIMIT_S = 100.0


def measure_idle(peers: Sequence[Peer], counts: Sequence[int], seconds: int, stage: Stage) -> None:
    """Record what daemons take that have nothing to do; all at once, as they disturb nobody."""
    with ExitStack() as stack:
        running: list[tuple[int, Started]] = []
        for count, peer in product(counts, peers):
            if count <= peer.most_jobs:
                daemon = _start_far_away(peer, count, stage)
                running.append((count, stack.enter_context(daemon)))
        # One that fails here is left out, the others go on.
        running = [
            (count, daemon)
            for count, daemon in running
            if stage.attempt(
                f"{daemon.peer.name}, idle with {count}", partial(daemon.settle, SETTLE_S)
            )
        ]
        pause(2)
        before = [(monotonic_s(), usage(daemon.pid)) for _, daemon in running]
        pause(seconds)
        for (count, daemon), (began, then) in zip(running, before, strict=True):
            now = usage(daemon.pid)
            a_minute = MINUTE_S / (monotonic_s() - began)
            stage.recorder.add(
                "idle",
                daemon.peer.name,
                count=count,
                pss_kb=now.pss_kb,
                rss_kb=now.rss_kb,
                processes=now.processes,
                threads=now.threads,
                cpu_s_a_minute=(now.cpu_s - then.cpu_s) * a_minute,
                switches_a_minute=(now.voluntary - then.voluntary) * a_minute,
                involuntary_a_minute=(now.involuntary - then.involuntary) * a_minute,
            )


def measure_running(wanted: Sequence[tuple[Peer, Way]], count: int, stage: Stage) -> None:
    """Record what a daemon takes for each job that runs; all daemons at one instant."""
    with ExitStack() as stack:
        full_minute = not all(peer.has_seconds for peer, _ in wanted)
        start = next_multiple(MINUTE_S if full_minute else 1, lead=STARTED_S + len(wanted))
        when = Seconds((int(start) % MINUTE_S,))
        running: list[Started] = []
        for peer, way in wanted:
            directory = stage.work.directory()
            jobs = due(
                count,
                when if peer.has_seconds else Minutely(),
                stage.work.tick,
                directory / "stamps",
                label="stay",
                way=way,
                stay_s=STAY_S,
            )
            # What is due in a minute is not to be so before all are here.
            wait_until(start - MINUTE_S + 1)
            running.append(stack.enter_context(Started(peer, jobs, directory)))
        wait_until(start - 1)
        before = [usage(daemon.pid) for daemon in running]
        wait_until(start + LOOK_AFTER_S + len(wanted))
        for (peer, way), daemon, then in zip(wanted, running, before, strict=True):
            now = usage(daemon.pid)
            stage.recorder.add(
                "running",
                peer.name,
                way=way,
                count=count,
                jobs=now.jobs,
                processes=now.processes,
                threads_more=now.threads - then.threads - (now.processes - then.processes),
                pss_kb=now.pss_kb,
                pss_kb_before=then.pss_kb,
                kb_a_job=(now.pss_kb - then.pss_kb) / now.jobs if now.jobs else None,
            )


def measure_load(peers: Sequence[Peer], counts: Sequence[int], stage: Stage) -> None:
    """Record how long a large crontab takes to be read, and what it takes then; one by one."""
    for count, peer in product(counts, peers):
        if count <= peer.most_jobs:
            name = f"{peer.name}, load of {count}"
            stage.attempt(name, partial(_measure_one_load, peer, count, stage))


def _measure_one_load(peer: Peer, count: int, stage: Stage) -> None:
    with _start_far_away(peer, count, stage) as daemon:
        ready_s, most_kb = daemon.settle(LOAD_LIMIT_S)
        now = usage(daemon.pid)
        stage.recorder.add(
            "load",
            peer.name,
            count=count,
            ready_s=ready_s,
            limit_s=LOAD_LIMIT_S,
            says_ready_s=_said_up(daemon),
            cpu_s=now.cpu_s + reaped_cpu_s(daemon.pid),
            pss_kb=now.pss_kb,
            rss_kb=now.rss_kb,
            peak_kb=max(most_kb, peak_kb(daemon.pid)),
            threads=now.threads,
        )


def _start_far_away(peer: Peer, count: int, stage: Stage) -> Started:
    directory = stage.work.directory()
    jobs = far_away(count, stage.work.tick, directory / "stamps", peer.way)
    return Started(peer, jobs, directory)


def _said_up(daemon: Started) -> float | None:
    """Return when the daemon's log says that it is up, in seconds after its start (pycron only)."""
    for line in daemon.log().splitlines():
        if '"event"' in line and "is up" in line:
            at = datetime.fromisoformat(json.loads(line)["time"])
            return at.timestamp() - daemon.began_wall_s
    return None
