"""A crontab read table by table against tomllib, which reads it in one go."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crond_py.crontab import blocks

LINES = (
    "[jobs.a]",
    "[jobs.b] # the other",
    "[jobs.c-1]",
    '[jobs."a"]',
    "[jobs.a.env]",
    "[jobs.b.retry]",
    "[jobs]",
    "[[jobs]]",
    "[[jobs.a]]",
    "[pools.fast]",
    "[pools]",
    "[defaults]",
    "  [jobs.d]",
    "[ jobs.e ]",
    "[jobs-x]",
    "jobs.f.schedule = '@daily'",
    'schedule = "0 5 * * *"',
    'schedule = "0 5 * * *"   # at five',
    'command = "true"',
    'command = "say \\"so\\""',
    'command = ["/bin/echo", "a b", ""]',
    'command = [ "x" , ]',
    "command = []",
    'command = ["a" "b"]',
    "command = [",
    "]",
    'x = """',
    '"""',
    "x = '''",
    "'''",
    "nice = 5",
    "nice = -0",
    "nice = 05",
    "nice = 1_000",
    "nice = 0x1f",
    "ratio = 1.5",
    "at = 2026-12-24T18:00:00",
    "enabled = true",
    "enabled = True",
    "enabled=false",
    "env = { A = '1' }",
    "env.B = 'dotted'",
    'timezone = ""',
    'tab = "\t"',
    'del = "\x7f"',
    "# only words",
    "# a bell \x07",
    "\t# after a tab",
    "",
    "   ",
    "]]",
    "=",
)


def texts() -> st.SearchStrategy[str]:
    """Return texts of such lines, most of them with a few jobs that are good."""
    good = '[jobs.{}]\nschedule = "@daily"\ncommand = "true"'
    jobs = st.sampled_from("pqrs").map(good.format)
    lines = st.lists(st.one_of(jobs, st.sampled_from(LINES)), max_size=14)
    ends = st.sampled_from(("\n", "\n", "\r\n"))
    return st.builds(lambda all_, end, last: end.join(all_) + last, lines, ends, ends | st.just(""))


@given(texts())
@example('x = """\n[jobs.p]\ncommand = "true"\n[pools.x]\n"""\n')
@example('[jobs.p]\nx = """\n[jobs.q]\ny = 1\n[jobs.r]\n"""\n')
@example("[jobs.a]\nx = 1\n[jobs.b]\n[jobs.a.env]\ny = 2\n")
@example("[jobs.p]\nx = 1\n[jobs]\n[jobs.q]\nx = 1\n[jobs]\n")
def test_table_by_table_means_what_the_whole_means(text: str) -> None:
    """What is read table by table is what tomllib reads, of the same types; else it is left."""
    tables = blocks.read_blocks(text, lambda _: True)
    if tables is not None:
        assert _written(tables) == _written(tomllib.loads(text))


def _written(tables: dict[str, object]) -> str:
    """Return tables with the types of all values; the order of the tables means nothing."""
    return repr(sorted(tables.items()))


def test_jobs_are_read_without_tomllib(monkeypatch: pytest.MonkeyPatch) -> None:
    """What most jobs look like costs no call of tomllib but the one for all that is no job."""
    asked: list[str] = []
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: asked.append(text) or loads(text))
    job = '[jobs.{}] # one\nschedule = "@daily"\n# of many\ncommand = ["a", "b"]  # c\nnice = 3\n\n'
    text = 'timezone = "UTC"\n' + "".join(map(job.format, range(50)))
    tables = blocks.read_blocks(text, lambda _: True)
    assert asked == ['timezone = "UTC"\n']
    assert tables == loads(text)


def test_a_job_that_is_not_simple_is_read_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job with a table of its own does not make all others slow."""
    asked: list[str] = []
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: asked.append(text) or loads(text))
    odd = '[jobs.odd]\ncommand = "a"\n[jobs.odd.env]\nA = "1"\n'
    plain = '[jobs.b]\ncommand = "b"\n'
    assert blocks.read_blocks(odd + plain, lambda _: True) == loads(odd + plain)
    assert asked == [odd, ""]


@pytest.mark.parametrize(
    "text",
    ["[jobs.a]\nx = 1\n[jobs.a]\ny = 1\n", "[jobs.a]\nx = 1\nx = 2\n", "[jobs.a]\nx = \n", "x"],
    ids=["job twice", "key twice", "no value", "no line"],
)
def test_what_is_wrong_is_left_to_tomllib(text: str) -> None:
    """A text that is not TOML is not read, so that its fault is told as ever."""
    assert blocks.read_blocks(text, lambda _: True) is None


def test_what_may_not_be_asked_for_is_not() -> None:
    """A piece that tomllib would take too long for leaves the whole to who says so."""
    assert blocks.read_blocks("[jobs.a]\nx.y = 1\n", lambda piece: "x.y" not in piece) is None
    assert blocks.read_blocks("x.y = 1\n[jobs.a]\n", lambda piece: "x.y" not in piece) is None
