"""Takes under watch what was not started just now: survivors, and what is left of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from crond_py.errors import CannotStartError
from crond_py.model import Exit
from crond_py.ports import ProcessSpec, Survivor
from crond_py.runner import pidfds, proctree
from crond_py.runner.accounts import find_account
from crond_py.runner.child import Child
from crond_py.runner.supervisor import Supervisor


def adopt(supervisor: Supervisor, spec: ProcessSpec, survivor: Survivor) -> Child | None:
    """Watch a survivor as if it had been started here; None if it has just ended."""
    try:
        pidfd = pidfds.open_verified(survivor.pid, survivor.start_ticks)
    except OSError:  # out of descriptors: it may be there, and is looked for
        pidfd = None
    else:
        if pidfd is None:
            return None
    child = Child(
        spec.key,
        tag=survivor.tag,
        pid=survivor.pid,
        start_ticks=survivor.start_ticks,
        pidfd=pidfd,
        is_own=False,
        is_adopted=True,
        users=users_by_now(spec, survivor.uid),
        leftovers=spec.leftovers,
    )
    return child if supervisor.watch(child) else None


def identified(survivor: Survivor) -> Survivor | None:
    """Return a survivor with its user, also one of which only the ledger tells: by pid and start.

    None if that is a zombie, or gone: it has ended unseen.
    """
    if survivor.uid is not None:
        return survivor
    try:
        process = proctree.read_process(survivor.pid)
        if process is None or process.is_zombie or process.start_ticks != survivor.start_ticks:
            return None
        return replace(survivor, uid=proctree.owner_of(survivor.pid))
    except OSError:  # out of descriptors: it may be there
        return survivor


def adopt_rest(supervisor: Supervisor, spec: ProcessSpec, survivors: Sequence[Survivor]) -> bool:
    """Watch what is left of an attempt whose own process is gone; False if nothing is left."""
    users = users_of(spec)
    believed = [s for s in survivors if users is None or s.uid is None or s.uid in users]
    members: dict[int, tuple[int, int]] = {}
    is_short = False
    for each in believed:
        try:
            pidfd = pidfds.open_verified(each.pid, each.start_ticks)
        except OSError:  # likewise
            is_short = True
        else:
            if pidfd is not None:
                members[pidfd] = (each.pid, each.start_ticks)
    if not members and not is_short:
        return False
    child = headless(spec, users)
    child.is_adopted = True
    return supervisor.watch_rest(child, members, is_short=is_short)


def headless(spec: ProcessSpec, users: frozenset[int] | None) -> Child:
    """Return an attempt whose leader is gone; how it has ended is not told again."""
    return Child(
        spec.key,
        tag=spec.tag,
        pid=0,
        start_ticks=None,
        pidfd=None,
        is_own=False,
        users=users,
        has_ended=True,
        exit=Exit(),
    )


def users_of(spec: ProcessSpec) -> frozenset[int] | None:
    """Return whose processes are believed when they show the marks of a spec's run; None: all are.

    They are those of the users whom its attempts were started as, whatever its job says by now.
    All are where nobody knows one of them any more (a pycron that did not enter it has started the
    attempt, and the job was removed while no daemon ran) or at the moment.

    Then a stranger can have a process of his own taken for a member of the run. That harms nobody
    else: it is such processes, and what descends from them, that are ended, and a run that is being
    ended waits for them until ``kill_after`` at most. (One that is not, as its start was never
    entered, goes on with them until somebody cancels it.) Not believed, the run's own would live on
    and be said to have ended. If we are not root, no run can have had another user than we are.
    """
    if not spec.is_user_known and os.geteuid() == 0:
        return None
    is_own = spec.user is None or not spec.is_user_known
    return users_beside(spec, os.geteuid() if is_own else _find_uid(spec.user))


def users_beside(spec: ProcessSpec, uid: int | None) -> frozenset[int] | None:
    """Return whose processes may belong to a run whose present attempt is of the user ``uid``.

    Where earlier attempts were of others that asks the user database, which may be slow. None:
    everybody's, as one of the users is not known.
    """
    uids = {uid, *map(_find_uid, spec.earlier_users)}
    known = {each for each in uids if each is not None}
    return proctree.trusted_users() | known if len(known) == len(uids) else None


def users_by_now(spec: ProcessSpec, uid: int | None) -> frozenset[int] | None:
    """Return the same where nobody has to be asked for that; else None."""
    return None if spec.earlier_users else users_beside(spec, uid)


def names_user(spec: ProcessSpec) -> bool:
    """Return whether only the user database knows whose a spec's processes are."""
    return spec.is_user_known and bool(spec.user is not None or spec.earlier_users)


def _find_uid(user: str | None) -> int | None:
    """Return the number of a user, None where nobody knows that at the moment."""
    try:
        return find_account(user).uid
    except CannotStartError:
        return None
