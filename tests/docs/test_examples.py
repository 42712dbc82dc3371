"""Every example is a good crontab, and together they show every key."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from crond_py.crontab.keys import FILE_KEYS, JOB_KEYS
from crond_py.crontab.loader import load_crontab
from crond_py.crontab.schema import SCHEMA_FILE
from crond_py.crontab.tables import GROUP_KEYS, KEEP_KEYS, LIMITS_KEYS, POOL_KEYS, RETRY_KEYS
from crond_py.crontab.task_keys import WHEN_KEYS
from crond_py.crontab.tasks import TaskReader
from crond_py.model import EveryMode, Missed, Overlap

EXAMPLES = Path(__file__).parents[2] / "examples"
CRONTABS = sorted([*EXAMPLES.glob("*.toml"), EXAMPLES / "drop-in" / "crontab.toml"])
FILES = sorted(EXAMPLES.rglob("*.toml"))


def name_of(path: Path) -> str:
    """Return the short name of an example."""
    return str(path.relative_to(EXAMPLES))


def as_json(value: Any) -> Any:
    """Return what an editor makes of TOML: date-times become text."""
    if isinstance(value, dict):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime | date) else value


@pytest.mark.parametrize("path", CRONTABS, ids=name_of)
def test_every_example_loads(path: Path) -> None:
    """A person can start with any of the examples."""
    assert load_crontab(path).jobs


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_example_fits_the_shipped_schema(path: Path) -> None:
    """An editor marks nothing in an example."""
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    document = as_json(tomllib.loads(path.read_text(encoding="utf-8")))
    assert list(Draft202012Validator(schema).iter_errors(document)) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_example_begins_by_saying_what_it_shows(path: Path) -> None:
    """The first thing in an example is for the reader, and no line runs out of a window."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert max(map(len, text.splitlines())) <= 110


def keys_of(table: dict[str, Any], *tables: str) -> Iterator[str]:
    """Yield the keys of some tables of a document, each with the table's name before it."""
    for name in tables:
        yield from (f"{name}.{key}" for key in table.get(name, {}))


def test_the_annotated_example_shows_every_key() -> None:
    """No key is left for a person to find out by chance."""
    text = (EXAMPLES / "annotated-full.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    jobs = list(document["jobs"].values())
    shown = {*document, *(key for job in jobs for key in job)}
    tables = ("retry", "limits", "keep")
    shown |= {key for job in [*jobs, document["defaults"]] for key in keys_of(job, *tables)}
    for name in ("pools", "groups"):
        shown |= {f"{name}.{key}" for table in document[name].values() for key in table}
    wanted = {key.name for key in FILE_KEYS.values() if key.is_supported}
    wanted |= {key.name for key in JOB_KEYS.values() if key.is_supported}
    for name, table in (
        ("retry", RETRY_KEYS), ("limits", LIMITS_KEYS), ("keep", KEEP_KEYS), ("pools", POOL_KEYS),
        ("groups", GROUP_KEYS),
    ):  # fmt: skip
        wanted |= {f"{name}.{key}" for key in table}
    assert shown == wanted


def test_the_policies_have_an_example_each() -> None:
    """overlap-WORD and missed-WORD are there for every word, and use it."""
    for overlap in Overlap:
        jobs = load_crontab(EXAMPLES / f"overlap-{overlap}.toml").jobs.values()
        assert {job.overlap for job in jobs} == {overlap}
    for missed in Missed:
        jobs = load_crontab(EXAMPLES / f"missed-{missed}.toml").jobs.values()
        assert {job.missed for job in jobs} == {missed}


def test_the_quickstart_has_something_of_everything() -> None:
    """Ten seconds of it show a success, a retry, a skip, a timeout and a fixed delay."""
    jobs = load_crontab(EXAMPLES / "quickstart.toml").jobs
    assert all(job.trigger.period.total_seconds() <= 6 for job in jobs.values())  # type: ignore[union-attr]  # all have every
    assert jobs["flaky"].retry.attempts > 1
    assert jobs["stuck"].timeout is not None
    assert jobs["slow"].overlap is Overlap.SKIP
    assert jobs["rest"].trigger.mode is EveryMode.FIXED_DELAY  # type: ignore[union-attr]  # has every


def test_the_pools_show_every_way_to_get_a_slot() -> None:
    """A bound, a priority, a share and a ceiling, each used by a job."""
    crontab = load_crontab(EXAMPLES / "pools.toml")
    jobs = crontab.jobs.values()
    assert {job.pool for job in jobs} == {*crontab.pools} > {"default"}
    assert {job.group for job in jobs} == {*crontab.groups, None}
    assert any(job.priority for job in jobs)
    assert any(group.weight != 1 for group in crontab.groups.values())
    assert any(group.max_running for group in crontab.groups.values())


TASKS = (EXAMPLES / "tasks.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", TASKS)
def test_every_task_of_the_example_is_good(line: str) -> None:
    """It can be submitted as it is, to a daemon with any crontab, and says what it shows."""
    values = json.loads(line)
    reader = TaskReader(load_crontab(EXAMPLES / "quickstart.toml"))
    assert reader.read(values).definition
    assert next(iter(values)) == "description"


def test_the_tasks_show_every_way_to_say_when() -> None:
    """And the key that makes one repeatable."""
    shown = {key for line in TASKS for key in json.loads(line)}
    assert shown >= {*WHEN_KEYS, "offset", "key"}
