"""The one reader of TOML is as quick as it can be, and says what the standard library's says."""

from __future__ import annotations

import tomllib

import pytest

from crond_py.crontab import toml

GOOD = """
timezone = "Europe/Berlin"
at = 2026-12-24T18:00:00+01:00
[jobs."a b"]
command = ["x", '''
y''', "\\u00e9"]
retry = { attempts = 3, delay = "30s", factor = 1.5, on = [1, 2], umask = 0o022, big = inf }
[[things]]
when = 07:32:00
"""

BAD = (
    "a = ",
    "a = 1\na = 2",
    "[jobs.a]\n[jobs.a]",
    'a = "\\x"',
    'a = "never closed',
    "a = [1, 2",
    "a = { b = 1,\n c = 2 }",  # TOML 1.1 would have it
    "a = 07:32",  # this, too
    'a = "\\e"',
    "a = 2026-02-30",
    "a = " + "9" * 5000,
    "a = " + "[" * 5000,
    "a\x00 = 1",
)


@pytest.fixture(params=["as it is installed", "without compiled code"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "as it is installed":
        monkeypatch.setattr(toml, "_IS_COMPILED", False)


@pytest.mark.usefixtures("_way")
def test_it_reads_what_the_standard_library_reads() -> None:
    """All kinds of values come out the same."""
    assert toml.parse(GOOD) == tomllib.loads(GOOD)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("text", BAD, ids=[text[:20] for text in BAD])
def test_it_refuses_what_the_standard_library_refuses(text: str) -> None:
    """With the same words and the same place."""
    with pytest.raises((ValueError, RecursionError)) as theirs:
        tomllib.loads(text)
    with pytest.raises(type(theirs.value)) as ours:
        toml.parse(text)
    assert str(ours.value) == str(theirs.value)
