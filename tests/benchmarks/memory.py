"""What a daemon takes: idle, with jobs running, and with a large crontab."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime

from tests.benchmarks.jobs import Job, Minutely, Seconds, Way, due, far_away
from tests.benchmarks.moments import MINUTE_S, monotonic_s, next_multiple, pause, wait_until
from tests.benchmarks.peer import Peer, Started, Workplace
from tests.benchmarks.processes import peak_kb, reaped_cpu_s, usage
from tests.benchmarks.records import Recorder

SETTLE_S = 60.0
LOAD_LIMIT_S = 100.0


def measure_idle(
    peers: Sequence[Peer],
    counts: Sequence[int],
    seconds: int,
    work: Workplace,
    recorder: Recorder,
) -> None:
    """Record what daemons take that have nothing to do; all at once, as they disturb nobody."""
    with ExitStack() as stack:
        running: list[tuple[int, Started]] = []
        for count in counts:
            for peer in peers:
                if count > peer.most_jobs:
                    continue
                directory = work.directory()
                jobs = far_away(count, work.tick, directory / "stamps")
                daemon = stack.enter_context(Started(peer, jobs, directory))
                running.append((count, daemon))
        for _, daemon in running:
            daemon.settle(SETTLE_S)
        pause(2)
        before = [(monotonic_s(), usage(daemon.pid)) for _, daemon in running]
        pause(seconds)
        for (count, daemon), (began, then) in zip(running, before, strict=True):
            now = usage(daemon.pid)
            a_minute = MINUTE_S / (monotonic_s() - began)
            recorder.add(
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


def measure_running(
    peers: Sequence[Peer],
    count: int,
    work: Workplace,
    recorder: Recorder,
    way: Way = Way.SHELL,
) -> None:
    """Record what a daemon takes for each job that runs; all daemons at one instant."""
    with ExitStack() as stack:
        start = next_multiple(MINUTE_S, lead=6.0 + len(peers))
        running: list[Started] = []
        for peer in peers:
            directory = work.directory()
            when = Seconds((0,)) if peer.has_seconds else Minutely()
            stay = MINUTE_S - 20
            jobs = due(
                count, when, work.tick, directory / "stamps", label="stay", way=way, stay_s=stay
            )
            running.append(stack.enter_context(Started(peer, jobs, directory)))
        wait_until(start - 1)
        before = [usage(daemon.pid) for daemon in running]
        wait_until(start + 12 + 2 * len(peers))
        for daemon, then in zip(running, before, strict=True):
            now = usage(daemon.pid)
            recorder.add(
                "running",
                daemon.peer.name,
                kind=way.value,
                count=count,
                jobs=now.jobs,
                processes=now.processes,
                threads=now.threads,
                threads_before=then.threads,
                pss_kb=now.pss_kb,
                pss_kb_before=then.pss_kb,
                kb_a_job=(now.pss_kb - then.pss_kb) / max(now.jobs, 1),
            )


def measure_load(
    peers: Sequence[Peer], counts: Sequence[int], work: Workplace, recorder: Recorder
) -> None:
    """Record how long a large crontab takes to be read, and what it takes then; one by one."""
    for count in counts:
        for peer in peers:
            if count > peer.most_jobs:
                continue
            directory = work.directory()
            jobs: list[Job] = far_away(count, work.tick, directory / "stamps")
            with Started(peer, jobs, directory) as daemon:
                ready_s, most_kb = daemon.settle(LOAD_LIMIT_S)
                now = usage(daemon.pid)
                recorder.add(
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


def _said_up(daemon: Started) -> float | None:
    """Return when the daemon's log says that it is up, in seconds after its start (pycron only)."""
    for line in (daemon.directory / "log").read_text("utf-8", "replace").splitlines():
        if '"event"' in line and "is up" in line:
            at = datetime.fromisoformat(json.loads(line)["time"])
            return at.timestamp() - daemon.began_wall_s
    return None
