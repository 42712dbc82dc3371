"""A good crontab becomes the jobs that it describes, wherever their values come from."""

from __future__ import annotations

import platform
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from crond_py.crontab.loader import load_crontab
from crond_py.crontab.model import (
    AtTrigger,
    CronTrigger,
    EveryTrigger,
    Group,
    Job,
    Pool,
    StartupTrigger,
)
from crond_py.dataclass import shared_part
from crond_py.model import (
    Align,
    DstFold,
    DstGap,
    EveryMode,
    Failure,
    Leftovers,
    Limits,
    Missed,
    OnCrash,
    OnStop,
    OutputMode,
    Overlap,
    Retry,
)
from tests.support.crontabs import faults, load

JOB = '[jobs.a]\nschedule = "* * * * *"\ncommand = "true"\n'


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    """Return the path of a crontab that is not there yet."""
    return tmp_path / "crontab.toml"


def test_a_job_of_three_lines_has_the_defaults_of_the_model(crontab: Path) -> None:
    """What a job does not say is what the model says, and nothing else sets a default."""
    jobs = load(crontab, JOB).jobs
    assert jobs["a"] == Job("a", CronTrigger(("* * * * *",)), "true")


def test_a_crontab_for_submitted_tasks_alone(crontab: Path) -> None:
    """It says that it has no jobs by a table of them that is empty; a pool needs no bound."""
    crontab.write_text('[jobs]\n[pools.default]\nlag_warning = "5s"\n')
    loaded = load_crontab(crontab, hostname="here")
    assert not loaded.jobs
    assert loaded.pools["default"] == Pool("default", None, timedelta(seconds=5))


def test_a_group_needs_no_table(crontab: Path) -> None:
    """It may be called almost as one that has a table, also in the defaults."""
    text = "[groups.tenant-1]\n[defaults]\ngroup = 'tenant-2'\n"
    jobs = load(
        crontab, f"{text}{JOB}[jobs.b]\nevery = '1h'\ncommand = 'true'\ngroup = 'tenant-3'\n"
    ).jobs
    assert [jobs[name].group for name in "ab"] == ["tenant-2", "tenant-3"]


def test_every_key(crontab: Path) -> None:
    """Each key reaches its field of the model, in the type of the model."""
    text = """
[groups.night]
weight = 2.5
max_running = 3
[groups.plain]
[pools.batch]
workers = 2
[jobs.a]
schedule = ["0 1 * * *", " 0  2 * * * "]
command = ["/bin/echo", "", "x"]
timezone = "America/New_York"
enabled = true
description = "two\\nlines"
tags = ["t", "u"]
hosts = ["alpha", "beta"]
overlap = "queue"
queue_limit = 3
max_running = 4
missed = "all"
missed_within = "12h"
missed_limit = 7
dst_gap = "skip"
dst_fold = "both"
jitter = "10m"
on_crash = "rerun"
timeout = "1h30m"
kill_after = "0s"
start_within = "90s"
retry = { attempts = 3, delay = "5s", backoff = 3, max_delay = "10m", jitter = "1s" }
success_codes = [0, 3]
pool = "batch"
priority = -5
env = { A = "$x \\"'=\\n", B = "" }
cwd = "/srv"
shell = "/bin/bash"
umask = "077"
user = "www-data"
env_file = ["/etc/a.env", "/etc/b.env"]
nice = -20
stdin = "one\\ntwo"
output = "discard"
output_limit = "64K"
keep = { runs = 5, days = 1.5, bytes = "1G" }
retry_on = [75, "timeout", "signal", "start"]
on_stop = "leave"
leftovers = "kill"
group = "night"
[jobs.a.limits]
address_space = "2G"
cpu = "90s"
open_files = 256
processes = 64
file_size = "1.5M"
core = "0"
"""
    expected = Job(
        name="a",
        trigger=CronTrigger(("0 1 * * *", "0 2 * * *")),
        command=("/bin/echo", "", "x"),
        timezone="America/New_York",
        enabled=True,
        description="two\nlines",
        tags=("t", "u"),
        hosts=("alpha", "beta"),
        overlap=Overlap.QUEUE,
        queue_limit=3,
        max_running=4,
        missed=Missed.ALL,
        missed_within=timedelta(hours=12),
        missed_limit=7,
        dst_gap=DstGap.SKIP,
        dst_fold=DstFold.BOTH,
        jitter=timedelta(minutes=10),
        on_crash=OnCrash.RERUN,
        timeout=timedelta(minutes=90),
        kill_after=timedelta(0),
        start_within=timedelta(seconds=90),
        retry=Retry(3, timedelta(seconds=5), 3.0, timedelta(minutes=10), timedelta(seconds=1)),
        success_codes=frozenset({0, 3}),
        pool="batch",
        priority=-5,
        group="night",
        env=MappingProxyType({"A": "$x \"'=\n", "B": ""}),
        cwd="/srv",
        shell="/bin/bash",
        umask=0o077,
        keep_runs=5,
        keep_for=timedelta(hours=36),
        keep_bytes=1024**3,
        output=OutputMode.DISCARD,
        output_limit=65536,
        user="www-data",
        env_files=("/etc/a.env", "/etc/b.env"),
        nice=-20,
        stdin="one\ntwo",
        retry_on=frozenset({75, Failure.TIMEOUT, Failure.SIGNAL, Failure.START}),
        on_stop=OnStop.LEAVE,
        leftovers=Leftovers.KILL,
        limits=Limits(
            address_space_bytes=2 * 1024**3,
            cpu=timedelta(seconds=90),
            open_files=256,
            processes=64,
            file_size_bytes=1_572_864,
            core_bytes=0,
        ),
    )
    loaded = load(crontab, text)
    assert loaded.jobs["a"] == expected
    assert loaded.jobs["a"].source == f"{crontab}:8"
    assert loaded.pools == {"default": Pool("default"), "batch": Pool("batch", 2)}
    assert loaded.groups == {"night": Group("night", 2.5, 3), "plain": Group("plain", 1.0, None)}
    assert loaded.files == (crontab,)


VALUES = [
    ("umask-zeros", 'umask = "0022"', "umask", 0o022),
    ("umask-octal", "umask = 0o027", "umask", 0o027),
    ("umask-prefix", 'umask = "0o077"', "umask", 0o077),
    ("umask-zero", "umask = 0", "umask", 0),
    ("keep-runs", "keep = { runs = 9 }", "keep_for", None),
    ("keep-for", 'keep = { for = "12h" }', "keep_for", timedelta(hours=12)),
    ("keep-for-alone", 'keep = { for = "12h" }', "keep_runs", None),
    ("output-file", 'output = "file"', "output", OutputMode.FILE),
    ("disabled", "enabled = false", "enabled", False),
    ("other-host", 'hosts = ["beta"]', "enabled", False),
    ("this-host", 'hosts = ["beta", "Alpha.Example.org"]', "enabled", True),
    ("short-host", 'hosts = ["alpha"]', "enabled", True),
    ("no-prefix-of-a-host", 'hosts = ["alph"]', "enabled", False),
    ("other-domain", 'hosts = ["alpha.example.com"]', "enabled", False),
    ("disabled-here", 'enabled = false\nhosts = ["alpha"]', "enabled", False),
    ("long-delay", 'retry = { attempts = 2, delay = "2h" }', "retry",
     Retry(2, timedelta(hours=2), max_delay=timedelta(hours=2))),
    ("replace", 'overlap = "replace"', "overlap", Overlap.REPLACE),
    ("stream", 'output = "stream"', "output", OutputMode.STREAM),
    ("journal", 'output = "journal"', "output", OutputMode.JOURNAL),
    ("limit-none", 'output_limit = "none"', "output_limit", None),
    ("limit-bytes", "output_limit = 4096", "output_limit", 4096),
    ("limit-decimals", 'output_limit = "1.5M"', "output_limit", 1_572_864),
    ("limit-digits", 'output_limit = "5000"', "output_limit", 5000),
    ("limit-iec", 'output_limit = "10 MiB"', "output_limit", 10_485_760),
    ("keep-bytes", 'keep = { bytes = "2T" }', "keep_bytes", 2 * 1024**4),
    ("keep-bytes-alone", 'keep = { bytes = "2T" }', "keep_runs", None),
    ("keep-no-bytes", "keep = { runs = 3 }", "keep_bytes", None),
    ("one-env-file", 'env_file = "/e"', "env_files", ("/e",)),
    ("no-env-file", "env_file = []", "env_files", ()),
    ("user-id", 'user = "0"', "user", "0"),
    ("user-largest-id", 'user = "4294967294"', "user", "4294967294"),
    ("user-of-a-domain", 'user = "jane.doe@example.org"', "user", "jane.doe@example.org"),
    ("user-of-another-domain", 'user = "CORP\\\\jane doe"', "user", "CORP\\jane doe"),
    ("user-machine", 'user = "host$"', "user", "host$"),
    ("stdin-file", 'stdin = { file = "/dev/zero" }', "stdin", Path("/dev/zero")),
    ("stdin-nothing", 'stdin = ""', "stdin", ""),
    ("nice", "nice = 19", "nice", 19),
    ("a-failure", 'retry_on = [1]\nretry = { attempts = 2 }', "retry_on", frozenset({1})),
    ("on-stop", 'on_stop = "terminate"', "on_stop", OnStop.TERMINATE),
    ("text-mode-table", 'env.A = "1"', "env", {"A": "1"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "line", "field", "value"), VALUES, ids=[v[0] for v in VALUES])
def test_values(name: str, line: str, field: str, value: Any, crontab: Path) -> None:
    """A value in each of its spellings means what it says."""
    assert getattr(load(crontab, f"{JOB}{line}\n").jobs["a"], field) == value


def at(*parts: int) -> AtTrigger:
    """Return a moment in UTC."""
    return AtTrigger(datetime(*parts, tzinfo=UTC))  # type: ignore[arg-type]  # six small integers


FIXED, DELAY = EveryMode.FIXED_RATE, EveryMode.FIXED_DELAY
TRIGGERS = [
    ("every", 'every = "15s"', EveryTrigger(timedelta(seconds=15), FIXED)),
    ("shortest", 'every = "100ms"', EveryTrigger(timedelta(milliseconds=100), FIXED)),
    ("delay", 'every = "1h"\nevery_mode = "fixed-delay"', EveryTrigger(timedelta(hours=1), DELAY)),
    ("at-every", 'schedule = "@every 90s"', EveryTrigger(timedelta(seconds=90), FIXED)),
    ("at-every-delay", 'schedule = "@Every 1h30m"\nevery_mode = "fixed-delay"',
     EveryTrigger(timedelta(minutes=90), DELAY)),
    ("align", 'every = "15m"\nalign = "hour"',
     EveryTrigger(timedelta(minutes=15), FIXED, Align.HOUR)),
    ("align-offset", 'every = "1h"\nalign = "day"\noffset = "5m"',
     EveryTrigger(timedelta(hours=1), FIXED, Align.DAY, timedelta(minutes=5))),
    ("align-whole-unit", 'every = "60s"\nalign = "minute"',
     EveryTrigger(timedelta(minutes=1), FIXED, Align.MINUTE)),
    ("align-at-every", 'schedule = "@every 90s"\nalign = "hour"',
     EveryTrigger(timedelta(seconds=90), FIXED, Align.HOUR)),
    ("offset", 'every = "7m"\noffset = "6m59s999ms"',
     EveryTrigger(timedelta(minutes=7), FIXED, None, timedelta(milliseconds=419_999))),
    ("at-once", 'every = "7m"\noffset = "0s"',
     EveryTrigger(timedelta(minutes=7), FIXED, None, timedelta(0))),
    ("startup", "startup = true", StartupTrigger()),
    ("boot", 'startup = "boot"', StartupTrigger(per_boot=True)),
    ("name", 'schedule = "@daily"', CronTrigger(("@daily",))),
    ("one-in-array", 'schedule = ["0 5 * * *"]', CronTrigger(("0 5 * * *",))),
    # Moments. Berlin is UTC+1, from 2026-03-29 01:00 UTC to 2026-10-25 01:00 UTC it is UTC+2.
    ("at-utc", "at = 2026-12-24T18:00:00Z", at(2026, 12, 24, 18, 0, 0)),
    ("at-offset", "at = 2026-12-24T18:00:00-05:00", at(2026, 12, 24, 23, 0, 0)),
    ("at-local-winter", "at = 2026-12-24T18:00:00", at(2026, 12, 24, 17, 0, 0)),
    ("at-local-summer", "at = 2026-07-01 18:00:01.5", at(2026, 7, 1, 16, 0, 1, 500_000)),
    ("at-date", "at = 2026-07-01", at(2026, 6, 30, 22, 0, 0)),
    ("at-leap-day", "at = 2028-02-29", at(2028, 2, 28, 23, 0, 0)),
    ("at-in-gap", "at = 2026-03-29T02:30:00", at(2026, 3, 29, 1, 0, 0)),
    ("at-in-fold", "at = 2026-10-25T02:30:00", at(2026, 10, 25, 0, 30, 0)),
    ("at-second-pass", 'at = 2026-10-25T02:30:00\ndst_fold = "second"',
     at(2026, 10, 25, 1, 30, 0)),
    ("at-past", "at = 1999-12-31T23:59:59Z", at(1999, 12, 31, 23, 59, 59)),
    ("at-kiritimati", 'at = 2026-01-01T00:00:00\ntimezone = "Pacific/Kiritimati"',
     at(2025, 12, 31, 10, 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "lines", "trigger"), TRIGGERS, ids=[t[0] for t in TRIGGERS])
def test_triggers(name: str, lines: str, trigger: Any, crontab: Path) -> None:
    """A schedule key becomes its trigger; a moment without an offset is one of the job's zone."""
    text = f'timezone = "Europe/Berlin"\n[jobs.a]\n{lines}\ncommand = "true"\n'
    assert load(crontab, text).jobs["a"].trigger == trigger


def test_a_moment_without_any_zone_is_in_that_of_the_system(
    crontab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job without a zone has no zone in the model, and its moment is one of the system's."""
    monkeypatch.setattr("crond_py.crontab.jobs.system_timezone", lambda: "Asia/Kathmandu")
    job = load(crontab, '[jobs.a]\nat = 2026-01-01\ncommand = "x"\n').jobs["a"]
    assert job.timezone is None
    assert job.trigger == at(2025, 12, 31, 18, 15, 0)


def test_defaults_hold_for_what_a_job_does_not_say(crontab: Path) -> None:
    """[defaults], [env] and timezone fill in; env and retry key by key, the rest as a whole."""
    text = """
timezone = "Europe/Berlin"
[env]
A = "file"
B = "file"
C = "file"
[defaults]
overlap = "allow"
timeout = "5s"
tags = ["x"]
every_mode = "fixed-delay"
output = "discard"
keep = { runs = 5 }
retry = { attempts = 5, delay = "1s" }
env = { B = "defaults", C = "defaults" }
[jobs.plain]
every = "10s"
command = "x"
[jobs.own]
every = "10s"
command = "x"
timezone = "UTC"
overlap = "skip"
tags = ["y"]
every_mode = "fixed-rate"
output = "file"
keep = { days = 1 }
retry = { delay = "2s" }
env = { C = "job" }
"""
    plain, own = load(crontab, text).jobs.values()
    assert plain == Job(
        name="plain",
        trigger=EveryTrigger(timedelta(seconds=10), EveryMode.FIXED_DELAY),
        command="x",
        timezone="Europe/Berlin",
        overlap=Overlap.ALLOW,
        timeout=timedelta(seconds=5),
        tags=("x",),
        retry=Retry(5, timedelta(seconds=1)),
        env=MappingProxyType({"A": "file", "B": "defaults", "C": "defaults"}),
        output=OutputMode.DISCARD,
        keep_runs=5,
        keep_for=None,
    )
    assert own == Job(
        name="own",
        trigger=EveryTrigger(timedelta(seconds=10), EveryMode.FIXED_RATE),
        command="x",
        timezone="UTC",
        overlap=Overlap.SKIP,
        timeout=timedelta(seconds=5),
        tags=("y",),
        retry=Retry(5, timedelta(seconds=2)),
        env=MappingProxyType({"A": "file", "B": "defaults", "C": "job"}),
        output=OutputMode.FILE,
        keep_runs=None,
        keep_for=timedelta(days=1),
    )


def test_a_default_jitter_is_for_the_jobs_that_can_have_one(crontab: Path) -> None:
    """It spreads cron jobs and fixed rates; one job can do without, and the rest take no notice."""
    text = """
[defaults]
jitter = "5m"
[jobs.cron]
schedule = "@daily"
command = "x"
[jobs.rate]
every = "1h"
command = "x"
[jobs.own]
every = "1h"
command = "x"
jitter = "1m"
[jobs.none]
every = "1h"
command = "x"
jitter = "0s"
[jobs.delay]
every = "1h"
every_mode = "fixed-delay"
command = "x"
[jobs.at]
at = 2026-12-24
command = "x"
[jobs.startup]
startup = true
command = "x"
"""
    minute = timedelta(minutes=1)
    assert {job.name: job.jitter for job in load(crontab, text).jobs.values()} == {
        "cron": 5 * minute,
        "rate": 5 * minute,
        "own": minute,
        "none": None,
        "delay": None,
        "at": None,
        "startup": None,
    }


def test_limits_go_together_key_by_key(crontab: Path) -> None:
    """A job adds to the limits of [defaults], and takes one back with "none"."""
    text = f"""
[defaults]
limits = {{ core = "0", open_files = 64, cpu = "5m" }}
{JOB}limits = {{ open_files = 128, cpu = "none" }}
{JOB.replace("jobs.a", "jobs.b")}"""
    a, b = load(crontab, text).jobs.values()
    assert a.limits == Limits(core_bytes=0, open_files=128)
    assert b.limits == Limits(core_bytes=0, open_files=64, cpu=timedelta(minutes=5))


def test_every_way_to_set_up_a_process_may_be_a_default(crontab: Path) -> None:
    """What [defaults] say of users, files, input and output holds until a job says otherwise."""
    text = f"""
[defaults]
user = "www-data"
env_file = "/etc/default/jobs"
nice = 10
stdin = {{ file = "/etc/input" }}
output = "stream"
output_limit = "1M"
on_stop = "terminate"
leftovers = "kill"
retry_on = ["start"]
keep = {{ bytes = "1G" }}
{JOB}{JOB.replace("jobs.a", "jobs.b")}
user = "root"
env_file = []
nice = 0
stdin = ""
output = "file"
output_limit = "none"
on_stop = "wait"
leftovers = "leave"
retry = {{ attempts = 2 }}
keep = {{ runs = 1 }}
"""
    names = (
        "user", "env_files", "nice", "stdin", "output", "output_limit", "on_stop", "leftovers",
        "retry_on", "keep_bytes",
    )  # fmt: skip
    a, b = (
        {name: getattr(job, name) for name in names} for job in load(crontab, text).jobs.values()
    )
    assert list(a.values()) == [
        "www-data", ("/etc/default/jobs",), 10, Path("/etc/input"), "stream", 1024**2,
        "terminate", "kill", {"start"}, 1024**3,
    ]  # fmt: skip
    assert list(b.values()) == [
        "root", (), 0, "", "file", None, "wait", "leave", {"start"}, None,
    ]  # fmt: skip


def test_defaults_may_prepare_retries_that_a_job_asks_for(crontab: Path) -> None:
    """Delays in [defaults] without a number of attempts retry nothing by themselves."""
    text = f'[defaults]\nretry = {{ delay = "7s" }}\n{JOB}'
    assert load(crontab, text).jobs["a"].retry.attempts == 1
    job = load(crontab, f"{text}retry.attempts = 2\n").jobs["a"]
    assert job.retry == Retry(2, timedelta(seconds=7))


def test_equal_values_are_one_object(crontab: Path) -> None:
    """A large crontab stays small: what jobs have in common they share."""
    lines = 'schedule = "1 2 3 4 *"\ncommand = ["a b", "c"]\nenv = { A = "1" }\ncwd = "/some/where"'
    lines += '\ntags = ["x y"]\nretry = { attempts = 2 }\ntimeout = "3h"\n'
    a, b = load(crontab, f"[jobs.a]\n{lines}[jobs.b]\n{lines}").jobs.values()
    for name in ("trigger", "command", "env", "cwd", "tags", "retry", "timeout"):
        assert getattr(a, name) is getattr(b, name), name


def test_a_word_in_one_place_does_not_change_its_kind_in_another(crontab: Path) -> None:
    """A description that is spelled like a policy stays text, and the policy a policy."""
    text = f'{JOB}description = "queue"\n{JOB.replace("jobs.a", "jobs.b")}overlap = "queue"\n'
    a, b = load(crontab, text).jobs.values()
    assert type(a.description) is str
    assert type(b.overlap) is Overlap


def test_this_host_is_the_default(crontab: Path) -> None:
    """Without a host name given, it is that of the machine."""
    crontab.write_text(f'{JOB}hosts = ["{platform.node()}"]\n')
    assert load_crontab(crontab).jobs["a"].enabled


def test_a_disabled_job_is_checked_like_any_other(crontab: Path) -> None:
    """P7: enabling a job can not be what makes a crontab bad."""
    assert len(faults(crontab, f'{JOB}enabled = false\ntimeout = "x"\n')) == 1
    assert len(faults(crontab, f'{JOB}hosts = ["beta"]\ntimeout = "x"\n')) == 1


# --- jobs that are much alike -----------------------------------------------------------------

ALIKE = (
    "",
    'timeout = "5m"',
    'timeout = "5m"\npriority = 1',
    'priority = 1\ntimeout = "5m"',
    "priority = 1",
    "priority = 0",
    "enabled = true",
    "enabled = false",
    'timezone = "Asia/Tokyo"\ndst_gap = "skip"',
    'jitter = "1m"',
    'hosts = ["beta"]',
    'env = { A = "1" }',
    'retry = { attempts = 3 }\nretry_on = ["timeout"]',
    "umask = 0o027",
)


@pytest.mark.parametrize("expression", ["*/5 * * * *", "H H * * *", "@daily", "@every 90s"])
def test_jobs_that_are_alike_are_as_each_would_be_by_itself(
    tmp_path: Path, expression: str
) -> None:
    """What a job comes out as does not depend on which jobs stood before it."""
    tables = {
        f"job-{number}-{again}": f'[jobs.job-{number}-{again}]\nschedule = "{expression}"\n'
        f'command = "echo {again}"\n{rest}\n'
        for again in (1, 2, 3)
        for number, rest in enumerate(ALIKE)
        if "jitter" not in rest or not expression.startswith("@every")
    }
    together = load(tmp_path / "all.toml", "".join(tables.values())).jobs
    for name, table in tables.items():
        assert together[name] == load(tmp_path / "one.toml", table).jobs[name]


def test_a_fault_is_told_also_of_a_job_that_is_like_a_good_one(tmp_path: Path) -> None:
    """A job with a bad schedule, command or umask has its fault, whichever are like it."""
    good = '[jobs.a]\nschedule = "@daily"\ncommand = "true"\n'
    text = good + '[jobs.b]\nschedule = "61 * * * *"\ncommand = " "\n'
    assert [line.partition(" ")[0] for line in faults(tmp_path / "c.toml", text)] == [
        "c.toml:5:",
        "c.toml:6:",
    ]
    octal = good + "umask = 0o022\n"
    text = octal + good.replace("jobs.a", "jobs.b") + "umask = 18\n"
    (fault,) = faults(tmp_path / "c.toml", text)
    assert fault.startswith("c.toml:8: jobs.b.umask: must be octal")


def test_jobs_share_what_they_say_alike(tmp_path: Path) -> None:
    """A thousand jobs that differ in name, schedule and command have all else in common."""
    job = '[jobs.n{0}]\nschedule = "{0} * * * *"\ncommand = "echo {0}"\ntimeout = "5m"\n'
    jobs = list(load(tmp_path / "c.toml", "".join(map(job.format, range(10)))).jobs.values())
    assert len({id(shared_part(each)) for each in jobs}) == 1
    assert {each.timeout for each in jobs} == {timedelta(minutes=5)}
