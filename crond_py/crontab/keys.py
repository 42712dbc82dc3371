"""Every key of a crontab: its name, its kind of value and a line that says what it is for.

The loader, ``[defaults]``, the JSON Schema and the manual pages are made from these tables. A
default is that of the model's field and is looked up there.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from crond_py.crontab.faults import Refused
from crond_py.crontab.fields import Fields, Key, Named, by_name
from crond_py.crontab.model import EveryTrigger, Job
from crond_py.crontab.outcome_values import ExitCodes, Failures
from crond_py.crontab.process_values import AbsolutePath, Command, Environment, Umask
from crond_py.crontab.setup_values import Files, Login, OrNone, Stdin
from crond_py.crontab.sizes import Size
from crond_py.crontab.tables import (
    GROUP_KEYS,
    KEEP_KEYS,
    LIMITS_KEYS,
    POOL_KEYS,
    RETRY_KEYS,
    SMALLEST_OUTPUT,
    Keep,
    LimitsTable,
    defaults_of,
)
from crond_py.crontab.triggers import PERIOD, After, Expressions, Moment, Startup
from crond_py.crontab.values import (
    JOB_NAME,
    Choice,
    Duration,
    Flag,
    Integer,
    Kind,
    Name,
    Never,
    Text,
    Words,
    Zone,
)
from crond_py.dataclass import dataclass
from crond_py.model import (
    Align,
    DstFold,
    DstGap,
    EveryMode,
    Leftovers,
    Missed,
    OnCrash,
    OnStop,
    OutputMode,
    Overlap,
)

_JOB: Final = defaults_of(Job)
_SOME: Final = Duration(minimum=timedelta(milliseconds=1))
_ANY: Final = Duration()
_WHOLE: Final = Duration(step=timedelta(milliseconds=1))

MODEL_NAMES: Final = {"env_file": "env_files"}
"""The names of fields of the model where they are not those of their keys."""

NOT_YET: Final = Never("is not supported yet", "leave it out")
"""The value of a key that the format has and this version does nothing with."""


@dataclass(frozen=True, slots=True)
class _OfJobs(Never):
    """The value of a job's key that stands outside of all jobs.

    ``table``: that of the file which somebody means who makes a table of such a name.
    """

    table: str = ""

    def read(self, value: object) -> Any:
        """Refuse every value."""
        if self.table and isinstance(value, dict):
            raise Refused(self.message, f"a {self.table[:-1]} is a table [{self.table}.NAME]")
        return Never.read(self, value)


def _job(name: str, kind: Kind, doc: str) -> Key:
    """Return a job's key that is a field of the model, with its default."""
    return Key(name, kind, doc, _JOB.get(MODEL_NAMES.get(name, name)))


SCHEDULE_KEYS: Final = by_name(
    (
        Key(
            "schedule",
            Expressions(),
            "When the job is due: a cron expression of five fields, of six with the seconds first,"
            " a name such as @daily, or an array of these.",
            in_defaults=False,
        ),
        Key("every", PERIOD, "The interval at which the job is due.", in_defaults=False),
        Key(
            "at",
            Moment(),
            "The one date-time at which the job is due; without an offset, in the job's zone.",
            in_defaults=False,
        ),
        Key(
            "startup",
            Startup(),
            'True: due once whenever the daemon starts; "boot": once whenever the machine starts.',
            in_defaults=False,
        ),
        Key(
            "after",
            After(),
            "The jobs whose runs of one cycle must have ended before this one is due: an array of"
            ' those that must have succeeded, or a table of names with "success", "failure" or'
            ' "any".',
            in_defaults=False,
        ),
    )
)
"""A job has exactly one of these."""

_SUPPORTED_JOB_KEYS: Final = (
    Key(
        "command",
        Command(),
        "What to run: text for the shell, or an array executed as it is.",
        in_defaults=False,
    ),
    _job("timezone", Zone(), "The IANA time zone of schedule, at and align."),
    _job("enabled", Flag(), "Whether the job is ever due."),
    _job("description", Text(1000), "What the job is for."),
    _job("tags", Words("words"), "Labels, which list --json shows to other programs."),
    _job("hosts", Words("host names"), "The hosts on which the job is enabled."),
    Key(
        "every_mode",
        Choice(EveryMode),
        "What every counts from: the previous due time"
        " (fixed-rate) or the end of the previous run (fixed-delay).",
        EveryTrigger(timedelta(1)).mode,
    ),
    Key(
        "align",
        Choice(Align),
        "The unit of the wall clock that every divides evenly: the job is due where the clocks of"
        " its zone show a multiple of the interval (every 15m of the hour: :00, :15, :30, :45), on"
        " both passes of a time that comes twice, and not for one that the clocks jump over.",
        in_defaults=False,
    ),
    Key(
        "offset",
        _WHOLE,
        "How much later than the times of align the job is due; without align, how long after it"
        " is first seen it is first due (0s: at once). Less than every.",
        in_defaults=False,
    ),
    _job(
        "jitter",
        _WHOLE,
        "How far due times of schedule and every may be spread: all of a job's are later by one"
        " amount below this and below the distance between them, which is made from the names of"
        " the host and the job. 0s: not at all.",
    ),
    _job(
        "overlap",
        Choice(Overlap),
        "What becomes of a run that is due while an earlier one is still active: it is skipped,"
        " waits in a queue, starts beside it, or takes its place.",
    ),
    _job("queue_limit", Integer(1, 100_000), 'How many runs wait at most with overlap = "queue".'),
    _job("max_running", Integer(1, 100_000), 'How many runs go on at most with overlap = "allow".'),
    _job(
        "missed",
        Choice(Missed),
        "What becomes of runs that were due while nothing could start them.",
    ),
    _job("missed_within", _SOME, "How old a missed run may be to be made up."),
    _job("missed_limit", Integer(1, 100_000), 'How many runs missed = "all" makes up at most.'),
    _job(
        "dst_gap",
        Choice(DstGap),
        "Whether a fixed time that the clocks jump over is due after the jump.",
    ),
    _job(
        "dst_fold", Choice(DstFold), "On which pass a fixed time is due that the clocks show twice."
    ),
    _job("on_crash", Choice(OnCrash), "What becomes of a run that a crash cut short."),
    _job("timeout", _SOME, "After how long an attempt is ended with SIGTERM."),
    _job("kill_after", _ANY, "How long after SIGTERM what is left is ended with SIGKILL."),
    _job("start_within", _SOME, "How long a run may wait for its start; then it is skipped."),
    Key(
        "retry",
        Fields(RETRY_KEYS, number="attempts"),
        "When a run that failed or timed out is tried again.",
    ),
    _job(
        "retry_on",
        Failures(),
        "What is tried again of the ways to fail: exit statuses, timeout (it took too long), signal"
        " (it was ended by one), start (it could not be started). Without it, all of them.",
    ),
    _job("success_codes", ExitCodes(), "The exit statuses that count as success."),
    _job(
        "on_stop",
        Choice(OnStop),
        "What becomes of a run when the daemon is stopped: it is waited for, ended at once, or left"
        " running for the next daemon to take over.",
    ),
    _job(
        "leftovers",
        Choice(Leftovers),
        "What becomes of processes that outlive the command of a run: they are left alone or"
        " ended.",
    ),
    _job("pool", Name(), "The pool whose slots the job's runs take."),
    _job(
        "priority", Integer(-1_000_000, 1_000_000), "Who goes first of those that wait: the higher."
    ),
    _job(
        "group",
        Name(),
        "Whose share of the slots the job's runs count to; without it, a share of the job's own.",
    ),
    _job("env", Environment(), "Environment variables, as written; they go over those of [env]."),
    _job("cwd", AbsolutePath(), "The working directory; without it, the home directory."),
    _job("shell", AbsolutePath(is_program=True), "The shell that runs a command that is text."),
    _job("umask", Umask(), "The file mode bits that are taken away, in octal."),
    _job(
        "user",
        Login(),
        "The user that runs the command, by name or number, with the groups and the home directory"
        " of that user; without it, the user of the daemon. Only root can run as another.",
    ),
    _job(
        "env_file",
        Files(),
        "A file of environment variables, or an array of them, each over the ones before; they are"
        " read whenever a run starts, and env goes over them.",
    ),
    _job("nice", Integer(-20, 19), "The nice value: the higher, the less of a busy processor."),
    Key(
        "limits",
        LimitsTable(LIMITS_KEYS),
        "Resource limits of the processes, put together with those of [defaults] key by key.",
    ),
    _job(
        "stdin",
        Stdin(),
        'What the command reads: this text, or as { file = "/path" } a file. Without it, nothing.',
    ),
    _job(
        "output",
        Choice(OutputMode, "for a file of your own, have the command write it: ... >> FILE 2>&1"),
        "Where output goes: into each run's own file; besides that, line by line, into the log of"
        " the daemon (stream) or the journal of systemd; or nowhere (discard).",
    ),
    _job(
        "output_limit",
        OrNone(Size(minimum=SMALLEST_OUTPUT)),
        "How much is kept of what an attempt prints: of more, the beginning and the end.",
    ),
    Key(
        "keep",
        Keep(KEEP_KEYS),
        "How many runs are kept, for how long, and how much of their output; a bound that is not"
        " given does not hold.",
    ),
)

_LATER_JOB_KEYS: Final = (Key("notify", NOT_YET, "Who is told of the outcome."),)

JOB_KEYS: Final = by_name((*SCHEDULE_KEYS.values(), *_SUPPORTED_JOB_KEYS, *_LATER_JOB_KEYS))

DEFAULTS_KEYS: Final = by_name(
    key
    if key.in_defaults
    else replace(key, kind=Never("is of one job and no default", "write it in [jobs.NAME]"))
    for key in JOB_KEYS.values()
)

FILE_KEYS: Final = by_name(
    (
        _job("timezone", Zone(), "The time zone of every job that names none; else the system's."),
        Key("env", Environment(), "Environment variables of every job, as written."),
        Key(
            "defaults",
            Fields(DEFAULTS_KEYS),
            "What holds for every job that does not say otherwise.",
        ),
        Key(
            "pools",
            Named(Fields(POOL_KEYS, number="workers")),
            "Sets of worker slots.",
        ),
        Key("jobs", Named(Fields(JOB_KEYS, required=("command",)), JOB_NAME), "The jobs."),
        Key("groups", Named(Fields(GROUP_KEYS)), "Groups of jobs and their shares of the slots."),
        Key("notify", NOT_YET, "Whom to tell of outcomes, and how."),
        *(
            replace(
                key,
                kind=_OfJobs(
                    "is a key of a job",
                    "put it below a [jobs.NAME] or [defaults]",
                    {"pool": "pools", "group": "groups"}.get(key.name, ""),
                ),
            )
            for key in JOB_KEYS.values()
            if key.name not in ("timezone", "env", "notify")
        ),
    )
)
