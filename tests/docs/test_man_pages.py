"""The manual pages tell of everything there is, and of nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from crond_py.cli import app
from crond_py.crontab import load_crontab
from crond_py.crontab.fields import Key
from crond_py.crontab.keys import FILE_KEYS, JOB_KEYS
from crond_py.crontab.model import Crontab, Pool
from crond_py.crontab.tables import GROUP_KEYS, KEEP_KEYS, LIMITS_KEYS, POOL_KEYS, RETRY_KEYS
from crond_py.crontab.task_keys import TASK_KEYS
from crond_py.crontab.tasks import TaskReader
from crond_py.schedule import format_duration
from crond_py.schedule.expression import NAMED

MANUALS = Path(__file__).parents[2] / "packaging" / "man"
PROGRAM = get_command(app.app)
COMMANDS = PROGRAM.list_commands(None)  # type: ignore[attr-defined]  # it is a group


def command(name: str) -> Any:
    """Return a command as typer has it."""
    return PROGRAM.get_command(None, name)  # type: ignore[attr-defined]  # it is a group


def options(name: str) -> set[str]:
    """Return all spellings of a command's options."""
    return {
        spelling
        for param in command(name).params
        if param.param_type_name == "option"
        for spelling in (*param.opts, *param.secondary_opts)
    }


def sections(text: str) -> dict[str, str]:
    """Return the text below each ``.Ss`` and ``.Sh`` heading."""
    parts = re.split(r"^\.S[hs] (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def flags(text: str) -> set[str]:
    """Return the options that are told of: the ``Fl`` macros of mdoc(7)."""
    return {f"-{name}" for name in re.findall(r"Fl (-?[A-Za-z0-9][\w-]*)", text)}


PAGE = sections((MANUALS / "pycron.1").read_text())
COMMON = {"-c", "--crontab", "--state-dir", "--state", "--json"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_told(name: str) -> None:
    """Under the command's own heading, or for those that many have under the common one."""
    own = flags(PAGE[name])
    assert options(name) - COMMON <= own
    assert options(name) <= own | flags(PAGE["COMMON OPTIONS"])


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_told_that_is_not_there(name: str) -> None:
    """A list of options has those of the command only."""
    told = {
        flag
        for line in PAGE[name].splitlines()
        if line.startswith((".It", ".Op"))
        for flag in flags(line)
    }
    assert told <= options(name)


def test_the_options_of_the_program_are_told() -> None:
    """Help, version, completion, and those that many commands have."""
    own = {spelling for param in PROGRAM.params for spelling in param.opts}
    assert own | COMMON | {"-h", "--help"} == flags(PAGE["COMMON OPTIONS"])


# --- the crontab --------------------------------------------------------------------------------

FORMAT_TEXT = (MANUALS / "pycron.toml.5").read_text()
FORMAT = sections(FORMAT_TEXT)
JOB = "".join(
    FORMAT[heading]
    for heading in (
        "When it is due", "What it runs", "When an earlier run is still active",
        "When nothing could start it", "When the daemon is stopped",
        "How long, and what if it fails", "What is kept",
    )
)  # fmt: skip
TABLES = [
    pytest.param(FORMAT["THE FILE"], FILE_KEYS, id="file"),
    pytest.param(FORMAT["A POOL"], POOL_KEYS, id="pool"),
    pytest.param(JOB, JOB_KEYS, id="job"),
    pytest.param(FORMAT["LIMITS"], LIMITS_KEYS, id="limits"),
    pytest.param(FORMAT["A RETRY"], RETRY_KEYS, id="retry"),
    pytest.param(FORMAT["WHAT TO KEEP"], KEEP_KEYS, id="keep"),
    pytest.param(FORMAT["A GROUP"], GROUP_KEYS, id="group"),
]


def told(text: str) -> dict[str, str]:
    """Return what is told of each key: the items of the lists in a section."""
    parts = re.split(r"^\.It Cm (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(("text", "keys"), TABLES)
def test_every_key_is_told_and_no_other(text: str, keys: dict[str, Key]) -> None:
    """Each key that this version knows what to do with has its item."""
    assert set(told(text)) == {key.name for key in keys.values() if key.is_supported}


def as_written(default: object) -> str:
    """Return a default as a crontab has it."""
    match default:
        case timedelta():
            return format_duration(default)
        case frozenset():
            return str(sorted(default))
        case bool():
            return str(default).lower()
    return str(default)


@pytest.mark.parametrize(("text", "keys"), TABLES)
def test_every_default_is_told(text: str, keys: dict[str, Key]) -> None:
    """The default that the model has is the one in the manual; where it has none, none is told."""
    for name, item in told(text).items():
        found = re.search(r"^The default is (.*)\.$", item, flags=re.MULTILINE)
        default = keys[name].default
        if name == "umask":
            default = f"0{default:o}"
        if name == "output_limit":
            default = f"{default // 1024**2}M"
        if default is None or default in ("", (), {}):
            assert found is None, name
        else:
            assert found is not None, name
            assert found[1] == as_written(default), name


def test_what_is_special_about_tasks_is_told() -> None:
    """The keys that tasks have otherwise than jobs, and those that they have not."""
    section = FORMAT["SUBMITTED TASKS"]
    keys = {name for names in re.findall(r"^\.(?:It )?Ic (.*)$", section, re.MULTILINE)
            for name in re.findall(r"\w+", names)}  # fmt: skip
    special = {
        name
        for name, key in TASK_KEYS.items()
        if name not in JOB_KEYS
        or (
            JOB_KEYS[name].is_supported
            and (JOB_KEYS[name].kind, JOB_KEYS[name].doc) != (key.kind, key.doc)
        )
    }
    assert keys == special


def test_every_task_in_the_manual_is_a_good_one() -> None:
    """What can be copied works."""
    lines = re.findall(r"^\.Dl (\{.*)$", FORMAT["SUBMITTED TASKS"], flags=re.MULTILINE)
    assert len(lines) == 2
    reader = TaskReader(Crontab({}, {"default": Pool("default")}))
    for line in lines:
        assert reader.read(json.loads(line.replace("\\(dq", '"'))).definition


def test_every_example_in_the_manual_is_a_good_crontab(tmp_path: Path) -> None:
    """What can be copied works."""
    examples = re.findall(r"^\.Bd -literal.*\n((?:.*\n)*?)\.Ed", FORMAT_TEXT, flags=re.MULTILINE)
    assert len(examples) == 2
    for number, example in enumerate(examples):
        path = tmp_path / f"{number}.toml"
        path.write_text(example)
        assert load_crontab(path).jobs


@pytest.mark.parametrize("expression", NAMED)
def test_every_named_expression_is_told(expression: str) -> None:
    """The names that stand for an expression are all there."""
    assert f"\n.Li {expression}" in FORMAT["CRON EXPRESSIONS"]


@pytest.mark.parametrize("name", ["pycron.1", "pycron.toml.5"])
@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_is_well_formed(name: str) -> None:
    """Groff has nothing to warn of."""
    done = subprocess.run(
        ["groff", "-mdoc", "-Tascii", "-ww", "-z", str(MANUALS / name)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
