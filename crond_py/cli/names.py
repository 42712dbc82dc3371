"""Names of jobs as people type them: whether there is such a job, and which one was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from crond_py.crontab import load_crontab
from crond_py.errors import CrontabError, UnknownNameError
from crond_py.places import Places


def no_such_job(name: str, known: Iterable[str], where: object) -> UnknownNameError:
    """Return the error that names the nearest job."""
    near = get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UnknownNameError(f"there is no job {name!r} in {where}{hint}")


def check_known_job(name: str, places: Places) -> None:
    """Raise UnknownNameError where the crontab can be read and has no such job."""
    try:
        known = load_crontab(places.crontab).jobs
    except CrontabError:
        return  # nobody can say
    if name not in known:
        raise no_such_job(name, known, places.crontab)
