"""The environment and the command line that a job gets."""

from __future__ import annotations

import os
import pwd
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from crond_py.crontab.process_values import RESERVED_ENV
from crond_py.ports import AttemptKey, ProcessSpec
from crond_py.runner.accounts import Account
from crond_py.runner.environment import RESERVED, build_environment, command_argv, run_tag
from crond_py.runner.setting import Setting, resolve

DUE = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)


def _build(job_env: dict[str, str], due: datetime = DUE) -> dict[str, str]:
    return build_environment(
        job_env=job_env, identity="k3x9", run_id=17, job="backup", due=due, attempt=2
    )


def _resolve(
    env: dict[str, str], *, cwd: str | None = None, files: tuple[Path, ...] = ()
) -> Setting:
    return resolve(
        ProcessSpec(
            AttemptKey(17, 2),
            "k3x9-17",
            ("true",),
            env,
            cwd,
            0o022,
            None,
            env_files=tuple(map(str, files)),
        )
    )


def test_the_environment_is_small_and_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes from the daemon's own environment, not even PATH (B55)."""
    monkeypatch.setenv("X", "outer")
    monkeypatch.setenv("PATH", "/outer")
    monkeypatch.setenv("HOME", "/nowhere")
    entry = pwd.getpwuid(os.geteuid())
    assert _resolve(_build({})).env == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": entry.pw_dir,
        "LOGNAME": entry.pw_name,
        "USER": entry.pw_name,
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "PYCRON_RUN_ID": "k3x9-17",
        "PYCRON_JOB": "backup",
        "PYCRON_DUE": "2026-03-29T01:00:00Z",
        "PYCRON_ATTEMPT": "2",
    }


def test_the_crontab_wins_over_the_files_and_these_over_the_basis(tmp_path: Path) -> None:
    """Of one variable the crontab's value holds, else that of the last file, else the account's."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("LANG=de\nA=1\nB=1\nC=1\n")
    second.write_text("B=2\nC=2\n")
    env = _resolve(_build({"C": "3"}), files=(first, second)).env
    assert [env[name] for name in ("LANG", "A", "B", "C")] == ["de", "1", "2", "3"]


def test_files_are_read_anew_at_each_start(tmp_path: Path) -> None:
    """What a file says when a run starts is what the run gets."""
    file = tmp_path / "file"
    for value in ("1", "2"):
        file.write_text(f"A={value}\n")
        assert _resolve({}, files=(file,)).env["A"] == value


def test_the_crontab_wins_over_the_basis() -> None:
    """The crontab's values replace ours as they are: no interpolation, no trimming."""
    env = _resolve(_build({"PATH": "/opt/bin:$PATH", "HOME": " ~ ", "X": 'a "b" \n'})).env
    assert env["PATH"] == "/opt/bin:$PATH"
    assert env["HOME"] == " ~ "
    assert env["X"] == 'a "b" \n'


def test_without_a_directory_it_is_the_home_of_the_account() -> None:
    """Not what the crontab calls HOME: that is for programs to read."""
    assert _resolve({"HOME": "/nowhere"}).cwd == pwd.getpwuid(os.geteuid()).pw_dir
    assert _resolve({}, cwd="/srv").cwd == "/srv"


@pytest.mark.parametrize(
    ("home", "directory"),
    [("/home/x", "/home/x"), ("/", "/"), ("/nonexistent", "/"), ("/dev/null", "/")],
)
def test_an_account_without_a_home_begins_in_the_root(home: str, directory: str) -> None:
    """Accounts of services have a name for "no home"; any other home has to be there."""
    assert Account("x", home, 1, 1, (1,)).directory == directory


def test_the_crontab_cannot_change_what_a_run_is_known_by() -> None:
    """PYCRON_RUN_ID is how a survivor is found: a job cannot pass for another (P2, P5)."""
    forged = dict.fromkeys(("PYCRON_RUN_ID", "PYCRON_JOB", "PYCRON_DUE", "PYCRON_ATTEMPT"), "x")
    assert _build(forged) == _build({})
    assert set(forged) == RESERVED == set(RESERVED_ENV)


def test_what_was_handed_in_is_not_changed() -> None:
    """One job's variables never reach another (B55)."""
    first = {"X": "1"}
    built = _build(first)
    built["Y"] = "2"
    assert first == {"X": "1"}
    assert "X" not in _build({})


@pytest.mark.parametrize(
    ("due", "text"),
    [
        (DUE, "2026-03-29T01:00:00Z"),
        (datetime(2026, 3, 29, 3, tzinfo=timezone(timedelta(hours=2))), "2026-03-29T01:00:00Z"),
        (datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC), "2026-01-01T00:00:00.250000Z"),
    ],
)
def test_due_is_in_utc(due: datetime, text: str) -> None:
    """PYCRON_DUE is RFC 3339 in UTC with a Z, whatever zone it was worked out in."""
    assert _build({}, due)["PYCRON_DUE"] == text


def test_a_string_goes_through_the_shell() -> None:
    """A string is one argument of ``shell -c``; an array is executed as it is."""
    assert command_argv("a | b", "/bin/bash") == ("/bin/bash", "-c", "a | b")
    assert command_argv(("/bin/a", "b c"), "/bin/bash") == ("/bin/a", "b c")


def test_a_run_is_tagged_by_ledger_and_id() -> None:
    """The tag names the ledger too: another daemon's runs are not taken for ours (P2)."""
    assert run_tag("k3x9", 17) == "k3x9-17"
