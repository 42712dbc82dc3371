"""The crontab: from TOML files to frozen jobs, or to the list of all that is wrong with them.

    apart       has a crontab read by a process of its own: what the daemon does;  __main__: that
                process;  handover: what goes between the two
    loader      which files there are and how they go together: ``load_crontab``
    source      one path to the tables of one file;  syntax: what is wrong where it is not TOML
    jobs        one job's table, with what it inherits, to a ``model.Job``;  intervals, retries:
                whether what stands in it fits together
    keys        every key there is;  tables: those of the small tables in it
    fields, values, process_values, setup_values, outcome_values, sizes, triggers: how each is read
    faults      how a fault is worded, collected and given its line;  locate: lines of keys
    model       the crontab as data: what everybody else sees
    tasks       submitted tasks: what one says, and the job that runs it;  task_keys: its keys
    summary     fingerprints, short texts, what a reload has changed
    schema      the JSON Schema for editors

A crontab is taken whole or refused whole: ``load_crontab`` returns a Crontab without a fault, or
raises CrontabError with every fault of every file. A key that this version does nothing with is
refused, never ignored. Reading has no effect on anything, so a daemon that reloads keeps what it
has until it holds something better.

The names below are loaded when they are first used: the daemon needs the model, not its loader.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from crond_py.crontab.loader import load_crontab
    from crond_py.crontab.summary import CrontabDiff, describe_trigger, diff_crontabs, fingerprint

__all__ = ["CrontabDiff", "describe_trigger", "diff_crontabs", "fingerprint", "load_crontab"]

_HOMES: Final = {
    "load_crontab": "crond_py.crontab.loader",
    "CrontabDiff": "crond_py.crontab.summary",
    "describe_trigger": "crond_py.crontab.summary",
    "diff_crontabs": "crond_py.crontab.summary",
    "fingerprint": "crond_py.crontab.summary",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
