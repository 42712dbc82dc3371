"""What is said of processes that a run leaves behind: sentences for its row in the history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from crond_py.printable import printable_line
from crond_py.runner import proctree
from crond_py.runner.proctree import Process

_MOST_NAMED = 3


def describe_left(processes: Sequence[Process]) -> str:
    """Return what runs on, ``left 1 process running: sleep (pid 4711)``, or "" for nothing."""
    if not processes:
        return ""
    noun = "process" if len(processes) == 1 else "processes"
    named = [f"{_name(process.pid)} (pid {process.pid})" for process in processes[:_MOST_NAMED]]
    if len(processes) > _MOST_NAMED:
        named.append(f"and {len(processes) - _MOST_NAMED} more")
    return f"left {len(processes)} {noun} running: {', '.join(named)}"


def describe_spared(spared: Mapping[int, int]) -> str:
    """Return which processes could not be ended since they are not ours, or "" for none.

    ``spared`` has their start ticks by pid; one that has ended since is not spoken of.
    """
    return _described(
        spared, lambda pid: f"belongs to {_owner(pid)} and could not be ended", "nor could"
    )


def describe_strays(strays: Mapping[int, int]) -> str:
    """Return which processes were not ended since nothing tells whose they are, or "" for none.

    ``strays`` is as above.
    """
    said = "was left: nothing tells whether it came from this run"
    return _described(strays, lambda _pid: said, "so were")


def _described(processes: Mapping[int, int], said: Callable[[int], str], of_others: str) -> str:
    """Return what is ``said`` of the first of the processes that are there, and how many follow."""
    there = _still_there(processes)
    parts = [f"process {pid} ({_name(pid)}) {said(pid)}" for pid in there[:_MOST_NAMED]]
    if len(there) > _MOST_NAMED:
        parts.append(f"{of_others} {len(there) - _MOST_NAMED} more")
    return "; ".join(parts)


def describe_elusive() -> str:
    """Return what is said of a tree that nobody can be sure to have ended."""
    return "some of it forks faster than it can be ended, and may run on"


def describe_doubts() -> str:
    """Return what is said where what forks away shows nothing of whose it is."""
    return "what forks away was left: nothing tells whether it came from this run"


def _still_there(processes: Mapping[int, int]) -> list[int]:
    """Return the pids of those that have not ended, out of start ticks by pid."""
    found = [(proctree.read_process(pid), ticks) for pid, ticks in processes.items()]
    return [
        process.pid
        for process, ticks in found
        if process is not None and process.start_ticks == ticks and not process.is_zombie
    ]


def _name(pid: int) -> str:
    return printable_line(proctree.name_of(pid)) or "ended since"


def _owner(pid: int) -> str:
    user = proctree.owner_of(pid)
    # Not looked up: a directory service may be slow, and others wait for this thread.
    return "root" if user == 0 else f"user {user}" if user is not None else "another user"
