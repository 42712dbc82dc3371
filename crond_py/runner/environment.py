r"""What a job's process is given: its environment and its command line.

The environment is small, the same on every start, and not the daemon's own. In order, the later
winning:

=============  ===================================================================
PATH           ``/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin``
HOME           the account's home directory
LOGNAME, USER  the account's name
SHELL          the job's shell
LANG           ``C.UTF-8``
...            what stands in the job's ``env_file`` (see ``envfile``), then ``[env]`` of the
               crontab, then ``env`` of the job: byte for byte, no interpolation
PYCRON_*       ``PYCRON_RUN_ID``, ``PYCRON_JOB``, ``PYCRON_DUE``, ``PYCRON_ATTEMPT``;
               the crontab cannot change these
=============  ===================================================================

TZ is not set: a job sees the machine's zone unless its crontab says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from crond_py.runner.accounts import Account

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANG = "C.UTF-8"

RESERVED = frozenset({"PYCRON_RUN_ID", "PYCRON_JOB", "PYCRON_DUE", "PYCRON_ATTEMPT"})
"""The names that pycron gives a value of its own in every process."""


def base_environment(account: Account, *, shell: str) -> dict[str, str]:
    """Return the part of the environment that comes before the crontab's own."""
    return {
        "PATH": PATH,
        "HOME": account.home,
        "LOGNAME": account.name,
        "USER": account.name,
        "SHELL": shell,
        "LANG": LANG,
    }


def build_environment(
    *,
    job_env: Mapping[str, str],
    identity: str,
    run_id: int,
    job: str,
    due: datetime,
    attempt: int,
) -> dict[str, str]:
    """Return what the crontab and pycron itself put into an attempt's environment.

    ``PYCRON_RUN_ID`` is the ledger's ``identity``, a hyphen and the run's id; ``PYCRON_DUE`` is
    ``due`` in UTC as RFC 3339 writes it (``2026-03-29T01:00:00Z``).
    """
    return {
        **job_env,
        "PYCRON_RUN_ID": run_tag(identity, run_id),
        "PYCRON_JOB": job,
        "PYCRON_DUE": due.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "PYCRON_ATTEMPT": str(attempt),
    }


def run_tag(identity: str, run_id: int) -> str:
    """Return the value of PYCRON_RUN_ID, by which a run's processes are found in /proc."""
    return f"{identity}-{run_id}"


def command_argv(command: str | tuple[str, ...], shell: str) -> tuple[str, ...]:
    """Return what is executed: a string through the shell, a tuple as it is."""
    return (shell, "-c", command) if isinstance(command, str) else command
