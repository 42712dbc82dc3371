"""What ``pycron exec`` and ``pycron env`` share: a job, and a run of it that no ledger knows."""

from __future__ import annotations

import os
import pwd
import secrets

from crond_py.cli import say
from crond_py.cli.names import crontab_in_force, no_such_job
from crond_py.clock import SystemClock
from crond_py.crontab import load_crontab
from crond_py.crontab.model import Job
from crond_py.launch import Launchpad
from crond_py.model import Cause, Run, State
from crond_py.places import Places
from crond_py.ports import ProcessSpec


def find_job(name: str, places: Places, option: str | None) -> Job:
    """Return a job of the crontab that is named, or that the running daemon has.

    ``option`` is the value of ``--crontab``. Raises UnknownNameError with the nearest one.
    """
    crontab = crontab_in_force(places, option)
    jobs = load_crontab(crontab).jobs
    if name not in jobs:
        raise no_such_job(name, jobs, crontab)
    return jobs[name]


def note_other_user(job: Job, places: Places) -> None:
    """Say so where the daemon's runs of the job are not the caller's, but its own user's.

    Whose the state directory is, is whose the daemon is.
    """
    try:
        owner = places.state_dir.stat().st_uid
    except OSError:
        return  # no daemon has run on it yet
    if job.user is None and owner != os.geteuid():
        say.note(
            f"{places.state_dir} belongs to {_user_name(owner)}: a daemon on it runs this job as"
            " that user, and this is what it is for you"
        )


def _user_name(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def spec_of(job: Job, places: Places) -> ProcessSpec:
    """Return what a run of the job that is due now would be started by.

    It is made by what makes the daemon's. The name that it has in place of a ledger's is its own,
    so its PYCRON_RUN_ID is that of no other run.
    """
    now = SystemClock().now().replace(microsecond=0)
    run = Run(os.getpid(), job.name, 0, now, Cause.MANUAL, State.RUNNING, now)
    return Launchpad(places.state_dir, f"exec-{secrets.token_hex(4)}")(job, run, 1)
