"""Which of the processes there are belong to a run's tree. Pure: a snapshot in, processes out.

A tree is its leader (the process that was started) and whatever descends from it. Marks tell a
descendant, since each can be lost: the session id (until setsid), the chain of parents (until
one of them ends), and those that it carries itself (see ``marks``).
What was known before counts as well, and leads on to its own children and its session.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crond_py.runner.proctree import Process, Snapshot


class Root(NamedTuple):
    """Where a tree begins: its leader, and the marks that all of it inherited.

    ``is_pinned``: the leader is our own child and not reaped yet, so its number, also as that of
    a session and a process group, cannot mean anybody else. ``pid`` 0: there is no leader.
    ``users``: whose processes are believed when they show the marks; None: everybody's.
    ``has_earlier``: what shows the marks of an earlier attempt of the run belongs to it, too.
    """

    pid: int
    start_ticks: int
    tag: str
    attempt: int
    is_pinned: bool
    users: frozenset[int] | None = None
    has_earlier: bool = False


def find_descendants(snapshot: Snapshot, root: Root, known: Mapping[int, int]) -> list[Process]:
    """Return the living processes of the tree, without its leader and without ourselves.

    ``known`` maps the pids of members found before to their start ticks, so that one whose
    leader has gone still leads to its own children.

    Nothing that started before the leader can descend from it, only from an earlier attempt.
    Where the leader is not pinned, its session counts only through members: as long as one is in
    it, the kernel does not give the number to anyone else.
    """
    me = os.getpid()
    candidates = {
        process.pid: process
        for process in snapshot.processes.values()
        if (root.has_earlier or process.start_ticks >= root.start_ticks)
        and not process.is_zombie
        and process.pid != me
    }
    members = {pid for pid, ticks in known.items() if _is_same(candidates.get(pid), ticks)}
    leader_is_there = root.is_pinned or _is_same(snapshot.processes.get(root.pid), root.start_ticks)
    if leader_is_there:
        members.add(root.pid)
        members.update(p.pid for p in candidates.values() if p.session == root.pid)
    members = _close(snapshot, candidates, members)
    shown = snapshot.marks(pid for pid in candidates if pid not in members)
    members.update(
        pid
        for pid, marks in shown.items()
        if marks.name(root.tag, root.attempt, or_earlier=root.has_earlier)
        and (root.users is None or snapshot.owner(pid) in root.users)
    )
    members = _close(snapshot, candidates, members)
    if leader_is_there:
        members.discard(root.pid)
    return [candidates[pid] for pid in sorted(members)]


def _is_same(process: Process | None, ticks: int) -> bool:
    return process is not None and process.start_ticks == ticks


def _close(
    snapshot: Snapshot, candidates: Mapping[int, Process], members: Iterable[int]
) -> set[int]:
    """Return ``members`` with all that descend from them or are in a session of theirs."""
    children, sessions = defaultdict(list), defaultdict(list)
    for process in candidates.values():
        children[process.parent].append(process.pid)
        sessions[process.session].append(process.pid)
    found: set[int] = set()
    waiting = list(members)
    while True:
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting.extend(children[pid])
        for pid, others in sessions.items():
            is_theirs = any(other in found for other in others)
            if is_theirs and _was_begun_by(snapshot, pid, found):
                waiting.extend(other for other in others if other not in found)
        if not waiting:
            return found


def _was_begun_by(snapshot: Snapshot, session: int, members: set[int]) -> bool:
    """Return whether a session that a member is in began within the tree.

    A program that a person runs with a run's environment is in the session of that person's
    terminal: its leader lives and is no member, or the leader has gone and what is oldest there
    is no member. Our own session is nobody's, and 0 stands for all whose leader is in no
    namespace of ours.
    """
    if session in {0, os.getsid(0)}:
        return False
    leader = snapshot.processes.get(session)
    if leader is not None and not leader.is_zombie:
        return session in members
    others = snapshot.session(session)
    oldest = min(process.start_ticks for process in others)
    return any(p.pid in members for p in others if p.start_ticks == oldest)
