"""Words that users of cron, systemd, supercronic, yacron and others write, and the keys for them.

It is asked about keys that are not known; what is only misspelt is left to ``faults.nearest``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from types import MappingProxyType
from typing import Final

from crond_py.crontab.faults import dotted

# Each key, and what it is called elsewhere: in lower case, without "_" and "-".
_CALLED: Final = {
    "command": "cmd run exec execstart script program argv",
    "schedule": "cron cronspec crontab spec oncalendar expression cronexpression",
    "timezone": "tz crontz zone",
    "every": "interval period repeat onunitactivesec onunitinactivesec",
    "startup": "reboot onreboot onboot onbootsec onstartupsec",
    "after": "dependson depends requires needs wants",
    "cwd": "workdir workingdir workingdirectory dir directory chdir pwd",
    "env": "environment environ envvars vars variables",
    "env_file": "environmentfile envfile dotenv",
    "user": "runas username",
    "stdin": "input standardinput",
    "nice": "niceness",
    "description": "comment desc",
    "overlap": "concurrencypolicy concurrency overlapping allowoverlap flock lock",
    "missed": "persistent catchup misfire",
    "missed_within": "misfiregracetime",
    "start_within": "startingdeadlineseconds",
    "jitter": "randomizeddelaysec randomdelay splay",
    "timeout": "executiontimeout timeoutsec runtimemaxsec maxruntime activedeadlineseconds",
    "kill_after": "killtimeout timeoutstopsec graceperiod",
    "max_running": "maxinstances parallel parallelism",
    "retry": "retries maxretries restart",
    "output": "stdout stderr log logfile standardoutput capturestdout capturestderr",
    "attempts": "maximumretries maxattempts retries tries",
    "delay": "initialdelay retrydelay",
    "backoff": "backoffmultiplier",
    "max_delay": "maximumdelay",
    "address_space": "memory mem memorymax as limitas",
    "open_files": "nofile limitnofile",
    "processes": "nproc limitnproc tasksmax",
    "file_size": "fsize limitfsize",
    "workers": "size slots concurrency",
}
_KEYS: Final = MappingProxyType(
    {
        word: tuple(key for key, words in _CALLED.items() if word in words.split())
        for words in _CALLED.values()
        for word in words.split()
    }
)
NO_MAIL: Final = "there is no mail; pycron history and pycron logs tell what became of each run"
_MAIL: Final = frozenset({"mailto", "mailfrom", "mail", "email"})
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)
_AFTERWARDS_IF_FAILED: Final = frozenset({"onfailure", "onerror", "onfail"})
_AFTERWARDS: Final = _AFTERWARDS_IF_FAILED | {"onsuccess", "then", "next", "before"}
_OF_A_JOB: Final = frozenset({"command", "schedule", "every", "at", "after", "startup"})


def known_elsewhere(
    name: str, value: object, keys: Collection[str], other_keys: Collection[str] = ()
) -> str:
    """Return how that is written here which ``name`` is a word for, or "".

    ``keys`` are those of the table that it stands in, and ``other_keys`` those that are known but
    belong elsewhere.
    """
    word = re.sub("[_-]", "", name.casefold())
    if word in _MAIL:
        return NO_MAIL
    called = _KEYS.get(word, ())
    if here := next((key for key in called if key in keys), None):
        return f'here it is called "{here}"'
    is_variable = _VARIABLE.fullmatch(name) is not None and not isinstance(value, dict)
    if "jobs" in keys:
        there = next((key for key in called if key in other_keys), "")
        return _for_file(name, value, there, is_variable=is_variable)
    is_variable = is_variable and name.casefold() not in keys
    if "key" in keys:
        return _for_task(word, is_variable=is_variable)
    return _for_job(word, is_variable=is_variable) if "env" in keys else ""


def key_of(name: str) -> str:
    """Return whose key ``name`` is, which is none of the table that it stands in, or ""."""
    # They are made of kinds that ask this module.
    from crond_py.crontab.keys import JOB_KEYS  # noqa: PLC0415
    from crond_py.crontab.tables import (  # noqa: PLC0415
        GROUP_KEYS,
        KEEP_KEYS,
        LIMITS_KEYS,
        POOL_KEYS,
        RETRY_KEYS,
    )

    owners = (
        ("a job", JOB_KEYS),
        ("a pool", POOL_KEYS),
        ("a group", GROUP_KEYS),
        ("retry", RETRY_KEYS),
        ("limits", LIMITS_KEYS),
        ("keep", KEEP_KEYS),
    )
    found = [owner for owner, keys in owners if name in keys and keys[name].is_supported]
    return f"it is a key of {' or '.join(found)}" if found else ""


def _for_file(name: str, value: object, key: str, *, is_variable: bool) -> str:
    """Say it of a word that stands outside of all tables; ``key`` is that of a job for it."""
    if isinstance(value, dict) and _is_like_a_job(value):
        return f"a job is a table [{dotted(('jobs', name))}]"
    if key:
        return f'here it is called "{key}", and is a key of a job'
    if name == "SHELL":
        return 'write shell = "/bin/sh" below [defaults]'
    return "a variable stands below [env]" if is_variable else ""


def _for_job(word: str, *, is_variable: bool) -> str:
    """Say it of a word that stands in a job or in the defaults."""
    if word in _AFTERWARDS:
        condition = "failure" if word in _AFTERWARDS_IF_FAILED else "success"
        return f'write in another job: after = {{ NAME_OF_THIS_ONE = "{condition}" }}'
    if word in {"disabled", "suspend"}:
        return "write enabled = false"
    if word == "name":
        return "the name of a job is in its header, [jobs.NAME]"
    return "a variable stands in env" if is_variable and word != "shell" else ""


def _for_task(word: str, *, is_variable: bool) -> str:
    """Say it of a word that stands in a submitted task."""
    if word in _AFTERWARDS:
        return "jobs that follow others belong in the crontab"
    if word in {"disabled", "suspend"}:
        return "leave it out; pycron cancel takes a task back"
    if word == "name":
        return 'a task gets a number; a name of your own is its "key"'
    return "a variable stands in env" if is_variable and word != "shell" else ""


def _is_like_a_job(table: dict[str, object]) -> bool:
    words = {re.sub("[_-]", "", key.casefold()) for key in table}
    return bool(_OF_A_JOB & words) or any(_OF_A_JOB & {*_KEYS.get(word, ())} for word in words)
