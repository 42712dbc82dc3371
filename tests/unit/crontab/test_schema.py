"""The JSON Schema is the one that the key tables make, and agrees with the loader on shapes."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from datetime import date, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from crond_py.crontab.keys import FILE_KEYS, JOB_KEYS, MODEL_NAMES
from crond_py.crontab.model import Job
from crond_py.crontab.schema import SCHEMA_FILE, json_schema, schema_text
from crond_py.crontab.tables import GROUP_KEYS, KEEP_KEYS, LIMITS_KEYS, POOL_KEYS, RETRY_KEYS
from crond_py.model import Limits, Retry

VALIDATOR = Draft202012Validator(json_schema())


def as_json(value: Any) -> Any:
    """Return what an editor makes of TOML: date-times become text."""
    if isinstance(value, dict):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime | date) else value


def is_valid(text: str) -> bool:
    """Tell whether a crontab fits the schema."""
    return bool(VALIDATOR.is_valid(as_json(tomllib.loads(text))))


def test_the_file_is_up_to_date() -> None:
    """The shipped file is what the tables make: run ``python -m crond_py.crontab.schema``."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()


def test_the_schema_is_one() -> None:
    """The metaschema of draft 2020-12 takes it."""
    Draft202012Validator.check_schema(json_schema())


def test_every_key_has_a_line_that_says_what_it_is_for() -> None:
    """Each key is described by one sentence, for editors and manual pages."""
    for table in (FILE_KEYS, GROUP_KEYS, JOB_KEYS, KEEP_KEYS, LIMITS_KEYS, POOL_KEYS, RETRY_KEYS):
        for name, key in table.items():
            assert key.name == name
            assert key.doc.endswith("."), name
            assert "\n" not in key.doc, name


def test_every_field_of_the_model_has_its_key() -> None:
    """Nothing of a job is out of reach of the crontab, and no default is in two places."""
    made = {"name", "trigger", "source", "keep_runs", "keep_for", "keep_bytes"}
    names = {name: key for key, name in MODEL_NAMES.items()}
    for field in fields(Job):
        if field.name in made:
            continue
        key = JOB_KEYS[names.get(field.name, field.name)]
        assert key.is_supported
        if field.name not in ("command", "env", "retry", "limits"):
            assert key.default == field.default, field.name
    assert RETRY_KEYS.keys() == {field.name for field in fields(Retry)}
    assert LIMITS_KEYS.keys() == {field.name.removesuffix("_bytes") for field in fields(Limits)}


def test_defaults_are_written_as_a_crontab_would() -> None:
    """The defaults in the schema are values that the keys' kinds read back."""
    for table in (JOB_KEYS, KEEP_KEYS, RETRY_KEYS):
        for key in table.values():
            if key.default not in (None, ()):
                assert key.kind.read(key.kind.write(key.default)) == key.default, key.name


JOB = '[jobs.a]\nschedule = "* * * * *"\ncommand = "true"\n'
GOOD = [
    JOB,
    JOB + "[pools.p]\n",
    "[jobs]\n",
    '[jobs.a]\nevery = "1h30m"\ncommand = ["x"]\n',
    '[jobs.a]\nevery = "15m"\nalign = "hour"\noffset = "0s"\njitter = "5m"\ncommand = "x"\n',
    '[jobs.a]\nat = 2026-12-24T18:00:00\ncommand = "x"\n',
    '[jobs.a]\nat = 2026-12-24T18:00:00.5+01:00\ncommand = "x"\n',
    '[jobs.a]\nat = 2026-12-24\ncommand = "x"\n',
    '[jobs.a]\nstartup = true\ncommand = "x"\n',
    JOB + 'umask = "022"\ntimeout = "1.5h"\nkeep = { runs = 3 }\nretry = { attempts = 2 }\n',
    JOB + "umask = 0o027\n",
    JOB + 'user = "nobody"\nnice = -5\nenv_file = "/e"\nstdin = "x"\noverlap = "replace"\n',
    JOB + 'env_file = ["/e", "/f"]\nstdin = { file = "/x" }\noutput = "journal"\n',
    JOB + 'output_limit = "none"\nkeep = { bytes = "1.5 GiB" }\nretry_on = [75, "signal"]\n',
    JOB + 'output_limit = 8192\non_stop = "leave"\nleftovers = "kill"\n',
    JOB + 'limits = { core = 0, cpu = "5m", open_files = 64, address_space = "none" }\n',
    JOB + '[pools.p]\nworkers = 2\n[env]\nA = ""\n[defaults]\noverlap = "queue"\n',
    "",
]
BAD = [
    JOB + 'overlpa = "skip"\n',
    JOB + 'overlap = "Skip"\n',
    JOB + "timeout = 5\n",
    JOB + 'timeout = "5"\n',
    JOB + 'timeout = "-5s"\n',
    JOB + 'every = "5s"\n',
    JOB + "queue_limit = true\n",
    JOB + "queue_limit = 0\n",
    JOB + "retry = { attempts = 1.5 }\n",
    JOB + "success_codes = []\n",
    JOB + 'umask = "028"\n',
    JOB + "user = 1000\n",
    JOB + 'user = "a:b"\n',
    JOB + 'user = "-a"\n',
    JOB + "nice = 20\n",
    JOB + 'env_file = "e"\n',
    JOB + 'stdin = { path = "/e" }\n',
    JOB + 'output_limit = "10MB"\n',
    JOB + 'output_limit = "10m"\n',
    JOB + "output_limit = 100\n",
    JOB + 'limits = { core = "unlimited" }\n',
    JOB + 'limits = { memory = "1G" }\n',
    JOB + 'retry_on = ["failed"]\n',
    JOB + "retry_on = []\n",
    JOB + 'notify = ["g"]\n',
    JOB + "env = { A = 1 }\n",
    JOB + 'env = { "A=B" = "1" }\n',
    JOB + 'env = { PYCRON_JOB = "1" }\n',
    JOB + 'cwd = "work"\n',
    JOB + "[job.b]\n",
    JOB.replace("jobs.a", 'jobs."a b"'),
    JOB.replace("jobs.a", "jobs.-a"),
    '[jobs.a]\nevery = "5s"\nalign = "week"\ncommand = "x"\n',
    '[defaults]\nalign = "hour"\n',
    '[jobs.a]\ncommand = "x"\n',
    '[jobs.a]\nevery = "5s"\n',
    '[jobs.a]\nevery = "5s"\ncommand = " "\n',
    '[jobs.a]\nevery = "5s"\ncommand = []\n',
    '[jobs.a]\nafter = "b"\ncommand = "x"\n',
    '[jobs.a]\nafter = []\ncommand = "x"\n',
    '[jobs.a]\nafter = { b = "perhaps" }\ncommand = "x"\n',
    '[jobs.a]\nstartup = false\ncommand = "x"\n',
    '[jobs.a]\nat = "tomorrow"\ncommand = "x"\n',
    '[defaults]\nschedule = "* * * * *"\n',
    '[defaults]\ncommand = "x"\n',
    'overlap = "skip"\n',
    "jobs = 3\n",
]


@pytest.mark.parametrize("text", GOOD)
def test_good_crontabs_fit(text: str) -> None:
    """An editor marks nothing in a crontab that is good."""
    assert is_valid(text)


@pytest.mark.parametrize("text", BAD)
def test_bad_crontabs_do_not_fit(text: str) -> None:
    """An editor marks what the loader would refuse for its shape."""
    assert not is_valid(text)
