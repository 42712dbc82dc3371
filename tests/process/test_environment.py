"""The environment and the command line that a job gets."""

from __future__ import annotations

import pwd
from datetime import UTC, datetime, timedelta, timezone

import pytest

from crond_py.runner.environment import (
    Account,
    base_environment,
    build_environment,
    command_argv,
    current_account,
    run_tag,
)

ANNA = Account("anna", "/home/anna")
DUE = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)


def _build(job_env: dict[str, str], due: datetime = DUE) -> dict[str, str]:
    return build_environment(
        base=base_environment(ANNA, shell="/bin/sh"),
        job_env=job_env,
        identity="k3x9",
        run_id=17,
        job="backup",
        due=due,
        attempt=2,
    )


def test_the_environment_is_small_and_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes from the daemon's own environment, not even PATH (B55)."""
    monkeypatch.setenv("X", "outer")
    monkeypatch.setenv("PATH", "/outer")
    assert _build({}) == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/home/anna",
        "LOGNAME": "anna",
        "USER": "anna",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "PYCRON_RUN_ID": "k3x9-17",
        "PYCRON_JOB": "backup",
        "PYCRON_DUE": "2026-03-29T01:00:00Z",
        "PYCRON_ATTEMPT": "2",
    }


def test_the_crontab_wins_over_the_basis() -> None:
    """The crontab's values replace ours as they are: no interpolation, no trimming."""
    built = _build({"PATH": "/opt/bin:$PATH", "HOME": " ~ ", "X": 'a "b" \n'})
    assert built["PATH"] == "/opt/bin:$PATH"
    assert built["HOME"] == " ~ "
    assert built["X"] == 'a "b" \n'


def test_the_crontab_cannot_change_what_a_run_is_known_by() -> None:
    """PYCRON_RUN_ID is how a survivor is found: a job cannot pass for another (P2, P5)."""
    forged = dict.fromkeys(("PYCRON_RUN_ID", "PYCRON_JOB", "PYCRON_DUE", "PYCRON_ATTEMPT"), "x")
    assert _build(forged) == _build({})


def test_what_was_handed_in_is_not_changed() -> None:
    """One job's variables never reach another (B55)."""
    base, first = base_environment(ANNA, shell="/bin/sh"), {"X": "1"}
    built = build_environment(
        base=base, job_env=first, identity="i", run_id=1, job="a", due=DUE, attempt=1
    )
    built["Y"] = "2"
    assert first == {"X": "1"}
    assert "X" not in base


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


def test_an_account_without_an_entry_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user id that no user database knows (a container's) is named by its number."""

    def unknown(user_id: int) -> pwd.struct_passwd:
        raise KeyError(user_id)

    monkeypatch.setattr("os.geteuid", lambda: 12345)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert current_account() == Account("12345", "/")


def test_the_account_is_that_of_the_effective_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name and home come from the user database, not from HOME and USER."""
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert current_account() == Account("root", pwd.getpwuid(0).pw_dir)


def test_a_string_goes_through_the_shell() -> None:
    """A string is one argument of ``shell -c``; an array is executed as it is."""
    assert command_argv("a | b", "/bin/bash") == ("/bin/bash", "-c", "a | b")
    assert command_argv(("/bin/a", "b c"), "/bin/bash") == ("/bin/a", "b c")


def test_a_run_is_tagged_by_ledger_and_id() -> None:
    """The tag names the ledger too: another daemon's runs are not taken for ours (P2)."""
    assert run_tag("k3x9", 17) == "k3x9-17"
