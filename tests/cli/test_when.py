"""Where the time of ``pycron at``, ``in`` and ``every`` ends, and what is said of what is none."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.cli.program import in_place
from tests.unit.control.fakes import FakeEngine


def refused(engine: FakeEngine, env: dict[str, str], *arguments: str) -> str:
    """Return why a command line is refused; nothing may have been stored."""
    done = in_place(*arguments, env=env, check=2)
    assert (done.stdout, engine.tasks) == ("", [])
    return done.stderr.removeprefix("pycron: ").strip()


@pytest.mark.parametrize(
    ("line", "word", "way_out"),
    [
        ("at now + 1 hour", "+", "for a time from now: pycron in 1h"),
        ("at now + 10 minutes echo x", "+", "for a time from now: pycron in 10m"),
        ("at now +2days echo x", "+2days", "for a time from now: pycron in 2d"),
        ("at 2126-12-24 6pm echo x", "6pm", 'write "18:00"'),
        ("at 2126-12-24 12am echo x", "12am", 'write "00:00"'),
        ("at 6:30 p.m. echo x", "p.m.", 'write "18:30"'),
        ("at 2126-12-24 noon echo x", "noon", 'write "12:00"'),
        ("at 18:00 Europe/Berlin echo x", "Europe/Berlin", "for the zone: --tz Europe/Berlin"),
        ("at 18:00 UTC echo x", "UTC", "for the zone: --tz UTC"),
        *(
            (f"at {time} {zone} echo x", zone, f"for the zone: {way_out}")
            for time in ("18:00", "tomorrow 18:00")
            for zone, way_out in (
                ("utc", "--tz UTC"),
                ("Z", "--tz UTC"),
                ("z", "--tz UTC"),
                ("GMT", "--tz UTC"),
                ("PST", "--tz with the name of a place"),
                ("pst", "--tz with the name of a place"),
                ("CEST", "--tz with the name of a place"),
                ("WEST", "--tz with the name of a place"),
                ("UTC+1", "behind the date and time"),
                ("gmt-05:30", "behind the date and time"),
                ("europe/berlin", "--tz Europe/Berlin"),
                ("america/new_york", "--tz America/New_York"),
                ("japan", "--tz Japan"),
            )
        ),
        ("at 18:00 sharp echo x", "sharp", 'leave "sharp" out'),
        ("at 18:00 Uhr echo x", "Uhr", 'leave "Uhr" out'),
        ("at 18:00 o\u2019clock echo x", "o\u2019clock", 'leave "o\u2019clock" out'),
        ("in 10m later echo x", "later", 'leave "later" out'),
        ("in 10m utc echo x", "utc", "for a time of the clock: pycron at 18:00"),
        ("every 5m forever echo x", "forever", 'leave "forever" out'),
        ("at 18:00 +01:00 echo x", "+01:00", "an offset stands behind the date and time"),
        ("at 18:00 on monday echo x", "on", 'leave "on" out'),
        ("at 2126-12-24 at 18:00 echo x", "at", 'leave "at" out'),
        ("at 18:00 19:00 echo x", "19:00", ""),
        ("at 18:00 24.12.2126 echo x", "24.12.2126", 'write "2126-12-24"'),
        ("at 18:00 next friday echo x", "next", 'for that day write the date as in "2026-12-24"'),
        ("at 18:00 24 dec echo x", "24", 'write the date as in "2026-12-24"'),
        ("at 18:00 24. December echo x", "24.", 'write the date as in "2026-12-24"'),
        ("at 18:00 dec 24 echo x", "dec", 'write the date as in "2026-12-24"'),
        ("in 1h 30 minutes echo x", "30", 'write "30m"'),
        ("in 1h 30 echo x", "30", "say its unit, as in 30s or 30m"),
        ("in 30m 1h echo x", "1h", "the larger unit stands first, and each once"),
        ("in 1h and 30m echo x", "and", 'leave "and" out'),
        ("in 1h and a half echo x", "and", 'write the length of time as in "1h 30m"'),
        ("in 1h 30 minutes 10 seconds echo x", "30", 'write "30m 10s"'),
        ("in 1h from now echo x", "from", 'leave "from now" out'),
        ("in 1h at 18:00 echo x", "at", "for a time of the clock: pycron at 18:00"),
        ("every 1h from 18:00 echo x", "from", "it counts from now, and -s offset=..."),
        ("every 1h on weekdays echo x", "on", "goes by the clock is a job in the crontab"),
    ],
)
def test_a_part_of_the_time_is_not_taken_for_the_program(
    line: str, word: str, way_out: str, env: dict[str, str], engine: FakeEngine
) -> None:
    """What is not understood is named, with what to write; if it is the command, -- says so.

    Behind a -- nobody asks: there it is the command, and before one it is a part of the time.
    """
    arguments = line.split()
    said = refused(engine, env, *arguments)
    assert said.startswith(f"'{word}' is not understood as part of a time")
    assert way_out in said
    assert f'{arguments[0]} takes "' in said
    number = arguments.index(word, 1)
    assert f"put -- before it: pycron {' '.join(arguments[:number])} -- {word} ..." in said

    ended = refused(engine, env, *arguments[: number + 1], "--", "echo", "x")
    assert ended.startswith(f"'{word}' is not understood as part of a time")
    assert "put --" not in ended

    in_place(*arguments[:number], "--", word, "x", env=env)
    (task,) = engine.tasks
    assert json.loads(task.definition)["command"] == [word, "x"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("at 24.12.2126 18:00", "'24.12.2126' is no time of the clock: write \"2126-12-24\""),
        ("at 12/24/2126 18:00", "'12/24/2126' is no time of the clock: write the date as in \"20"),
        ("at 21261224 18:00", "'21261224' is no time of the clock: write \"2126-12-24\""),
        ("at monday 10:00", "'monday' is no time of the clock: for that day write the date as in"),
        ("at 24 Dec 18:00", "'24' is no time of the clock: write the date as in \"2026-12-24\""),
        ("at Dec 24 18:00", "'Dec' is no time of the clock: write the date as in \"2026-12-24\""),
        ("at now+1hour", "'now+1hour' is no time of the clock: for a time from now: pycron in 1h"),
        (
            "at now+10 minutes",
            "'now+10' is no time of the clock: for a time from now: pycron in 10m",
        ),
        ("at 2126-13-24 18:00", "'2126-13-24' is no time of the clock: write the date as in \"20"),
        ("at 6 pm", "'6' is no time of the clock: write \"18:00\""),
        ("at 6pm", "'6pm' is no time of the clock: write \"18:00\""),
        ("at 1830", "'1830' is no time of the clock: write \"18:30\""),
        ("at 18.30", "'18.30' is no time of the clock: write \"18:30\""),
        ("at midnight", "'midnight' is no time of the clock: write \"00:00\""),
        ("at in 10 minutes", "'in' is no time of the clock: for a time from now: pycron in 10m"),
        ("at 10 minutes", "'10' is no time of the clock: for a time from now: pycron in 10m"),
        ("in 10 minutes", "'10' is no length of time: write \"10m\""),
        ("in 1 hour 30 minutes", "'1' is no length of time: write \"1h 30m\""),
        ("in 1 h 30 m", "'1' is no length of time: write \"1h 30m\""),
        ("in 1hour 30min", "'1hour' is no length of time: write \"1h 30m\""),
        ("in 1 hour and 30 minutes", "'1' is no length of time: write \"1h 30m\""),
        ("in an hour 30m", "'an' is no length of time: write \"1h 30m\""),
        ("in 30 minutes 1 hour", "'30' is no length of time: write the length of time as in"),
        ("in an hour and a half", "'an' is no length of time: write the length of time as in"),
        ("every hour and a half", "'hour' is no length of time: write the length of time as in"),
        ("in 1 hour 30", "'1' is no length of time: write the length of time as in"),
        ("at 1 hour 30 minutes", "'1' is no time of the clock: for a time from now: pycron in 1h "),
        ("in 10M", "'10M' is no length of time: write \"10m\""),
        ("in 10H", "'10H' is no length of time: write \"10h\""),
        ("every 1H30M", "'1H30M' is no length of time: write \"1h30m\""),
        ("at 6pm tomorrow", "'6pm' is no time of the clock: write \"18:00 tomorrow\""),
        ("at 6 pm tomorrow", "'6' is no time of the clock: write \"18:00 tomorrow\""),
        ("at noon 2126-12-24", "'noon' is no time of the clock: write \"12:00 2126-12-24\""),
        ("at 1830 tomorrow", "'1830' is no time of the clock: write \"18:30 tomorrow\""),
        (
            "at 6pm friday",
            "'6pm' is no time of the clock: write \"18:00\"; for that day write the date as in",
        ),
        (
            "at 18h",
            "'18h' is no time of the clock: write \"18:00\"; for a time from now: pycron in 18h",
        ),
        ("at 18h tomorrow", "'18h' is no time of the clock: write \"18:00 tomorrow\"; for a time"),
        ("in 10min", "'10min' is no length of time: write \"10m\""),
        ("in an hour", "'an' is no length of time: write \"1h\""),
        ("in 18:00", "'18:00' is no length of time: for a time of the clock: pycron at 18:00"),
        ("every hour", "'hour' is no length of time: write \"1h\""),
        ("every daily", "'daily' is no length of time: write \"1d\""),
        ("every 2 weeks", "'2' is no length of time: write \"2w\""),
        ("every monday", "'monday' is no length of time: it counts from now, and -s offset="),
    ],
)
def test_the_first_word_that_is_not_understood_is_named(
    line: str, said: str, env: dict[str, str], engine: FakeEngine
) -> None:
    """It is the first, also where it is not the only one, and in one argument with the rest."""
    name, *words = line.split()
    for when in (words, [" ".join(words)]):
        for command in (["--", "echo", "x"], ["echo", "x"]):
            assert refused(engine, env, name, *when, *command).startswith(said)


def test_in_one_argument_what_is_not_understood_is_no_command(
    env: dict[str, str], engine: FakeEngine
) -> None:
    """Nobody has written a command there."""
    said = refused(engine, env, "at", "now + 1 hour", "echo", "x")
    assert said.startswith(
        "'+' is not understood as part of a time: for a time from now: pycron in"
    )
    assert "put --" not in said


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["at", "10:00", "tomorrow ls"], "tomorrow"),
        (["at", "tomorrow", "10:00 ls", "-l"], "10:00"),
        (["in", "1h", "30m ls"], "30m"),
        (["every", "1h", "30m ls"], "30m"),
    ],
)
def test_a_time_that_goes_on_within_an_argument_is_no_command(
    arguments: list[str], word: str, env: dict[str, str], engine: FakeEngine
) -> None:
    """The words of the time are not to be taken for the first of a line for the shell."""
    said = refused(engine, env, *arguments)
    assert said.startswith(f"{word!r} is part of a time, and not alone in {arguments[2]!r}")
    assert "--" not in said


@pytest.mark.parametrize("words", ["utc ls", "sharp ls", "+ 1 hour", "next friday ls", "Z ls"])
def test_the_first_word_within_an_argument_is_looked_at(
    words: str, env: dict[str, str], engine: FakeEngine
) -> None:
    """It is refused as it is alone."""
    said = refused(engine, env, "at", "10:00", words)
    assert said.startswith(f"{words.partition(' ')[0]!r} is not understood as part of a time")


def test_a_day_alone_is_not_recommended(env: dict[str, str], engine: FakeEngine) -> None:
    """What the message says to write is no further fault."""
    said = refused(engine, env, "at", "tomorrow", "noon", "echo", "x")
    assert said.startswith("'noon' is not understood as part of a time: write \"12:00\" (")
    assert "put --" not in said


@pytest.mark.parametrize(
    "words", [["w"], ["7z", "x"], ["2to3"], ["./at"], ["/usr/bin/at", "now"], ["echo", "30"]]
)
def test_what_is_no_part_of_a_time_is_the_command(
    words: list[str], env: dict[str, str], engine: FakeEngine
) -> None:
    """So nobody needs a -- who does not write what is like a time."""
    in_place("in", "1h", *words, env=env)
    command = json.loads(engine.tasks[0].definition)["command"]
    assert command == (words[0] if len(words) == 1 else words)


@pytest.mark.parametrize("time", ["at 18:00", "at tomorrow 18:00", "in 1h", "every 1h"])
@pytest.mark.parametrize(
    "command",
    [
        "./report.sh march",
        "report.sh march",
        "cal dec",
        "make may",
        "echo May",
        "./invoice jan",
        "7z a x",
        "2to3 x",
        "a m",
        "echo 24 dec",
        "date tomorrow",
        "run next friday",
        "echo and 30m",
        "cat utc",
        "west build",
        "factory x",
        "cat x",
        "./utc x",
        "bin/utc x",
        "phoenix x",
        "sleep 30m",
        "cat 10:00",
        "echo from now",
        "-- 10:00 x",
        "-- 10m x",
        "-- may x",
        "-- 24 dec",
        "-- UTC x",
    ],
)
def test_what_a_program_is_given_is_no_part_of_the_time(
    time: str, command: str, env: dict[str, str], engine: FakeEngine
) -> None:
    """A month is one only where it stands first, or behind the number of a day."""
    in_place(*time.split(), *command.split(), env=env)
    assert json.loads(engine.tasks[0].definition)["command"] == [
        word for word in command.split() if word != "--"
    ]


@pytest.mark.parametrize(
    "line", ["echo 30m", "cal dec", "date -u | grep tomorrow", "  ls  -l", "west build; ls"]
)
def test_a_line_for_the_shell_is_one_argument(
    line: str, env: dict[str, str], engine: FakeEngine
) -> None:
    """Only how it begins could be part of the time, and it is run as it was written."""
    for time in (["at", "18:00"], ["in", "1h"]):
        engine.tasks.clear()
        in_place(*time, line, env=env)
        assert json.loads(engine.tasks[0].definition)["command"] == line


@pytest.mark.parametrize("nothing", ["", " "])
def test_nothing_is_no_part_of_a_time(
    nothing: str, env: dict[str, str], engine: FakeEngine
) -> None:
    """It is a command that says nothing, which is for the daemon to refuse."""
    done = in_place("at", "18:00", nothing, env=env, check=None)
    assert (done.returncode, engine.tasks) == (2, [])
    assert "command" in done.stderr


def test_the_words_of_a_time_may_be_one_argument(env: dict[str, str], engine: FakeEngine) -> None:
    """In whichever order; what is to be run is then not taken apart."""
    in_place("at", "18:00 2126-12-24", "echo", "a b", env=env)
    in_place("in", "1h 30m", "--", "echo x", env=env)
    in_place("in", "1h", "30m", "echo", env=env)
    commands = [json.loads(task.definition)["command"] for task in engine.tasks]
    assert commands == [["echo", "a b"], "echo x", "echo"]
    assert engine.tasks[0].due == datetime(2126, 12, 24, 18, tzinfo=UTC)


@pytest.mark.parametrize("line", ["in 1h 30m", "at 18:00 tomorrow", "at tomorrow 18:00"])
def test_a_time_alone_is_no_command(line: str, env: dict[str, str], engine: FakeEngine) -> None:
    """The last word of it is not run."""
    assert refused(engine, env, *line.split()).startswith("what is to be run is not said: pycron ")


def test_behind_the_dashes_nothing_belongs_to_the_time(
    env: dict[str, str], engine: FakeEngine
) -> None:
    """Whatever it looks like."""
    in_place("in", "1h", "--", "30m", "x", env=env)
    assert json.loads(engine.tasks[0].definition)["command"] == ["30m", "x"]
