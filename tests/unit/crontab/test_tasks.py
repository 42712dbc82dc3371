"""What a submitted task says: read, refused, stored, and made a job of again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crond_py.client import TaskKeys
from crond_py.crontab.model import AtTrigger, EveryTrigger, Job
from crond_py.crontab.on_demand import TaskJobsOnDemand
from crond_py.crontab.task_keys import TASK_KEYS, WHEN_KEYS
from crond_py.crontab.tasks import TaskReader
from crond_py.errors import TaskRefusedError
from crond_py.model import Lane, Limits, Overlap, Retry, Scale, Task
from crond_py.ports import NewTask
from tests.support.crontabs import load

NOON = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)

CRONTAB = """
timezone = "Europe/Berlin"

[defaults]
timeout = "5m"
retry = { attempts = 3, delay = "1s" }
limits = { open_files = 100 }
overlap = "queue"
enabled = false
jitter = "1m"

[env]
LANG = "C"

[pools.batch]
workers = 2

[groups.nightly]
weight = 2

[jobs.any]
every = "1h"
command = "true"
"""


@pytest.fixture
def reader(tmp_path: Path) -> TaskReader:
    """Make a reader of tasks under a crontab with defaults."""
    return TaskReader(load(tmp_path / "crontab.toml", CRONTAB))


def stored(reader: TaskReader, **values: Any) -> NewTask:
    """Return what a task of alice's becomes that is handed in at noon; ``in_`` is its key in."""
    said = {name.removesuffix("_"): value for name, value in values.items()}
    return reader.read(said).task("alice", NOON)


def job_of(reader: TaskReader, new: NewTask) -> Job:
    """Return the job that the runs of a stored task are of."""
    return reader.job(
        Task(17, new.lane, new.due, new.definition, "alice", NOON, new.period, new.key)
    )


def refusal(reader: TaskReader, **values: Any) -> list[str]:
    """Return the faults of a task as lines."""
    with pytest.raises(TaskRefusedError) as caught:
        stored(reader, **values)
    return str(caught.value).splitlines()


# --- when ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "due", "scale"),
    [
        ({"in_": "10m"}, "2026-11-01T12:10:00+00:00", Scale.STEADY),
        ({"in_": "0s"}, "2026-11-01T12:00:00+00:00", Scale.STEADY),
        ({"every": "5m"}, "2026-11-01T12:05:00+00:00", Scale.STEADY),
        ({"every": "5m", "offset": "0s"}, "2026-11-01T12:00:00+00:00", Scale.STEADY),
        ({"at": "2026-12-24 18:00"}, "2026-12-24T17:00:00+00:00", Scale.WALL),
        ({"at": "2026-12-24T18:00:00.5"}, "2026-12-24T17:00:00.500000+00:00", Scale.WALL),
        ({"at": "2026-12-24T18:00:00Z"}, "2026-12-24T18:00:00+00:00", Scale.WALL),
        ({"at": "2026-12-24T18:00+05:30"}, "2026-12-24T12:30:00+00:00", Scale.WALL),
        ({"at": "2026-12-24"}, "2026-12-23T23:00:00+00:00", Scale.WALL),
        (
            {"at": "2026-12-24T18:00", "timezone": "America/New_York"},
            "2026-12-24T23:00:00+00:00",
            Scale.WALL,
        ),
        # A reading that the clocks jump over is due at the first instant after it.
        ({"at": "2027-03-28 02:30"}, "2027-03-28T01:00:00+00:00", Scale.WALL),
        # What has passed is due at once.
        ({"at": "2020-01-01T00:00:00Z"}, "2026-11-01T12:00:00+00:00", Scale.WALL),
    ],
)
def test_due(reader: TaskReader, when: dict[str, str], due: str, scale: Scale) -> None:
    """Elapsed time counts from the submission, a reading of the clock is one of the task's zone."""
    new = stored(reader, command="true", **when)
    assert (new.due.isoformat(), new.lane.scale) == (due, scale)


def test_only_an_interval_comes_again(reader: TaskReader) -> None:
    """``every`` is the one that has a period."""
    assert stored(reader, command="true", every="5m").period == timedelta(minutes=5)
    assert stored(reader, command="true", in_="5m").period is None


# --- lanes, keys and definitions ----------------------------------------------------------------


def test_lane_is_of_the_submitter_unless_it_says_otherwise(reader: TaskReader) -> None:
    """The default group is the submitting user; pool, priority and group can be said."""
    assert stored(reader, command="x", in_="1s").lane == Lane("default", 0, "alice", Scale.STEADY)
    new = stored(reader, command="x", in_="1s", pool="batch", priority=-3, group="nightly", key="k")
    assert new.lane == Lane("batch", -3, "nightly", Scale.STEADY)
    assert (new.key, new.submitted_by) == ("k", "alice")


def test_a_group_may_be_called_almost_as_one_that_has_a_table(reader: TaskReader) -> None:
    """Groups need no table, so that there is one of that name says nothing."""
    assert stored(reader, command="x", in_="1m", group="nightly2").lane.group == "nightly2"


def test_definition_is_what_was_said_of_how_it_runs(reader: TaskReader) -> None:
    """It is one text however it was put; what stands beside it in the store is not in it."""
    one = stored(reader, command=["a", "ü"], in_="1s", pool="batch", key="k", timeout="1m", cwd="/")
    other = stored(
        reader, cwd="/", timeout="1m", command=["a", "ü"], at="2026-12-24", user=None, dst_gap="run"
    )
    assert one.definition == other.definition == '{"command":["a","ü"],"cwd":"/","timeout":"1m"}'


# --- the job of a task --------------------------------------------------------------------------


def test_job_has_what_the_task_says_and_else_the_defaults(reader: TaskReader) -> None:
    """What is inherited is what a job of the main file inherits; tables go together key by key."""
    new = stored(
        reader,
        command="echo $X",
        in_="1s",
        pool="batch",
        priority=5,
        env={"X": "1"},
        retry={"delay": "9s"},
        limits={"cpu": "2s"},
        umask="077",
    )
    job = job_of(reader, new)
    assert (job.name, job.command, job.pool, job.priority) == ("task:17", "echo $X", "batch", 5)
    assert (job.group, job.timeout) == ("alice", timedelta(minutes=5))
    assert (job.overlap, job.umask) == (Overlap.QUEUE, 0o077)
    assert job.env == {"LANG": "C", "X": "1"}
    assert job.retry == Retry(attempts=3, delay=timedelta(seconds=9))
    assert job.limits == Limits(open_files=100, cpu=timedelta(seconds=2))
    assert job.trigger == AtTrigger(new.due)


def test_job_is_on_whatever_the_defaults_say_of_jobs(reader: TaskReader) -> None:
    """Switches and the spreading of timetables are for jobs: a task that was submitted runs."""
    job = job_of(reader, stored(reader, command="true", every="5m"))
    assert (job.enabled, job.hosts, job.jitter) == (True, (), None)
    assert job.trigger == EveryTrigger(timedelta(minutes=5))


def test_a_task_that_comes_again_has_a_keep_of_its_own(reader: TaskReader) -> None:
    """It bounds its runs; the files of all tasks lie together and are not bounded one by one."""
    job = job_of(reader, stored(reader, command="true", every="1s", keep={"runs": 5}))
    assert (job.keep_runs, job.keep_for) == (5, None)
    (fault,) = refusal(reader, command="true", every="1s", keep={"bytes": "1M"})
    assert fault == (
        "keep.bytes: is a key of jobs in a crontab, not of tasks"
        " (leave it out; output_limit bounds what each run keeps)"
    )


def test_tasks_that_say_the_same_share_what_they_have(reader: TaskReader) -> None:
    """Many tasks that run stay small."""
    one = job_of(reader, stored(reader, command="true", in_="1s", env={"X": "1"}))
    other = job_of(reader, stored(reader, command="true", in_="9s", env={"X": "1"}))
    assert one.env is other.env
    assert one.retry is other.retry


def test_many_different_tasks_are_not_all_remembered(reader: TaskReader) -> None:
    """What was read once is let go, and read again where it comes again."""
    first = job_of(reader, stored(reader, command="0", in_="1s", env={"X": "1"}))
    for number in range(1, 1000):
        job_of(reader, stored(reader, command=str(number), in_="1s"))
    again = job_of(reader, stored(reader, command="0", in_="1s", env={"X": "1"}))
    assert again == first
    assert again.env is not first.env


def test_task_takes_the_defaults_that_are_in_force_when_it_is_taken_up(
    reader: TaskReader, tmp_path: Path
) -> None:
    """What was stored before a reload runs by the crontab after it."""
    new = stored(reader, command="true", in_="1s")
    later = TaskReader(load(tmp_path / "crontab.toml", CRONTAB.replace('"5m"', '"7m"')))
    assert job_of(later, new).timeout == timedelta(minutes=7)


def test_task_keeps_the_lane_that_it_was_handed_in_to(reader: TaskReader, tmp_path: Path) -> None:
    """Its pool, priority and group are those of the defaults that were in force then."""
    new = stored(reader, command="x", in_="1h")
    changed = CRONTAB.replace("[defaults]", '[defaults]\npool = "batch"\npriority = 7\ngroup = "g"')
    later = TaskReader(load(tmp_path / "later.toml", changed))
    assert stored(later, command="x", in_="1h").lane == Lane("batch", 7, "g", Scale.STEADY)
    job = job_of(later, new)
    assert (job.pool, job.priority, job.group) == ("default", 0, "alice")


def test_task_that_does_not_fit_any_more_says_why(reader: TaskReader, tmp_path: Path) -> None:
    """It is no fault of the program's: whoever takes it up gets a sentence."""
    new = stored(reader, command="true", in_="1s", success_codes=[0, 7])
    text = CRONTAB.replace("[defaults]", "[defaults]\nretry_on = [7]")
    later = TaskReader(load(tmp_path / "crontab.toml", text))
    with pytest.raises(TaskRefusedError, match="which is in retry_on of the defaults"):
        job_of(later, new)


def test_pool_that_is_gone_is_no_fault_of_the_task(reader: TaskReader, tmp_path: Path) -> None:
    """Whoever takes tasks up lets it wait for its pool."""
    new = stored(reader, command="true", in_="1s", pool="batch")
    later = TaskReader(
        load(tmp_path / "crontab.toml", CRONTAB.replace("[pools.batch]", "[pools.b]"))
    )
    assert job_of(later, new).pool == "batch"


@pytest.mark.parametrize(
    "definition",
    ['{"command":"true","umask":18}', "{}", "[]", "5", "{oops", "", '{"comand":1}', "[" * 100_000],
)
def test_definition_that_was_tampered_with_is_refused(reader: TaskReader, definition: str) -> None:
    """P8: whatever the ledger holds, a sentence says what is wrong with it."""
    new = stored(reader, command="true", in_="1s")
    with pytest.raises(TaskRefusedError):
        job_of(reader, replace(new, definition=definition))


# --- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        (
            {},
            [
                'has no command (add "command")',
                "does not say when it is due (add one of at, in and every)",
            ],
        ),
        (
            {"comand": "x", "evry": "5m"},
            [
                'comand: is not a key that is known here (did you mean "command"?)',
                'evry: is not a key that is known here (did you mean "every"?)',
            ],
        ),
        (
            {"command": "x", "in": "5m", "at": "2026-12-24"},
            [
                (
                    "in: stands beside at; a task has one of at, in and every"
                    " (make two tasks of it, or take one out)"
                )
            ],
        ),
        (
            {"command": "x", "at": "18:00"},
            ['at: must be a date-time such as "2026-12-24T18:00:00+01:00", not "18:00"'],
        ),
        (
            {"command": "x", "at": "2027-03-28 02:30", "dst_gap": "skip"},
            [
                (
                    "at: 2027-03-28T02:30:00 does not come in Europe/Berlin: the clocks jump over"
                    " it (write another time, or one with its offset)"
                )
            ],
        ),
        (
            {"command": "x", "in": "1m", "pool": "btch", "group": "nightyl"},
            ['pool: there is no pool "btch" (did you mean "batch"?)'],
        ),
        (
            {"command": "x", "in": "1m", "umask": 22},
            ['umask: must be octal text such as "022", not 22'],
        ),
        (
            {"command": "x", "in": "1m", "offset": "1s"},
            ["offset: has no meaning without every (take it out)"],
        ),
        (
            {"command": "x", "in": "1m", "keep": {"runs": 5}},
            [
                (
                    "keep: has no meaning without every"
                    " (take it out; keep of [defaults] says how long tasks are kept)"
                )
            ],
        ),
        (
            {"command": "x", "every": "5m", "offset": "5m"},
            ["offset: must be shorter than the interval, 5m"],
        ),
        (
            {"command": "x", "every": "1ms"},
            ['every: must be a duration from 100ms to 36525d, not "1ms"'],
        ),
        (
            {"command": "x", "in": "1m", "retry": {"delay": "9h", "max_delay": "1s"}},
            ["retry: has a max_delay that is shorter than its delay"],
        ),
        (
            {"command": ["x", 5], "in": "1m", "env": {"A": 1}},
            [
                'command[1]: must be text, not 5 (write "5")',
                'env.A: must be text, not 1 (write "1")',
            ],
        ),
        (
            {"command": "a\ud800", "in": "1m", "cwd": "/\udfff"},
            [
                "command: has a character that is none: half of a surrogate pair",
                "cwd: has a character that is none: half of a surrogate pair",
            ],
        ),
        (
            {"command": "x", "in": "1m", "key": ""},
            ['key: must be text of 1 to 200 printable characters, not ""'],
        ),
    ],
)
def test_faults(reader: TaskReader, values: dict[str, Any], faults: list[str]) -> None:
    """Each says the key, what is wrong and the way out, and all are told in one go."""
    assert refusal(reader, **values) == faults


@pytest.mark.parametrize(
    "key", ["schedule", "startup", "after", "enabled", "hosts", "every_mode", "align", "jitter"]
)
def test_keys_that_are_for_jobs_only_are_refused(reader: TaskReader, key: str) -> None:
    """They are never ignored; the fault says that they are known, and what to do."""
    (fault,) = refusal(reader, command="x", in_="1m", **{key: "anything"})
    assert fault.startswith(f"{key}: is a key of jobs in a crontab, not of tasks (")


def test_the_client_knows_every_key() -> None:
    """What a task can say, a program can say; what it cannot say is no parameter."""
    supported = {key.name for key in TASK_KEYS.values() if key.is_supported}
    assert set(TaskKeys.__annotations__) == supported - {*WHEN_KEYS, "command", "key"}


WILD = [
    None, True, 0, -1, 10**30, 1e999, float("nan"), "", "\ud800", "\0", "x" * 200_000, [], [[]],
    [None], {}, {"": {}}, {"\ud800": "\ud800"}, [{"a": 1}],
]  # fmt: skip


@pytest.mark.parametrize("key", TASK_KEYS)
def test_no_value_does_more_than_be_refused(reader: TaskReader, key: str) -> None:
    """P9: whatever a client sends comes out as a refusal or as a task that can be stored."""
    for value in WILD:
        values = {"command": "true", **({} if key in ("at", "every") else {"in": "1m"}), key: value}
        try:
            new = reader.read(values).task("alice", NOON)
        except TaskRefusedError as error:
            str(error).encode()
        else:
            json.loads(new.definition.encode())
            assert job_of(reader, new).name == "task:17"


@pytest.mark.parametrize(
    ("first", "again", "keys"),
    [
        ({"in_": "1h"}, {"in_": "1h"}, []),
        ({"in_": "1h"}, {"in_": "2h"}, []),  # an hour later, it may be the same
        ({"in_": "1h"}, {"in_": "1h", "timeout": "1h"}, ["timeout"]),
        ({"in_": "1h", "cwd": "/"}, {"in_": "1h"}, ["cwd"]),
        ({"in_": "1h"}, {"in_": "1h", "command": "false"}, ["command"]),
        ({"in_": "1h"}, {"every": "1h"}, ["every"]),
        ({"every": "1h"}, {"every": "2h"}, ["every"]),
        ({"every": "1h"}, {"every": "60m"}, []),
        ({"in_": "1h"}, {"at": "2026-11-01T13:00:00Z"}, ["at"]),
        ({"at": "2026-11-01T13:00:00Z"}, {"in_": "1h"}, ["at"]),
        ({"at": "2026-11-01T13:00:00Z"}, {"at": "2026-11-01T14:00:00"}, []),  # of Berlin
        ({"at": "2026-11-01T13:00:00Z"}, {"at": "2026-11-01T13:00:01Z"}, ["at"]),
        ({"at": "2020-01-01T00:00:00Z"}, {"at": "2020-01-01T00:00:00Z"}, []),  # due at once
        ({"at": "2020-01-01T00:00:00Z"}, {"at": "2026-11-02T00:00:00Z"}, ["at"]),
        ({"in_": "1h"}, {"in_": "1h", "pool": "batch", "priority": 1, "group": "nightly"},
         ["pool", "priority", "group"]),
        ({"in_": "1h"}, {"in_": "1h", "group": "alice"}, []),
        ({"in_": "1h"}, {"in_": "1h", "priority": 0, "timeout": None}, []),
        # A table that goes over another key by key says nothing without keys.
        ({"in_": "1h", "env": {}}, {"in_": "1h", "limits": {}}, []),
        ({"in_": "1h", "env": {"A": "1"}}, {"in_": "1h", "env": {}}, ["env"]),
    ],
)  # fmt: skip
def test_what_is_said_otherwise_the_second_time(
    reader: TaskReader, first: dict[str, Any], again: dict[str, Any], keys: list[str]
) -> None:
    """The keys are named, but for spans that count from when the task was handed in."""
    said = {"command": "true"}
    new = stored(reader, **{**said, **first})
    task = Task(17, new.lane, new.due, new.definition, "alice", NOON, new.period, "key")
    values = {name.removesuffix("_"): value for name, value in {**said, **again}.items()}
    assert list(reader.read(values).differences(task)) == keys


@pytest.mark.parametrize(
    ("keep", "runs", "days"),
    [("", 1000, 90), ("[defaults]\nkeep = {runs = 20, days = 3}\n", 20, 3)],
)
def test_keep_of_what_cannot_be_used(tmp_path: Path, keep: str, runs: int, days: int) -> None:
    """How much is kept of tasks is known without a definition."""
    jobs = TaskJobsOnDemand(load(tmp_path / "crontab.toml", f"{keep}[jobs]\n"))
    assert (jobs.keep_runs, jobs.keep_for) == (runs, timedelta(days=days))
