"""``after``: chains of jobs, and what is wrong with some."""

from __future__ import annotations

from pathlib import Path

import pytest

from crond_py.crontab.model import AfterTrigger
from crond_py.crontab.summary import describe_trigger, fingerprint
from tests.support.crontabs import faults, load

HEAD = '[jobs.head]\nschedule = "30 2 * * *"\ncommand = "true"\n'


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    """Return where the crontab of a test lies."""
    return tmp_path / "crontab.toml"


def job(name: str, after: str, more: str = "") -> str:
    """Return a job that follows others."""
    return f'[jobs.{name}]\nafter = {after}\ncommand = "true"\n{more}'


def test_both_forms(crontab: Path) -> None:
    """An array asks for success; a table says of each job what is asked."""
    text = HEAD + job("a", '["head"]') + job("b", '{ head = "any", a = "failure" }')
    jobs = load(crontab, text).jobs
    assert jobs["a"].trigger == AfterTrigger({"head": "success"})
    assert jobs["b"].trigger == AfterTrigger({"head": "any", "a": "failure"})
    assert describe_trigger(jobs["a"]) == "after head"
    assert describe_trigger(jobs["b"]) == "after head (any), a (failure)"


def test_the_order_of_names_does_not_matter(crontab: Path) -> None:
    """P1: a job keeps its place in the ledger when only the order of what it waits for changes."""
    both = HEAD + job("a", '["head"]')
    one = load(crontab, both + job("b", '["head", "a"]')).jobs["b"]
    two = load(crontab, both + job("b", '["a", "head"]')).jobs["b"]
    other = load(crontab, both + job("b", '{ a = "any", head = "success" }')).jobs["b"]
    assert fingerprint(one) == fingerprint(two) != fingerprint(other)


def test_a_chain_may_be_spread_over_files(crontab: Path) -> None:
    """A drop-in's job follows one of the crontab, and the other way round."""
    loaded = load(crontab, HEAD + job("c", '["b"]'), more=job("b", '["head"]'))
    assert set(loaded.jobs) == {"head", "b", "c"}


def test_a_chain_of_many(crontab: Path) -> None:
    """Two thousand jobs in a row are read; nothing here goes as deep as the chain is long."""
    links = [job(f"j{n}", f'["j{n - 1}"]' if n else '["head"]') for n in range(2000)]
    assert len(load(crontab, HEAD + "".join(links)).jobs) == 2001


WAY_OUT = (
    "let both follow from one job, or give them an equal schedule (or at, or every with align)"
    " without H and jitter, and the same timezone, dst and missed keys"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            HEAD + job("a", '["haed"]'),
            'crontab.toml:5: jobs.a.after: there is no job "haed" (did you mean "head"?)',
        ),
        (
            job("a", '["a"]'),
            'crontab.toml:2: jobs.a.after: waits for itself: "a" after "a" (take one of them out)',
        ),
        (
            job("a", '["c"]') + job("b", '["a"]') + job("c", '["b"]'),
            (
                'crontab.toml:2: jobs.a.after: waits for itself: "a" after "c" after "b" after "a"'
                " (take one of them out)"
            ),
        ),
        (
            HEAD
            + '[jobs.hourly]\nschedule = "@hourly"\ncommand = "true"\n'
            + job("a", '["head"]')
            + job("b", '["a", "hourly"]'),
            (
                'crontab.toml:11: jobs.b.after: follows from "head" and "hourly", whose cycles'
                f" differ ({WAY_OUT})"
            ),
        ),
        (
            '[jobs.x]\nevery = "5m"\ncommand = "true"\n[jobs.y]\nevery = "5m"\ncommand = "true"\n'
            + job("b", '["x", "y"]'),
            (
                'crontab.toml:8: jobs.b.after: follows from "x" and "y", whose cycles'
                f" differ ({WAY_OUT})"
            ),
        ),
    ],
    ids=["typo", "itself", "circle", "other-times", "intervals-of-their-own"],
)
def test_what_is_wrong_with_a_chain(crontab: Path, text: str, expected: str) -> None:
    """P7: names that there are not, circles and joins of different cycles are refused, once."""
    assert faults(crontab, text) == [expected]


def test_two_circles_are_two_faults(crontab: Path) -> None:
    """All faults of a file are told in one go."""
    text = job("a", '["b"]') + job("b", '["a"]') + job("x", '["y"]') + job("y", '["x"]')
    assert len(faults(crontab, text)) == 2


@pytest.mark.parametrize(
    "when",
    [
        'schedule = "30 2 * * *"',
        'schedule = "0 2 * MAR THU"',
        'schedule = "@hourly"',
        'schedule = "@monthly"',
        'every = "15m"\nalign = "hour"',
        "at = 2030-01-01T00:00:00",
    ],
)
def test_heads_with_one_schedule_can_be_joined(crontab: Path, when: str) -> None:
    """Jobs that are due at the same instants have the same cycles."""
    text = f'[jobs.x]\n{when}\ncommand = "true"\n[jobs.y]\n{when}\ncommand = "true"\n'
    assert "b" in load(crontab, text + job("b", '["x", "y"]')).jobs


@pytest.mark.parametrize("when", ['schedule = "H 2 * * *"', 'schedule = "@daily"\njitter = "1h"'])
def test_what_depends_on_the_name_cannot_be_joined(crontab: Path, when: str) -> None:
    """The same text makes other times for another job, so the cycles differ."""
    text = f'[jobs.x]\n{when}\ncommand = "true"\n[jobs.y]\n{when}\ncommand = "true"\n'
    (fault,) = faults(crontab, text + job("b", '["x", "y"]'))
    assert "whose cycles differ" in fault


def test_a_fault_of_a_job_is_not_one_of_those_that_follow(crontab: Path) -> None:
    """P7: a job with a fault is there; who waits for it is not told that it is not."""
    text = '[jobs.head]\nschedule = "61 * * * *"\ncommand = "true"\n' + job("a", '["head"]')
    (fault,) = faults(crontab, text)
    assert "jobs.head.schedule" in fault


DIAMOND = job("b", '["head"]') + job("c", '["head"]') + job("d", '["b", "c"]')
OTHER = '[jobs.other]\nschedule = "@hourly"\ncommand = "true"\n'


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (HEAD.replace("true", "true\\u0000") + DIAMOND, ["head.command"]),
        (HEAD + 'timeout = "5"\n' + DIAMOND, ["head.timeout"]),
        (HEAD + 'pool = "none"\n' + DIAMOND, ["head.pool"]),
        (HEAD.replace("30 2", "30 25") + DIAMOND, ["head.schedule"]),
        (HEAD + DIAMOND.replace('["head"]', '["haed"]', 1), ["b.after"]),
        (HEAD + OTHER + job("a", '["a"]') + job("b", '["a", "head"]'), ["a.after"]),
        (
            HEAD + job("s", '["t"]') + job("t", '["u"]') + job("u", '["s", "head"]')
            + job("v", '["u", "head"]'),
            ["s.after"],
        ),
        (HEAD + OTHER + job("b", '["head", "other"]') + job("c", '["b", "other"]'), ["b.after"]),
        # What two good heads have between them is told, whatever else is wrong.
        (
            HEAD + OTHER + job("bad", '["head"]', 'timeout = "5"\n')
            + job("b", '["bad", "head", "other"]') + job("c", '["bad", "other"]'),
            ["bad.timeout", "b.after"],
        ),
    ],
    ids=[
        "command", "timeout", "pool", "schedule", "name", "itself", "circle", "join", "two-good",
    ],
)  # fmt: skip
def test_a_join_is_not_accused_of_a_fault_further_up(
    crontab: Path, text: str, places: list[str]
) -> None:
    """P7: one mistake is one fault, at the job that has it; what follows would be right."""
    assert [fault.split(": ")[1] for fault in faults(crontab, text)] == [
        f"jobs.{place}" for place in places
    ]


@pytest.mark.parametrize(
    ("when", "first", "second", "keys"),
    [
        ('schedule = "@daily"', 'timezone = "Asia/Tokyo"', 'timezone = "UTC"', "timezone"),
        ('schedule = "@daily"', 'timezone = "Asia/Tokyo"', "", "timezone"),
        ('schedule = "@daily"', 'dst_gap = "skip"', 'dst_gap = "run"', "dst_gap"),
        ('schedule = "@daily"', 'dst_fold = "both"', 'dst_fold = "first"', "dst_fold"),
        (
            'schedule = "@daily"',
            'timezone = "Asia/Tokyo"\ndst_fold = "both"\nmissed = "all"',
            'timezone = "UTC"\ndst_fold = "first"',
            "timezone, dst_fold and missed",
        ),
        (
            'every = "6h"\nalign = "day"',
            'timezone = "Asia/Tokyo"\ndst_gap = "skip"',
            'timezone = "UTC"\ndst_gap = "run"',
            "timezone",  # the other has no say in when this is due
        ),
    ],
)
def test_the_keys_by_which_equal_schedules_differ_are_named(
    crontab: Path, when: str, first: str, second: str, keys: str
) -> None:
    """Nobody who wrote one schedule twice is told to do that."""
    text = "".join(
        f'[jobs.{name}]\n{when}\n{more}\ncommand = "true"\n'
        for name, more in (("x", first), ("y", second))
    )
    (fault,) = faults(crontab, text + job("b", '["x", "y"]'))
    assert fault.endswith(f"whose cycles differ (give both the same {keys})")


def test_heads_that_make_up_otherwise_cannot_be_joined(crontab: Path) -> None:
    """P1: what one head makes up and the other does not would be a cycle that never completes."""
    head = '[jobs.{0}]\nschedule = "@daily"\nmissed = "{1}"\ncommand = "true"\n'
    text = head.format("x", "once") + head.format("y", "skip") + job("b", '["x", "y"]')
    (fault,) = faults(crontab, text)
    assert fault.endswith("whose cycles differ (give both the same missed)")


@pytest.mark.parametrize("when", ['every = "1h"', "startup = true"])
def test_the_way_out_of_equal_words_does_not_name_them(crontab: Path, when: str) -> None:
    """Nobody who wrote the same twice is told to do that: it is said what can be equal at all."""
    head = f'[jobs.{{0}}]\n{when}\nmissed = "{{1}}"\ncommand = "true"\n'
    text = head.format("x", "once") + head.format("y", "skip") + job("b", '["x", "y"]')
    (fault,) = faults(crontab, text)
    assert fault.endswith(f"whose cycles differ ({WAY_OUT})")


def test_many_circles_are_told_in_parts(crontab: Path) -> None:
    """P7: a file full of them is refused at once; more are told when these are mended."""
    pairs = [job(f"a{n}", f'["b{n}"]') + job(f"b{n}", f'["a{n}"]') for n in range(500)]
    found = faults(crontab, "".join(pairs))
    assert 1 <= len(found) <= 20
