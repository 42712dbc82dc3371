"""What is wrong with a crontab is said in one line, with its place, its key and the way out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from crond_py.crontab.loader import load_crontab
from crond_py.errors import CrontabError, Fault


class Bad(NamedTuple):
    """A crontab with one fault: where it must be said to be, and words that must be in it."""

    name: str
    text: str
    line: int
    key: str
    words: tuple[str, ...]


# A good job in three lines; what is put after it is line 4.
JOB = '[jobs.a]\nschedule = "* * * * *"\ncommand = "true"\n'


def _extra(name: str, line: str, key: str, *words: str) -> Bad:
    """Return a good job with one bad line more."""
    return Bad(name, f"{JOB}{line}\n", 4, f"jobs.a.{key}", words)


TYPOS = [
    _extra("near-key", 'overlpa = "skip"', "overlpa", 'did you mean "overlap"?'),
    _extra("far-key", "zzzzzzzzz = 1", "zzzzzzzzz", "not a key"),
    _extra("case-of-key", 'Timeout = "1s"', "Timeout", 'did you mean "timeout"?'),
    _extra("quoted-key", '"over lap" = "skip"', '"over lap"', "not a key", '"overlap"'),
    _extra("near-word", 'overlap = "skpi"', "overlap", '"allow" or "replace"', '"skip"?'),
    _extra("word-with-blank", 'overlap = "Skip "', "overlap", '"Skip "', 'mean "skip"?'),
    _extra("word-no-word", "overlap = true", "overlap", "not true"),
    _extra("missed-word", 'missed = "al"', "missed", '"skip", "once" or "all"'),
    _extra("gap-word", 'dst_gap = "first"', "dst_gap", '"run" or "skip"'),
    _extra("fold-word", 'dst_fold = "last"', "dst_fold", '"first", "second" or "both"'),
    _extra("crash-word", 'on_crash = "retry"', "on_crash", '"lost" or "rerun"'),
    _extra("output-word", 'output = "none"', "output", '"journal" or "discard"'),
    _extra("output-path", 'output = "/var/log/a"', "output", ">> FILE"),
    _extra("on-failure", 'on_failure = "mail root"', "on_failure",
           'after = { NAME_OF_THIS_ONE = "failure" }'),
    _extra("on-success", 'on_success = "b"', "on_success",
           'after = { NAME_OF_THIS_ONE = "success" }'),
    _extra("retry-number", "retry = 3", "retry", "write { attempts = 3 }"),
    _extra("retry-huge", f"retry = 0x{'f' * 5000}", "retry", "a table, not a number too large"),
    _extra("retry-true", "retry = true", "retry", "must be a table, not true"),
    Bad("pool-number", f"{JOB}[pools]\nsmall = 2\n", 5, "pools.small", ("write { workers = 2 }",)),
    _extra("zone-typo", 'timezone = "Europe/Berln"', "timezone", "mean Europe/Berlin?"),
    _extra("zone-abbreviation", 'timezone = "CEST"', "timezone",
           "(an abbreviation is no zone, write a place, such as Europe/Berlin)"),
    _extra("zone-offset", 'timezone = "UTC+1"', "timezone", "or Etc/GMT-1 for the fixed time 1 hour"
           " ahead of UTC"),
    _extra("zone-case", 'timezone = "utc/"', "timezone", "no time zone"),
    _extra("zone-path", 'timezone = "../../etc/passwd"', "timezone", "no time zone"),
    _extra("zone-empty", 'timezone = ""', "timezone", "no time zone"),
    _extra("zone-number", "timezone = 1", "timezone", "not 1"),
    _extra("cmd", 'cmd = "true"', "cmd", 'here it is called "command"'),
    _extra("run", 'run = "true"', "run", 'here it is called "command"'),
    _extra("cron", 'cron = "* * * * *"', "cron", 'here it is called "schedule"'),
    _extra("cronspec", 'cronspec = "* * * * *"', "cronspec", 'here it is called "schedule"'),
    _extra("tz", 'tz = "UTC"', "tz", 'here it is called "timezone"'),
    _extra("workdir", 'workdir = "/"', "workdir", 'here it is called "cwd"'),
    _extra("systemd", 'WorkingDirectory = "/"', "WorkingDirectory", 'here it is called "cwd"'),
    _extra("yacron", 'concurrencyPolicy = "Forbid"', "concurrencyPolicy", 'called "overlap"'),
    _extra("mailto-of-job", 'MAILTO = "root"', "MAILTO", "there is no mail"),
    _extra("path-of-job", 'PATH = "/bin"', "PATH", "a variable stands in env"),
    _extra("disabled", "disabled = true", "disabled", "write enabled = false"),
    _extra("name-of-job", 'name = "b"', "name", "[jobs.NAME]"),
    _extra("yacron-retry", "retry = { maximumRetries = 3 }", "retry.maximumRetries",
           'here it is called "attempts"'),
    Bad("mailto", f'MAILTO = "root"\n{JOB}', 1, "MAILTO", ("there is no mail",)),
    Bad("shell", f'SHELL = "/bin/bash"\n{JOB}', 1, "SHELL", ("shell = ", "[defaults]")),
    Bad("path", f'PATH = "/bin"\n{JOB}', 1, "PATH", ("a variable stands below [env]",)),
    Bad("cron-tz", f'CRON_TZ = "UTC"\n{JOB}', 1, "CRON_TZ", ('here it is called "timezone"',)),
    Bad("cmd-at-top", f'cmd = "x"\n{JOB}', 1, "cmd", ('called "command", and is a key of a job',)),
    Bad("job-at-top", f'{JOB}[backup]\ncommand = "x"\n', 4, "backup", ("table [jobs.backup]",)),
    Bad("job-like-at-top", f'{JOB}[pooled]\ncron = "x"\n', 4, "pooled", ("[jobs.pooled]",)),
    Bad("table-at-top", f'{JOB}["at night"]\n', 4, '"at night"', ('[jobs."at night"]',)),
    Bad("top-key", f'timezon = "UTC"\n{JOB}', 1, "timezon", ('did you mean "timezone"?',)),
    Bad("top-table", f"{JOB}[job.b]\nx = 1\n", 4, "job", ('did you mean "jobs"?',)),
    Bad("job-key-at-top", f'overlap = "skip"\n{JOB}', 1, "overlap", ("key of a job", "[defaults]")),
    Bad("retry-key", f"{JOB}[jobs.a.retry]\nattemps = 3\nattempts = 2\n", 5, "jobs.a.retry.attemps",
        ('did you mean "attempts"?',)),
    Bad("pool-key", f"[pools.p]\nworkers = 1\nworker = 2\n{JOB}", 3, "pools.p.worker",
        ('did you mean "workers"?',)),
    _extra("pool-key-in-job", 'lag_warning = "5s"', "lag_warning", "it is a key of a pool"),
    _extra("retry-key-in-job", "attempts = 3", "attempts", "it is a key of retry"),
    Bad("job-key-in-pool", f"[pools.p]\nworkers = 1\nmax_running = 2\n{JOB}", 3,
        "pools.p.max_running", ("it is a key of a job or a group",)),
    Bad("pool-key-in-group", f"[groups.g]\nworkers = 1\n{JOB}", 2, "groups.g.workers",
        ("it is a key of a pool",)),
    Bad("pool-at-top", f"[pool.p]\nworkers = 1\n{JOB}", 1, "pool", ("table [pools.NAME]",)),
    Bad("group-at-top", f"[group.g]\nweight = 2\n{JOB}", 1, "group", ("table [groups.NAME]",)),
    Bad("pool-of-nobody", f'pool = "p"\n{JOB}', 1, "pool", ("below a [jobs.NAME]",)),
    Bad("every-cron", '[jobs.a]\nevery = "*/5 * * * *"\ncommand = "x"\n', 2, "jobs.a.every",
        ("a cron expression is the schedule of a job",)),
    Bad("every-day", '[jobs.a]\nevery = "day"\ncommand = "x"\n', 2, "jobs.a.every",
        ('write "1d"',)),
    Bad("dotted-name", '[jobs.my.job]\nschedule = "* * * * *"\ncommand = "x"\n', 1, "jobs.my.job",
        ('[jobs."my.job"]',)),
]  # fmt: skip

NUMBERS = [
    _extra("bool-no-number", "queue_limit = true", "queue_limit", "whole number", "not true"),
    _extra("float-no-integer", "queue_limit = 2.0", "queue_limit", "whole number", "not 2.0"),
    _extra("text-no-integer", 'queue_limit = "2"', "queue_limit", '"2"', "without quotes"),
    _extra("too-small", "queue_limit = 0", "queue_limit", "between 1 and"),
    _extra("too-large", "max_running = 1000000000", "max_running", "between 1 and"),
    _extra(
        "huge", "missed_limit = 0xffffffffffffffffffffffffffffffff", "missed_limit", "too large"
    ),
    _extra("priority", "priority = -1000001", "priority", "between -1000000 and 1000000"),
    _extra("attempts-float", "retry = { attempts = 1.5 }", "retry.attempts", "whole number"),
    _extra("attempts-text", 'retry = { attempts = "2" }', "retry.attempts", "without quotes"),
    _extra("attempts-none", "retry = { attempts = 0 }", "retry.attempts", "between 1 and"),
    _extra("backoff-nan", "retry = { attempts = 2, backoff = nan }", "retry.backoff", "not nan"),
    _extra("backoff-inf", "retry = { attempts = 2, backoff = inf }", "retry.backoff", "not inf"),
    _extra(
        "backoff-1e400", "retry = { attempts = 2, backoff = 1e400 }", "retry.backoff", "not inf"
    ),
    _extra("backoff-bool", "retry = { attempts = 2, backoff = true }", "retry.backoff", "number"),
    _extra(
        "backoff-small", "retry = { attempts = 2, backoff = 0.5 }", "retry.backoff", "between 1"
    ),
    _extra("code-range", "success_codes = [0, 256]", "success_codes[1]", "0 to 255", "256"),
    _extra("code-negative", "success_codes = [-1]", "success_codes[0]", "0 to 255"),
    _extra("code-bool", "success_codes = [true]", "success_codes[0]", "not true"),
    _extra("codes-scalar", "success_codes = 0", "success_codes", "array", "[0]"),
    _extra("codes-none", "success_codes = []", "success_codes", "is an empty array"),
    _extra("umask-decimal", "umask = 22", "umask", "octal", '"022"'),
    _extra("umask-digit", 'umask = "028"', "umask", "octal"),
    _extra("umask-large", 'umask = "1000"', "umask", "000 to 777"),
    _extra("umask-negative", "umask = -1", "umask", "000 to 777"),
    _extra("keep-no-run", "keep = { runs = 0 }", "keep.runs", "between 1 and"),
    _extra("keep-twice", 'keep = { days = 3, for = "3d" }', "keep", "both days and for"),
    _extra("keep-empty", "keep = {}", "keep", "says nothing"),
    _extra("keep-scalar", "keep = 5", "keep", "table", "not 5"),
    Bad("workers-bool", f"[pools.p]\nworkers = true\n{JOB}", 2, "pools.p.workers", ("not true",)),
    Bad("workers-none", f"[pools.p]\nworkers = 0\n{JOB}", 2, "pools.p.workers", ("between 1",)),
]

DURATIONS = [
    _extra("no-unit", 'timeout = "5"', "timeout", '"5s"'),
    _extra("number", "timeout = 5", "timeout", "with a unit", '"5s"'),
    _extra("negative-number", "timeout = -1", "timeout", "not -1"),
    _extra("negative", 'timeout = "-5s"', "timeout"),
    _extra("zero-timeout", 'timeout = "0s"', "timeout", "1ms"),
    _extra("empty-duration", 'timeout = ""', "timeout"),
    _extra("unit", 'timeout = "5 parsecs"', "timeout"),
    _extra("endless", 'timeout = "1e400s"', "timeout"),
    _extra("centuries", 'timeout = "999999d"', "timeout", "36525d"),
    _extra("digits", f'timeout = "{"9" * 5000}s"', "timeout", "duration"),
    _extra("kill-after", "kill_after = 1.5", "kill_after", '"1.5s"'),
    _extra("delay", 'retry = { attempts = 2, delay = "x" }', "retry.delay"),
    _extra("jitter", "retry = { attempts = 2, jitter = 0.5 }", "retry.jitter", "unit"),
    _extra(
        "ceiling", 'retry = { attempts = 2, delay = "2h", max_delay = "1h" }', "retry", "shorter"
    ),
    _extra("no-attempts", 'retry = { delay = "2s" }', "retry", "attempts = 3"),
]

TEXTS = [
    _extra("env-number", "env = { PORT = 8080 }", "env.PORT", '"8080"'),
    _extra("env-bool", "env = { X = true }", "env.X", "text"),
    _extra("env-equals", 'env = { "A=B" = "1" }', 'env."A=B"', '"="'),
    _extra("env-empty-name", 'env = { "" = "1" }', 'env.""', "empty"),
    _extra("env-nul", r'env = { A = "x\u0000" }', "env.A", "NUL"),
    _extra("env-nul-name", r'env = { "A\u0000" = "x" }', r'env."A\x00"', "NUL"),
    _extra("env-reserved", 'env = { PYCRON_RUN_ID = "7" }', "env.PYCRON_RUN_ID", "set by pycron"),
    _extra("env-long", f'env = {{ A = "{"x" * 131070}" }}', "env.A", "131071 bytes"),
    _extra("env-array", "env = []", "env", "table", "an array"),
    _extra("cwd-relative", 'cwd = "work"', "cwd", "absolute", '"work"'),
    _extra("cwd-home", 'cwd = "~/work"', "cwd", "absolute"),
    _extra("cwd-nul", r'cwd = "/a\u0000b"', "cwd", "NUL"),
    _extra("shell-options", 'shell = "/bin/bash -e"', "shell", "path alone", "set -e"),
    _extra("tags-scalar", 'tags = "x"', "tags", 'write ["x"]'),
    _extra("tags-empty", "tags = []", "tags", "empty array"),
    _extra("tag-control", r'tags = ["ok", "\u001b[0m"]', "tags[1]", r'"\x1b[0m"'),
    _extra("tag-number", "tags = [1]", "tags[0]", "not 1"),
    _extra("hosts-empty", 'hosts = [""]', "hosts[0]", "1 to 100"),
    _extra("description-control", r'description = "\u0007"', "description", "control character"),
    _extra("description-long", f'description = "{"x" * 1001}"', "description", "1001 characters"),
    _extra("description-number", "description = 5", "description", 'write "5"'),
    _extra("enabled-text", 'enabled = "no"', "enabled", "true or false", '"no"'),
    _extra("pool-unknown", 'pool = "defualt"', "pool", 'no pool "defualt"', 'mean "default"?'),
    _extra("pool-far", 'pool = "zz"', "pool", "add [pools.zz]"),
    _extra("pool-name", 'pool = "a b"', "pool", "no name"),
    Bad("pool-of-defaults", f'[defaults]\npool = "x"\n{JOB}', 2, "defaults.pool", ("no pool",)),
    Bad("env-at-top", f"[env]\nA = 1\n{JOB}", 2, "env.A", ('"1"',)),
]

LATER = [
    _extra("after-beside", 'after = ["b"]', "after", "stands beside schedule"),
    _extra("later-notify", 'notify = ["n"]', "notify", "not supported yet"),
    Bad("group-key", f"[groups.g]\nshare = 1\n{JOB}", 2, "groups.g.share", ("not a key",)),
    Bad("group-weight", f"[groups.g]\nweight = 0\n{JOB}", 2, "groups.g.weight", ("between",)),
    Bad("later-notify-table", f'[notify.n]\nto = "x"\n{JOB}', 1, "notify", ("not supported yet",)),
    Bad("later-default", f'[defaults]\nnotify = "x"\n{JOB}', 2, "defaults.notify",
        ("not supported",)),
]  # fmt: skip

SIZES = [
    _extra("size-lower-case", 'output_limit = "10m"', "output_limit", 'write "10M"'),
    _extra("size-decimal-unit", 'output_limit = "10MB"', "output_limit", 'write "10M"'),
    _extra("size-word", 'output_limit = "10 kbytes"', "output_limit", 'write "10K"'),
    _extra("size-unit", 'output_limit = "10X"', "output_limit", '"512K", "10M" or "2G"'),
    _extra("size-negative", 'output_limit = "-1M"', "output_limit", '"-1M"'),
    _extra("size-sign", "output_limit = -1", "output_limit", "from 4K to 1E"),
    _extra("size-float", "output_limit = 1.5", "output_limit", '"1.5G"'),
    _extra("size-bool", "output_limit = true", "output_limit", "not true"),
    _extra("size-empty", 'output_limit = ""', "output_limit", '"none"'),
    _extra("size-fraction", 'output_limit = "5000.5"', "output_limit", "whole number of bytes"),
    _extra("size-fraction-of-unit", 'output_limit = "4.3K"', "output_limit", "whole number"),
    _extra("size-small", "output_limit = 4095", "output_limit", "4K", '"4095K" or "4095M"'),
    _extra("size-small-digits", 'output_limit = "10"', "output_limit", '"10K" or "10M"'),
    _extra("size-small-text", 'output_limit = "3K"', "output_limit", "from 4K to 1E, not"),
    _extra("size-large", 'output_limit = "2E"', "output_limit", "from 4K to 1E"),
    _extra("size-digits", f'output_limit = "{"9" * 5000}"', "output_limit", "a size"),
    _extra("size-huge", f"output_limit = 0x{'f' * 5000}", "output_limit", "too large to show"),
    _extra("size-unlimited", 'output_limit = "unlimited"', "output_limit", 'write "none"'),
    _extra("size-none-case", 'output_limit = "None"', "output_limit", 'write "none"'),
    _extra("size-arabic-digits", 'output_limit = "\u0661\u0662M"', "output_limit", "a size"),
    _extra("keep-bytes-none", 'keep = { bytes = "none" }', "keep.bytes", "a size"),
    _extra("keep-bytes-small", "keep = { bytes = 100 }", "keep.bytes", "from 4K"),
]

PROCESSES = [
    _extra("user-number", "user = 1000", "user", 'write "1000"'),
    _extra("user-empty", 'user = ""', "user", "1 to 255"),
    _extra("user-group", 'user = "www-data:www-data"', "user", 'write "www-data"'),
    _extra("user-path", 'user = "/root"', "user", "can be no user"),
    _extra("user-blank", 'user = "root "', "user", 'write "root"'),
    _extra("user-newline", r'user = "ro\not"', "user", "control character"),
    _extra("user-nul", r'user = "a\u0000"', "user", "control character"),
    _extra("user-hyphen", 'user = "-x"', "user", "begin"),
    _extra("user-negative", 'user = "-1"', "user", "not negative"),
    _extra("user-no-id", 'user = "4294967295"', "user", "4294967294"),
    _extra("user-long-id", f'user = "{"9" * 255}"', "user", "4294967294"),
    _extra("user-long", f'user = "{"x" * 256}"', "user", "255"),
    _extra("user-dots", 'user = ".."', "user", "can be no user"),
    _extra("user-array", 'user = ["a"]', "user", "an array"),
    _extra("nice-high", "nice = 20", "nice", "between -20 and 19"),
    _extra("nice-low", "nice = -21", "nice", "between -20 and 19"),
    _extra("nice-text", 'nice = "5"', "nice", "without quotes"),
    _extra("limits-scalar", "limits = 5", "limits", "a table"),
    _extra("limits-key", 'limits = { adress_space = "1G" }', "limits.adress_space",
           '"address_space"?'),
    _extra("limits-kib", "limits = { address_space = 65536 }", "limits.address_space",
           '"65536K" or'),
    _extra("limits-files", "limits = { open_files = 3 }", "limits.open_files", "between 4 and"),
    _extra("limits-files-size", 'limits = { open_files = "1K" }', "limits.open_files",
           "whole number"),
    _extra("limits-processes", "limits = { processes = 0 }", "limits.processes", "between 1 and"),
    _extra("limits-cpu-zero", 'limits = { cpu = "0s" }', "limits.cpu", "from 1s"),
    _extra("limits-cpu-fine", 'limits = { cpu = "1500ms" }', "limits.cpu", "whole number of 1s"),
    _extra("limits-cpu-number", "limits = { cpu = 60 }", "limits.cpu", '"60s"'),
    _extra("limits-core", "limits = { core = false }", "limits.core", "not false"),
    _extra("limits-unlimited", 'limits = { core = "unlimited" }', "limits.core", '"none"'),
    _extra("env-file-relative", 'env_file = ".env"', "env_file", "absolute", '".env"'),
    _extra("env-file-element", 'env_file = ["/a", "b"]', "env_file[1]", "absolute"),
    _extra("env-file-table", "env_file = { A = 1 }", "env_file", "a table"),
    _extra("env-file-nul", r'env_file = "/a\u0000"', "env_file", "NUL"),
    _extra("env-files", f'env_file = {["/e"] * 101}', "env_file", "101 files"),
    _extra("stdin-number", "stdin = 5", "stdin", "{ file ="),
    _extra("stdin-array", 'stdin = ["x"]', "stdin", "an array"),
    _extra("stdin-empty", "stdin = {}", "stdin", "names no file"),
    _extra("stdin-key", 'stdin = { path = "/x" }', "stdin.path", "not a key"),
    _extra("stdin-relative", 'stdin = { file = "x" }', "stdin.file", "absolute"),
    _extra("stdin-long", f'stdin = "{"x" * (1024 * 1024 + 1)}"', "stdin", "{ file ="),
    _extra("leftovers-word", 'leftovers = "keep"', "leftovers", '"leave" or "kill"'),
    _extra("on-stop-word", 'on_stop = "kill"', "on_stop", '"wait", "terminate" or "leave"'),
    _extra("replace-word", 'overlap = "replaced"', "overlap", 'did you mean "replace"?'),
]  # fmt: skip

RETRY = "retry = { attempts = 2 }"
RETRIES = [
    _extra("retry-on-once", "retry_on = [1]", "retry_on", "tried once", "attempts = 3"),
    _extra("retry-on-one-attempt", "retry_on = [1]\nretry = { attempts = 1 }", "retry_on",
           "tried once"),
    _extra("retry-on-success", f"retry_on = [1, 0]\n{RETRY}", "retry_on", "has 0,", "success"),
    _extra("retry-on-code", f"retry_on = [1, 3]\nsuccess_codes = [0, 3]\n{RETRY}", "retry_on",
           "has 3,", "success_codes"),
    _extra("retry-on-word", f'retry_on = ["timed_out"]\n{RETRY}', "retry_on[0]",
           '"timeout", "signal" or "start"', 'did you mean "timeout"?'),
    _extra("retry-on-range", f"retry_on = [256]\n{RETRY}", "retry_on[0]", "0 to 255"),
    _extra("retry-on-negative", f"retry_on = [-1]\n{RETRY}", "retry_on[0]", "0 to 255"),
    _extra("retry-on-bool", f"retry_on = [true]\n{RETRY}", "retry_on[0]", "not true"),
    _extra("retry-on-quotes", f'retry_on = ["75"]\n{RETRY}', "retry_on[0]", "without quotes"),
    _extra("retry-on-none", f"retry_on = []\n{RETRY}", "retry_on", "empty array"),
    _extra("retry-on-scalar", f"retry_on = 75\n{RETRY}", "retry_on", "write [75]"),
    _extra("retry-on-name", f'retry_on = "signal"\n{RETRY}', "retry_on", 'write ["signal"]'),
    # One mistake in either place is one fault.
    _extra("retry-bad", "retry = { attempts = 0 }\nretry_on = [1]", "retry.attempts", "between"),
    _extra("retry-codes-bad", f"success_codes = [256]\n{RETRY}\nretry_on = [0]",
           "success_codes[0]", "0 to 255"),
    Bad("retry-on-of-defaults", f"[defaults]\nretry_on = [0]\n{JOB}", 2, "defaults.retry_on",
        ("has 0,",)),
    Bad("retry-code-against-defaults", f"[defaults]\nretry_on = [3]\n{JOB}success_codes = [0, 3]\n",
        6, "jobs.a.success_codes", ("has 3,", "retry_on")),
]  # fmt: skip


def _job(name: str, lines: str, line: int, key: str, *words: str) -> Bad:
    """Return a job whose lines after its header are given; the first of them is line 2."""
    dotted = ".".join(part for part in ("jobs.a", key) if part)
    return Bad(name, f"[jobs.a]\n{lines}\n", line, dotted, words)


COMMAND = 'command = "true"\n'
SCHEDULES = [
    _job("none", COMMAND, 1, "", "no schedule"),
    _job("two", COMMAND + 'every = "5s"\nschedule = "* * * * *"', 4, "schedule", "beside every"),
    _job("after-nobody", COMMAND + 'after = ["b"]', 3, "after", 'no job "b"'),
    _job("after-text", COMMAND + 'after = "b"', 3, "after", 'write ["b"]'),
    _job("after-nothing", COMMAND + "after = []", 3, "after", "names no job"),
    _job("after-twice", COMMAND + 'after = ["b", "b"]', 3, "after", 'names "b" twice'),
    _job("after-too-many", COMMAND + f"after = {['b'] * 1001}", 3, "after",
         "must name at most 1000 jobs, not 1001"),  # its length first: the rest takes time
    _job("after-number", COMMAND + "after = [1]", 3, "after[0]", "the name of a job"),
    _job("after-condition", COMMAND + 'after = { b = "sucess" }', 3, "after.b", '"success"?'),
    _job("misspelt", COMMAND + 'shedule = "* * * * *"', 3, "shedule", '"schedule"?'),
    _job("cron-range", COMMAND + 'schedule = "61 * * * *"', 3, "schedule", "minute"),
    _job("cron-fields", COMMAND + 'schedule = "* * *"', 3, "schedule"),
    _job("cron-never", COMMAND + 'schedule = "0 0 30 2 *"', 3, "schedule"),
    _job("cron-empty", COMMAND + 'schedule = " "', 3, "schedule", "is empty"),
    _job("cron-number", COMMAND + "schedule = 5", 3, "schedule", "not 5"),
    _job("cron-none", COMMAND + "schedule = []", 3, "schedule", "1 to 100"),
    _job("cron-element", COMMAND + 'schedule = [\n"* * * * *",\n"x"]', 5, "schedule[1]"),
    _job("cron-element-type", COMMAND + "schedule = [5]", 3, "schedule[0]", "text"),
    _job("reboot", COMMAND + 'schedule = "@reboot"', 3, "schedule", 'startup = "boot"'),
    _job("every-in-array", COMMAND + 'schedule = ["@every 5s"]', 3, "schedule[0]", "every"),
    _job("at-every-bare", COMMAND + 'schedule = "@every"', 3, "schedule"),
    _job("at-every-zero", COMMAND + 'schedule = "@every 0s"', 3, "schedule", "100ms"),
    _job("every-zero", COMMAND + 'every = "0s"', 3, "every", "from 100ms"),
    _job("every-short", COMMAND + 'every = "99ms"', 3, "every", "from 100ms"),
    _job("every-endless", COMMAND + 'every = "1e400s"', 3, "every"),
    _job("every-number", COMMAND + "every = 15", 3, "every", '"15s"'),
    _job("align-minutes", COMMAND + 'every = "7m"\nalign = "hour"', 3, "every", "7m", "hour",
         '"6m40s" and "7m30s"; of whole minutes "6m" and "10m"'),
    _job("align-seconds", COMMAND + 'every = "90s"\nalign = "minute"', 3, "every", '"1m"',
         'align = "hour"'),
    _job("align-days", COMMAND + 'every = "5h"\nalign = "day"', 3, "every", '"4h48m" and "6h"',
         'whole hours "4h" and "6h"'),
    _job("align-two-days", COMMAND + 'every = "2d"\nalign = "day"', 3, "every", 'that fit: "1d"'),
    _job("align-short", COMMAND + 'every = "500ms"\nalign = "minute"', 3, "every", '"1s"'),
    _job("align-fraction", COMMAND + 'every = "1.5s"\nalign = "minute"', 3, "every",
         '"1s" and "2s"'),
    _job("align-at-every", COMMAND + 'schedule = "@every 7m"\nalign = "hour"', 3, "schedule",
         '"6m" and "10m"'),
    _job("align-word", COMMAND + 'every = "1h"\nalign = "hours"', 4, "align",
         '"minute", "hour" or "day"', '"hour"?'),
    _job("align-alone", COMMAND + 'schedule = "* * * * *"\nalign = "hour"', 4, "align",
         "without every"),
    _job("align-delay", COMMAND + 'every = "1h"\nevery_mode = "fixed-delay"\nalign = "hour"', 5,
         "align", "fixed-delay", 'every_mode = "fixed-rate"'),
    Bad("align-delay-of-defaults", '[defaults]\nevery_mode = "fixed-delay"\n[jobs.a]\n' + COMMAND
        + 'every = "1h"\nalign = "hour"\n', 6, "jobs.a.align", ('every_mode = "fixed-rate"',)),
    Bad("align-of-defaults", f'[defaults]\nalign = "hour"\n{JOB}', 2, "defaults.align",
        ("[jobs.NAME]",)),
    _job("offset-period", COMMAND + 'every = "15m"\noffset = "15m"', 4, "offset", "15m", "less"),
    _job("offset-negative", COMMAND + 'every = "15m"\noffset = "-1s"', 4, "offset", "sign"),
    _job("offset-fine", COMMAND + 'every = "15m"\noffset = "1500us"', 4, "offset", "of 1ms"),
    _job("offset-alone", COMMAND + 'startup = true\noffset = "1m"', 4, "offset", "without every"),
    _job("offset-delay", COMMAND + 'every = "1h"\nevery_mode = "fixed-delay"\noffset = "1m"', 5,
         "offset", "fixed-delay"),
    Bad("offset-of-defaults", f'[defaults]\noffset = "1m"\n{JOB}', 2, "defaults.offset",
        ("[jobs.NAME]",)),
    _job("jitter-at", COMMAND + 'at = 2026-12-24\njitter = "5m"', 4, "jitter", "with at"),
    _job("jitter-startup", COMMAND + 'startup = true\njitter = "5m"', 4, "jitter", "with startup"),
    _job("jitter-delay", COMMAND + 'every = "1h"\nevery_mode = "fixed-delay"\njitter = "5m"', 5,
         "jitter", "fixed-delay"),
    _job("jitter-fine", COMMAND + 'every = "1h"\njitter = "1us"', 4, "jitter", "of 1ms"),
    _job("jitter-number", COMMAND + 'every = "1h"\njitter = 5', 4, "jitter", '"5s"'),
    _job("mode-alone", 'schedule = "* * * * *"\nevery_mode = "fixed-delay"\n' + COMMAND, 3,
         "every_mode", "without every"),
    _job("at-text", COMMAND + 'at = "2026-12-24 18:00"', 3, "at", "without quotes: 2026-12-24T18"),
    _job("at-text-short", COMMAND + 'at = "2026-12-24 8:00"', 3, "at",
         "has seconds, two digits for each part: 2026-12-24T08:00:00"),
    _job("at-text-no-day", COMMAND + 'at = "2026-02-30"', 3, "at", "no day 30 in 2026-02"),
    _job("at-words", COMMAND + 'at = "tomorrow"', 3, "at", "2026-12-24T18:00:00"),
    _job("at-time", COMMAND + "at = 18:00:00", 3, "at", "date-time"),
    _job("at-early", COMMAND + "at = 0001-01-01T00:00:00", 3, "at", "1970"),
    _job("at-late", COMMAND + "at = 9999-12-31T23:59:59-12:00", 3, "at", "9989"),
    _job("at-no-such-day", COMMAND + 'timezone = "Pacific/Apia"\nat = 2011-12-30T12:00:00', 4, "at",
         "Pacific/Apia"),
    _job("at-in-a-gap", COMMAND + 'timezone = "Europe/Berlin"\ndst_gap = "skip"\n'
         "at = 2026-03-29T02:30:00", 5, "at", "jump"),
    _job("startup-false", COMMAND + "startup = false", 3, "startup", 'true or "boot"'),
    _job("startup-word", COMMAND + 'startup = "login"', 3, "startup", '"login"'),
    _job("no-command", 'every = "5s"', 1, "", "no command"),
    _job("misspelt-program", 'every = "5s"\ncomand = "x"', 3, "comand", '"command"?'),
    _job("empty-command", 'every = "5s"\ncommand = ""', 3, "command", "empty"),
    _job("blank-command", 'every = "5s"\ncommand = "  \\n "', 3, "command", "empty"),
    _job("empty-array", 'every = "5s"\ncommand = []', 3, "command", "empty"),
    _job("empty-program", 'every = "5s"\ncommand = ["", "x"]', 3, "command", "program"),
    _job("number-argument", 'every = "5s"\ncommand = ["x", 5]', 3, "command[1]", '"5"'),
    _job("nul-command", 'every = "5s"\ncommand = "a\\u0000b"', 3, "command", "NUL"),
    _job("nul-argument", 'every = "5s"\ncommand = ["a", "\\u0000"]', 3, "command[1]", "NUL"),
    _job("long-command", f'every = "5s"\ncommand = "{"é" * 65536}"', 3, "command", "131072 bytes"),
    _job("command-table", 'every = "5s"\ncommand = { x = 1 }', 3, "command", "a table"),
    Bad("defaults-schedule", f'[defaults]\nevery = "5s"\n{JOB}', 2, "defaults.every",
        ("[jobs.NAME]",)),
    Bad("defaults-command", f'[defaults]\ncommand = "x"\n{JOB}', 2, "defaults.command",
        ("[jobs.NAME]",)),
    Bad("defaults-bad-zone", f'[defaults]\ntimezone = "UTX"\n{JOB}', 2, "defaults.timezone",
        ('"UTX"',)),
]  # fmt: skip


def _named(name: str, toml_key: str, shown: str, *words: str) -> Bad:
    """Return a good job under a bad name."""
    return Bad(name, JOB.replace("jobs.a", f"jobs.{toml_key}"), 1, f"jobs.{shown}", words)


SHAPES = [
    _named("name-number", "12", "12", "a number is that of a run"),
    _named("name-newline", r'"a\nb"', r'"a\nb"', "no name"),
    _named("name-escape", r'"\u001b[2J"', r'"\x1b[2J"', "no name"),
    _named("name-bidi", r'"a\u202eb"', r'"a\u202eb"', "no name"),
    _named("name-blank", '"a b"', '"a b"', "letters"),
    _named("name-slash", '"a/b"', '"a/b"', "letters"),
    _named("name-dot", '".a"', '".a"', "begin"),
    _named("name-hyphen", "-a", "-a", "begin"),
    _named("name-empty", '""', '""', "1 to 100"),
    _named("name-umlaut", '"jöb"', '"jöb"', "ASCII"),
    _named("name-long", "x" * 101, f'"{"x" * 60}..."', "1 to 100"),
    Bad("pool-named-badly", f'[pools."a b"]\nworkers = 1\n{JOB}', 1, 'pools."a b"', ("no name",)),
    Bad("jobs-array", '[[jobs]]\nname = "x"\n', 1, "jobs", ("[jobs.NAME]", "brackets")),
    Bad("jobs-scalar", "jobs = 3\n", 1, "jobs", ("not 3",)),
    Bad("job-scalar", f'{JOB}[jobs]\nb = "x"\n', 5, "jobs.b", ("table", '[jobs.b]')),
    Bad("pools-scalar", f"pools = 3\n{JOB}", 1, "pools", ("not 3",)),
    Bad("pool-scalar", f"pools.p = 3\n{JOB}", 1, "pools.p", ("not 3",)),
    Bad("defaults-scalar", f"defaults = 3\n{JOB}", 1, "defaults", ("not 3",)),
    Bad("env-scalar", f"env = 3\n{JOB}", 1, "env", ("not 3",)),
    Bad("defaults-umask", f"[defaults]\numask = 77\n{JOB}", 2, "defaults.umask", ('"077"',)),
    Bad("defaults-retry", f'defaults.retry = {{ delay = "2h", max_delay = "1s" }}\n{JOB}', 1,
        "defaults.retry", ("shorter",)),
    Bad("empty", "", 0, "", ("is empty", "[jobs.NAME]")),
    Bad("no-jobs", "[pools.p]\nworkers = 1\n", 0, "", ("has no jobs", "submitted tasks alone")),
    Bad("only-comments", "# nothing\n", 0, "", ("no jobs",)),
]  # fmt: skip

ALL = [
    *TYPOS, *NUMBERS, *DURATIONS, *TEXTS, *LATER, *SIZES, *PROCESSES, *RETRIES, *SCHEDULES, *SHAPES
]  # fmt: skip


def faults_of(path: Path) -> tuple[Fault, ...]:
    """Return the faults of a crontab that must have some."""
    with pytest.raises(CrontabError) as caught:
        load_crontab(path, hostname="here")
    return caught.value.faults


@pytest.mark.parametrize("bad", ALL, ids=lambda bad: bad.name)
def test_a_fault_is_told_with_its_place(bad: Bad, tmp_path: Path) -> None:
    """P7: one mistake gives one fault, with file, line, key, and what is needed to mend it."""
    path = tmp_path / "crontab.toml"
    path.write_text(bad.text, encoding="utf-8")
    (fault,) = faults_of(path)
    assert (fault.path, fault.line, fault.key) == (str(path), bad.line, bad.key)
    for word in bad.words:
        assert word in f"{fault.message} ({fault.suggestion})"


@pytest.mark.parametrize("bad", ALL, ids=lambda bad: bad.name)
def test_a_fault_is_one_short_printable_line(bad: Bad, tmp_path: Path) -> None:
    """P9: whatever a file says, its fault is one line that drives no terminal."""
    path = tmp_path / "crontab.toml"
    path.write_text(bad.text, encoding="utf-8")
    (fault,) = faults_of(path)
    assert str(fault).isprintable()
    assert len(str(fault)) < 500


def test_the_names_of_the_table_are_unique() -> None:
    """No row of the table hides behind another, and there are as many as were asked for."""
    names = [bad.name for bad in ALL]
    assert len(names) == len(set(names)) >= 60


def test_all_faults_are_told_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    """P7: a person mends a file in one go, whatever the mistakes are about."""
    path = tmp_path / "crontab.toml"
    path.write_text(
        'timezone = "Nowhere"\n'
        "[jobs.b]\n"
        'schedule = "61 * * * *"\n'
        "command = 1\n"
        'overlpa = "skip"\n'
        'pool = "none"\n'
        "[jobs.a]\n"
        'retry = { attempts = 0, delay = "x" }\n'
        "[pools.p]\n"
        "workers = -1\n"
    )
    assert [(fault.line, fault.key) for fault in faults_of(path)] == [
        (1, "timezone"),
        (3, "jobs.b.schedule"),
        (4, "jobs.b.command"),
        (5, "jobs.b.overlpa"),
        (6, "jobs.b.pool"),
        (7, "jobs.a"),
        (7, "jobs.a"),
        (8, "jobs.a.retry.attempts"),
        (8, "jobs.a.retry.delay"),
        (10, "pools.p.workers"),
    ]


def test_a_bad_name_does_not_hide_what_is_wrong_below_it(tmp_path: Path) -> None:
    """P7: the faults of a job, or a pool, are told beside that of its name."""
    path = tmp_path / "crontab.toml"
    path.write_text(
        '[jobs."a b"]\nschedule = "61 * * * *"\ncommand = "true"\nuser = ""\n'
        '[pools."c d"]\nworkers = 0\n'
        '[jobs."e f"]\nschedule = "@daily"\ncommand = "true"\n'
    )
    assert [(fault.line, fault.key) for fault in faults_of(path)] == [
        (1, 'jobs."a b"'),
        (2, 'jobs."a b".schedule'),
        (4, 'jobs."a b".user'),
        (5, 'pools."c d"'),
        (6, 'pools."c d".workers'),
        (7, 'jobs."e f"'),
    ]


def test_a_fault_of_the_defaults_is_told_once(tmp_path: Path) -> None:
    """A mistake that holds for every job is one fault, at its place."""
    path = tmp_path / "crontab.toml"
    jobs = "".join(JOB.replace("jobs.a", f"jobs.j{number}") for number in range(5))
    path.write_text(f'[defaults]\ntimeout = "x"\ntimezone = "X/Y"\npool = "none"\n{jobs}')
    assert [fault.line for fault in faults_of(path)] == [2, 3, 4]
