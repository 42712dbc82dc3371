"""The keys of the small tables of a crontab: retries, limits, what to keep, pools, groups.

What a default is and how the tables go together is in ``keys`` and ``jobs``.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import timedelta
from typing import Any, Final

from crond_py.crontab.faults import Refused
from crond_py.crontab.fields import Fields, Key, by_name
from crond_py.crontab.model import Group, Job
from crond_py.crontab.setup_values import OrNone
from crond_py.crontab.sizes import Size
from crond_py.crontab.values import Duration, Factor, Integer, Kind
from crond_py.dataclass import dataclass
from crond_py.model import Retry

SMALLEST_OUTPUT: Final = 4096
"""Less output than a page is kept of no run: its beginning and end would tell nothing."""

_MIB: Final = 1024 * 1024
_MOST_FILES: Final = 2**30  # the kernel's own ceiling, see NR_OPEN in proc_sys_fs(5)
_MOST_PROCESSES: Final = 2**22  # PID_MAX_LIMIT, see proc_sys_kernel(5)
_ANY: Final = Duration()
_SOME: Final = Duration(minimum=timedelta(milliseconds=1))
_CPU: Final = Duration(minimum=timedelta(seconds=1), step=timedelta(seconds=1))


def defaults_of(model: type) -> dict[str, object]:
    """Return the defaults of a dataclass's fields."""
    return {field.name: field.default for field in fields(model) if field.default is not MISSING}


_JOB: Final = defaults_of(Job)
_RETRY: Final = defaults_of(Retry)


def _retry(name: str, kind: Kind, doc: str) -> Key:
    return Key(name, kind, doc, _RETRY[name])


RETRY_KEYS: Final = by_name(
    (
        _retry(
            "attempts", Integer(1, 1000), "How often a run is tried in all, the first included."
        ),
        _retry("delay", _ANY, "How long to wait before the second attempt."),
        _retry("backoff", Factor(1, 100), "What the delay is multiplied by from one to the next."),
        _retry("max_delay", _ANY, "The longest delay; where only delay is given, at least that."),
        _retry("jitter", _ANY, "Up to how much longer a delay may be, by chance."),
    )
)

LIMITS_KEYS: Final = by_name(
    (
        Key(
            "address_space",
            OrNone(Size(minimum=_MIB)),
            "How much memory each process may map, RLIMIT_AS of getrlimit(2).",
        ),
        Key(
            "cpu",
            OrNone(_CPU),
            "How much time on a processor each process may use, in whole seconds; then it gets"
            " SIGKILL.",
        ),
        Key(
            "open_files",
            OrNone(Integer(4, _MOST_FILES)),
            "How many descriptors each process may have.",
        ),
        Key(
            "processes",
            OrNone(Integer(1, _MOST_PROCESSES)),
            "How many processes and threads the user may have, all of the user's counted; it does"
            " not bind root.",
        ),
        Key("file_size", OrNone(Size()), "How large a file may become that a process writes to."),
        Key("core", OrNone(Size()), "How large a core dump may be; 0: there is none."),
    )
)

_LIMIT_FIELDS: Final = {
    "address_space": "address_space_bytes",
    "file_size": "file_size_bytes",
    "core": "core_bytes",
}


@dataclass(frozen=True, slots=True)
class LimitsTable(Fields):
    """The limits of a process; "none" takes back one of the defaults."""

    def read(self, value: object) -> Any:
        """Return the fields of the model's ``Limits`` that are said."""
        said = Fields.read(self, value)
        return {_LIMIT_FIELDS.get(name, name): bound for name, bound in said.items()}


KEEP_KEYS: Final = by_name(
    (
        Key("runs", Integer(1, 10_000_000), "How many finished runs are kept.", _JOB["keep_runs"]),
        Key("days", Factor(0.001, 36_525), "For how many days a finished run is kept."),
        Key("for", _SOME, "The same as days, as a duration.", _JOB["keep_for"]),
        Key(
            "bytes",
            Size(minimum=SMALLEST_OUTPUT),
            "How much the outputs of the job's runs may take on the disk in all.",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Keep(Fields):
    """How many runs are kept, how long, and how much of output: what is not said has no bound."""

    def read(self, value: object) -> Any:
        """Return the model's ``keep_runs``, ``keep_for`` and ``keep_bytes``."""
        bounds = Fields.read(self, value)
        if "days" in bounds and "for" in bounds:
            raise Refused("has both days and for, which say the same", "take one of them out")
        if not bounds:
            raise Refused("says nothing", "write for example { runs = 100, days = 30 }")
        period = bounds.get("for")
        if "days" in bounds:
            period = timedelta(days=bounds["days"])
        return {
            "keep_runs": bounds.get("runs"),
            "keep_for": period,
            "keep_bytes": bounds.get("bytes"),
        }


GROUP_KEYS: Final = by_name(
    (
        Key(
            "weight",
            Factor(0.001, 1_000_000),
            "How large the group's share of the slots is beside those of other groups.",
            Group("").weight,
        ),
        Key(
            "max_running",
            Integer(1, 100_000),
            "How many runs of the group's jobs go on at most, in all pools together.",
        ),
    )
)

POOL_KEYS: Final = by_name(
    (
        Key(
            "workers",
            Integer(1, 100_000),
            "How many runs of the pool's jobs go on at most; without it, any number.",
        ),
        Key(
            "lag_warning",
            _SOME,
            "How late a run of the pool may start before the log tells that runs start late.",
        ),
    )
)
