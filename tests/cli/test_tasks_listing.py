"""``pycron tasks``, and the other commands that take a task: read from the ledger, no daemon."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crond_py.clock import EPOCH
from crond_py.engine.attendance import TASKS
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import Attempt, Cause, Cursor, Lane, Outcome, Scale, State
from crond_py.places import ledger_file
from crond_py.ports import Claim, NewTask, SetCursor, SetTask
from crond_py.runner.output import output_path
from tests.cli.program import environment, on_terminal, pycron, without_colour

T = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FAR = datetime(2126, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
WALL = Lane("default", 0, "alice", Scale.WALL)
STEADY = Lane("batch", 5, "nightly", Scale.STEADY)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose ledger has a task of each kind.

    1 has succeeded, 2 runs, 3 is due in a hundred years, 4 comes again and again and was due long
    ago, 5 was cancelled. The clock was set forward by an hour in all.
    """
    env = environment(tmp_path)
    state_dir = Path(env["PYCRON_STATE_DIR"])
    state_dir.mkdir(mode=0o700)
    with closing(SqliteLedger.open(ledger_file(state_dir), now=T)) as ledger:
        ledger.submit(
            [
                NewTask(WALL, T, '{"command":"echo \\u001b[31mred"}', "alice", key="first"),
                NewTask(WALL, T, '{"command":["sleep","9 9"]}', "bob"),
                NewTask(WALL, FAR, '{"command":"true","cwd":"/srv","retry":{"attempts":3}}', "bob"),
                NewTask(STEADY, T, '{"command":"poll"}', "alice", HOUR),
                NewTask(WALL, FAR, '{"command":"true"}', "alice"),
            ],
            T,
        )
        begun = Attempt(1, T, pid=7, started_at=T, output="x")
        done = Attempt(1, T, 7, started_at=T, finished_at=T, outcome=Outcome.SUCCEEDED)
        ledger.write(
            [
                SetCursor(Cursor(TASKS, "tasks", 0, T, T, anchor=EPOCH + HOUR)),
                Claim(
                    "task:1", 0, T, Cause.SCHEDULE, State.DONE, T,
                    outcome=Outcome.SUCCEEDED, attempt=done,
                ),
                SetTask(1, T, ended_at=T),
                Claim("task:2", 0, T, Cause.SCHEDULE, State.RUNNING, T, attempt=begun),
                SetTask(2, T, ended_at=T),
                Claim(
                    "task:5", 0, FAR, Cause.SCHEDULE, State.DONE, T,
                    outcome=Outcome.CANCELLED, reason="cancelled on request",
                ),
                SetTask(5, FAR, ended_at=T),
            ],
            durable=True,
        )  # fmt: skip
    return env


def cells(text: str) -> list[list[str]]:
    """Return the first word, the state and the command of each row of a table."""
    rows = [without_colour(line).split() for line in text.splitlines()[1:]]
    states = {"running", "waiting", "pending", "succeeded", "cancelled"}
    return [[row[0], *(word for word in row if word in states)] for row in rows]


def test_open_tasks_are_listed_those_that_run_first(env: dict[str, str]) -> None:
    """Then the first due; each with what it is doing, in a pipe with every column."""
    done = pycron("tasks", env=env)
    assert cells(done.stdout) == [
        ["task:2", "running"],
        ["task:4", "waiting"],
        ["task:3", "pending"],
    ]
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["TASK", "DUE", "IN", "EVERY", "STATE", "BY", "KEY", "COMMAND"]
    assert "sleep '9 9'" in lines[1]
    assert "2026-03-01 13:00:00+00:00" in lines[2]  # as the clock is set now
    assert done.stderr.startswith("pycron: no daemon is running: what has no outcome is shown as ")
    assert done.stderr.count("\n") == 1


UNSTARTED = "nothing that is to come starts until one is"


def test_that_nobody_starts_what_is_to_come_is_said(env: dict[str, str]) -> None:
    """Once, of the list and of one task, also where nothing runs; of what has ended it is not."""
    alone = f"pycron: no daemon is running: {UNSTARTED}\n"
    assert pycron("tasks", "3", env=env).stderr == alone
    assert pycron("tasks", "--json", "--by", "alice", env=env).stderr == alone
    both = pycron("tasks", env=env).stderr
    assert both.endswith(f"became of it; {UNSTARTED}\n")
    assert pycron("tasks", "1", env=env).stderr == ""
    assert UNSTARTED not in pycron("tasks", "2", env=env).stderr


def test_all_are_listed_newest_first(env: dict[str, str]) -> None:
    """With how the last run of those went that have ended; and nothing drives a terminal (P9)."""
    done = pycron("tasks", "--all", env=env)
    assert [row[1] for row in cells(done.stdout)] == [
        "cancelled", "waiting", "pending", "running", "succeeded",
    ]  # fmt: skip
    assert "\x1b" not in done.stdout
    assert "\\x1b[31mred" in done.stdout
    shown = pycron("tasks", "--all", "--by", "bob", env=env).stdout
    assert [row[0] for row in cells(shown)] == ["task:3", "task:2"]


def test_a_part_says_how_many_more_there_are(env: dict[str, str]) -> None:
    """And -n 0 is all."""
    done = pycron("tasks", "-n", "2", env=env)
    assert [row[0] for row in cells(done.stdout)] == ["task:2", "task:4"]
    assert done.stderr.splitlines()[-1] == "pycron: 1 more is to come or running; -n 0 shows all"
    assert len(cells(pycron("tasks", "-n", "0", env=env).stdout)) == 3


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_terminal_gets_what_fits(env: dict[str, str], columns: int) -> None:
    """Never more than its width; task, due and state always; colours only there."""
    shown = on_terminal("tasks", env=env, columns=columns)
    plain = without_colour(shown)
    assert max(len(line) for line in plain.splitlines() if line[:8] != "pycron: ") <= columns
    for word in ("task:2", "task:3", "running", "sleep '9 9'", "2126"):
        assert word in plain
    assert "\x1b[36mrunning" in shown
    assert "\x1b[36m" not in on_terminal("tasks", env={**env, "NO_COLOR": "1"}, columns=columns)


def test_one_is_shown_in_full(env: dict[str, str]) -> None:
    """What was said of it as it was said, and its runs; by its number or its name."""
    lines = pycron("tasks", "3", env=env).stdout.splitlines()
    assert lines[0] == "task:3: pending"
    assert [line.split()[0] for line in lines[1:]] == [
        "due", "submitted", "command", "pool", "cwd", "retry",
    ]  # fmt: skip
    assert lines[2] == "  submitted  2026-03-01 12:00:00+00:00 by bob"
    assert lines[4] == "  pool       default, priority 0, group alice"
    assert lines[6] == '  retry      {"attempts": 3}'
    lines = pycron("tasks", "task:1", env=env).stdout.splitlines()
    assert lines[0] == "task:1: succeeded"
    assert lines[1].startswith("  was due    2026-03-01 12:00:00+00:00 (")
    assert "  key        first" in lines
    assert lines[-1].split()[1] == "task:1"


def test_what_was_cancelled_before_its_time_has_no_distance(env: dict[str, str]) -> None:
    """Its instant does not come, so it is not told how far that is."""
    lines = pycron("tasks", "5", env=env).stdout.splitlines()
    assert lines[:2] == ["task:5: cancelled", "  was due    2126-03-01 12:00:00+00:00"]
    row = pycron("tasks", "--all", "-n", "1", env=env).stdout.splitlines()[1].split()
    assert row[:4] == ["task:5", "2126-03-01", "12:00:00+00:00", "cancelled"]


def test_one_is_wrapped_beside_its_names(env: dict[str, str]) -> None:
    """The longest name decides where texts begin; a pipe has each on one line."""
    command = "echo " + "word " * 30 + "end"
    with closing(SqliteLedger.open(ledger_file(Path(env["PYCRON_STATE_DIR"])), now=T)) as ledger:
        definition = json.dumps({"command": command, "description": "a description of it"})
        ledger.submit([NewTask(WALL, FAR, definition, "bob")], T)
    whole = pycron("tasks", "6", env=env).stdout.splitlines()
    assert f"  command     {command}" in whole
    assert "  description a description of it" in whole
    shown = without_colour(on_terminal("tasks", "6", env=env, columns=60)).splitlines()
    shown = shown[shown.index("task:6: pending") :]
    assert max(map(len, shown)) <= 60
    begin = next(index for index, line in enumerate(shown) if line.startswith("  command "))
    below = shown[begin + 1 : begin + 3]
    assert all(line.startswith(f"{' ' * 14}word ") for line in below)


def test_json_has_all_of_it(env: dict[str, str]) -> None:
    """Instants in UTC as the clock is set now, spans in seconds, the settings as they were said."""
    records = json.loads(pycron("tasks", "--json", env=env).stdout)
    assert [record["task"] for record in records] == [2, 4, 3]
    often = records[1]
    assert often == {
        "task": 4,
        "job": "task:4",
        "state": "waiting",
        "due": "2026-03-01T13:00:00Z",
        "every_seconds": 3600.0,
        "submitted_by": "alice",
        "submitted_at": "2026-03-01T12:00:00Z",
        "key": None,
        "ended_at": None,
        "pool": "batch",
        "priority": 5,
        "group": "nightly",
        "settings": {"command": "poll"},
        "run": None,
    }
    one = json.loads(pycron("tasks", "1", "--json", env=env).stdout)
    assert (one["state"], one["key"]) == ("succeeded", "first")
    assert [run["outcome"] for run in one["runs"]] == ["succeeded"]


def test_the_other_commands_take_a_task(env: dict[str, str]) -> None:
    """``history`` and ``logs`` by its name, as they take a job."""
    path = output_path(Path(env["PYCRON_STATE_DIR"]), "task:2", 2, 1)
    path.parent.mkdir(parents=True)
    path.write_text("so far\n")
    assert pycron("logs", "task:2", env=env).stdout == "so far\n"
    rows = json.loads(pycron("history", "task:2", "--json", env=env).stdout)
    assert [row["job"] for row in rows] == ["task:2"]
    assert pycron("history", "task:3", env=env).stderr == "pycron: no runs\n"
    done = pycron("logs", "task:3", env=env, check=2)
    assert done.stderr == "pycron: task:3 has not run yet; pycron tasks 3 tells of it\n"
    for command in ("history", "logs", "tasks"):
        done = pycron(command, "task:99", env=env, check=2)
        way_out = "pycron tasks --all lists those there are"
        assert done.stderr == f"pycron: there is no task 99; {way_out}\n"


def test_what_is_no_task(env: dict[str, str], tmp_path: Path) -> None:
    """A word is told how a task is written; without a ledger there is none."""
    done = pycron("tasks", "backup", env=env, check=2)
    assert done.stderr == "pycron: 'backup' is the number of no task; write 17 or task:17\n"
    assert pycron("tasks", "-n", "-1", env=env, check=2).stdout == ""
    empty = environment(tmp_path / "other")
    assert "no daemon has run on it yet" in pycron("tasks", env=empty).stderr
    assert "there is no task 1" in pycron("tasks", "1", env=empty, check=2).stderr
