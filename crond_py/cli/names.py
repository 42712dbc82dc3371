"""Names of jobs as people type them: whether there is such a job, and which one was meant.

Also which crontab is meant where nobody names one: that of the daemon, if one is running.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crond_py.cli.ledgers import reading
from crond_py.crontab import load_crontab
from crond_py.errors import CrontabError, PycronError, UnknownNameError
from crond_py.model import TASK_PREFIX, task_id_of
from crond_py.places import CRONTAB_VARIABLE, Places

if TYPE_CHECKING:
    from crond_py.control.client import Conversation

_BRIEFLY: Final = timedelta(seconds=3)
"""How long a daemon may take to say which crontab it has; the question is not worth more."""


def is_run_id(target: str) -> bool:
    """Tell whether the argument is the number of a run and not the name of a job."""
    return target.isascii() and target.isdigit()


def task_id(target: str) -> int | None:
    """Return the number of a task that is written ``17`` or ``task:17``; None where it is none."""
    return int(target) if is_run_id(target) else task_id_of(target)


def no_such_job(name: str, known: Iterable[str], where: object) -> UnknownNameError:
    """Return the error that names the nearest job."""
    if (number := task_id_of(name)) is not None:
        what = f"{name} names a submitted task, and this command takes jobs alone"
        return UnknownNameError(f"{what}; pycron tasks {number} tells of it")
    if name.lower().startswith(TASK_PREFIX):
        return UnknownNameError(f"{name!r} names no task; write {TASK_PREFIX}NUMBER, as task:17")
    return UnknownNameError(f"there is no job {name!r} in {where}{_hint(name, known)}")


def no_such_task(number: int) -> UnknownNameError:
    """Return the error that says where the tasks are listed."""
    return UnknownNameError(f"there is no task {number}; pycron tasks --all lists those there are")


def _hint(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_known(name: str, places: Places, option: str | None = None) -> None:
    """Raise UnknownNameError where there is no such job, or no such task."""
    number = task_id_of(name)
    if number is None:
        check_known_job(name, places, option)
        return
    with reading(places) as ledger:
        if ledger is None or ledger.task(number) is None:
            raise no_such_task(number)


def check_known_job(name: str, places: Places, option: str | None = None) -> None:
    """Raise UnknownNameError where the crontab can be read and has no such job.

    ``option`` is the value of ``--crontab``.
    """
    crontab = crontab_in_force(places, option)
    try:
        known = load_crontab(crontab).jobs
    except CrontabError:
        return  # nobody can say
    if name not in known:
        raise no_such_job(name, known, crontab)


def crontab_in_force(places: Places, option: str | None) -> Path:
    """Return the crontab that is meant.

    That is the one that the option or the environment names, else the one that the daemon on this
    state directory has, else the usual one.
    """
    if option or os.environ.get(CRONTAB_VARIABLE):
        return places.crontab
    with suppress(PermissionError):  # told by those who need the daemon
        if not places.socket.exists():
            return places.crontab
    # Only where a daemon may be running is there somebody to talk to.
    from crond_py.control.client import call  # noqa: PLC0415
    from crond_py.control.protocol import GetStatus  # noqa: PLC0415

    try:
        files = call(places.socket, GetStatus(), _BRIEFLY).crontab
    except PycronError:
        return places.crontab  # there is no daemon, or none that answers
    return Path(files[0]) if files else places.crontab


def with_nearest(
    error: UnknownNameError, name: str, conversation: Conversation
) -> UnknownNameError:
    """Return what the daemon says of a job that it does not know, with the nearest that it does."""
    from crond_py.control.protocol import ListJobs  # noqa: PLC0415 - see above

    if name.lower().startswith(TASK_PREFIX):
        return no_such_job(name, (), "")
    known = (job.name for job in conversation.call(ListJobs()).jobs)
    return UnknownNameError(f"{error}{_hint(name, known)}")
