"""How many processes a second can be started: the runner beside what Python itself can do.

    python -m tests.benchmarks.parts.spawn [--count 500] [--rounds 3]

Each way starts COUNT processes as fast as it can and lets them end; the time is taken from the
first start to the last. All run in one go, one after another in each round, so that the ratios
hold on a busy machine too. The runner does more than the others: it looks the program up, opens
an output file, finds out when the process started, watches it by a pidfd and reports. The last
rows are of jobs with a user (fork in place of vfork), and with limits (a Python in between).
"""

from __future__ import annotations

import argparse
import os
import queue
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from crond_py.clock import SystemClock
from crond_py.model import Limits
from crond_py.ports import AttemptKey, Ended, OutputSpec, ProcessEvent, ProcessSpec, Started
from crond_py.runner.process import ProcessRunner

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYCRON_RUN_ID": "bench-1"}
COMMANDS = {"/bin/sh -c true": ("/bin/sh", "-c", "true"), "/bin/true": ("/bin/true",)}
CLOCK = SystemClock()
NO_LIMITS = Limits()


def _reap(pids: list[int]) -> None:
    for pid in pids:
        os.waitpid(pid, 0)


def _posix_spawn(argv: tuple[str, ...], count: int, _directory: Path) -> float:
    begin = CLOCK.monotonic_ns()
    pids = [os.posix_spawn(argv[0], argv, ENVIRONMENT, setsid=True) for _ in range(count)]
    seconds = (CLOCK.monotonic_ns() - begin) / 1e9
    _reap(pids)
    return seconds


def _popen(argv: tuple[str, ...], count: int, _directory: Path) -> float:
    begin = CLOCK.monotonic_ns()
    pids = []
    for _ in range(count):
        process = subprocess.Popen(
            argv, env=ENVIRONMENT, stdin=subprocess.DEVNULL, start_new_session=True, cwd="/"
        )
        process.returncode = 0
        pids.append(process.pid)
    seconds = (CLOCK.monotonic_ns() - begin) / 1e9
    _reap(pids)
    return seconds


def _runner(
    argv: tuple[str, ...],
    count: int,
    directory: Path | None,
    user: str | None = None,
    limits: Limits = NO_LIMITS,
) -> float:
    events: queue.SimpleQueue[ProcessEvent] = queue.SimpleQueue()
    runner = ProcessRunner(events.put, CLOCK)
    runner.open()
    begin = CLOCK.now()
    for number in range(count):
        output = None if directory is None else OutputSpec(directory / f"{number}.log")
        key = AttemptKey(number, 1)
        runner.start(
            ProcessSpec(
                key, "bench-1", argv, ENVIRONMENT, "/", 0o022, output, user=user, limits=limits
            )
        )
    last, ended = begin, 0
    while ended < count:
        event = events.get(timeout=60)
        if isinstance(event, Started):
            last = max(last, event.started_at)
        elif isinstance(event, Ended):
            ended += 1
        else:
            sys.exit(str(event))
    runner.close()
    return (last - begin).total_seconds()


def _runner_without_output(argv: tuple[str, ...], count: int, _directory: Path) -> float:
    return _runner(argv, count, None)


def _runner_with_user(argv: tuple[str, ...], count: int, directory: Path) -> float:
    return _runner(argv, count, directory, user="nobody")


def _runner_with_limits(argv: tuple[str, ...], count: int, directory: Path) -> float:
    return _runner(argv, count, directory, limits=Limits(open_files=100))


WAYS: dict[str, Callable[[tuple[str, ...], int, Path], float]] = {
    "os.posix_spawn": _posix_spawn,
    "subprocess.Popen": _popen,
    "runner, output dropped": _runner_without_output,
    "runner, output to files": _runner,
    **({"runner, another user": _runner_with_user} if os.geteuid() == 0 else {}),
    "runner, limits": _runner_with_limits,
}


def main() -> None:
    """Print a table of starts a second, the best round of each."""
    parser = argparse.ArgumentParser(description="Starts a second, ours beside bare Python.")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    write = sys.stdout.write
    for name, argv in COMMANDS.items():
        best = dict.fromkeys(WAYS, 0.0)
        for _ in range(options.rounds):
            for way, measure in WAYS.items():
                with tempfile.TemporaryDirectory() as directory:
                    seconds = measure(argv, options.count, Path(directory))
                best[way] = max(best[way], options.count / seconds)
        write(f"{name}, {options.count} at once\n")
        for way, rate in best.items():
            write(f"  {way:<24} {rate:7.0f} starts/s  {rate / best['os.posix_spawn']:5.0%}\n")


if __name__ == "__main__":
    main()
