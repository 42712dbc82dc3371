"""What is no crontab is refused by ``pycron check`` and ``pycron run`` alike."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from crond_py.crontab.apart import load_apart
from crond_py.errors import CrontabError
from crond_py.runner.errands import ERRANDS
from tests.support.daemon import Daemon
from tests.support.inplace import OWN_PROGRAM

GOOD = '[jobs.a]\nschedule = "* * * * *"\ncommand = "true"\n'
PLACE = re.compile(r"^(?P<file>/[^:]+):((?P<line>\d+):)? (?P<rest>\S.*)$")


class Bad(NamedTuple):
    """A crontab, and for each of its faults, in order, the line (0: none) and words about it."""

    name: str
    text: str | bytes
    faults: tuple[tuple[int, str], ...]


def _line_4(name: str, line: str, *words: str) -> Bad:
    """Return a good job with one more line, in which the only fault is."""
    return Bad(name, f"{GOOD}{line}\n", ((4, words[0] if words else "jobs.a."),))


def _schedule(name: str, expression: str, words: str) -> Bad:
    return Bad(name, f'[jobs.a]\nschedule = "{expression}"\ncommand = "true"\n', ((2, words),))


CASES = [
    # misspelt and misplaced
    _line_4("misspelt key", 'overlpa = "skip"', '"overlap"'),
    _line_4("word with a blank", 'overlap = "Skip "', '"skip"'),
    _line_4("no word", "overlap = true", "jobs.a.overlap"),
    _line_4("word of another key", 'missed = "first"', "jobs.a.missed"),
    _line_4("misspelt zone", 'timezone = "Europe/Berln"', "did you mean Europe/Berlin?"),
    _line_4("zone that is a path", 'timezone = "../../etc/passwd"', "jobs.a.timezone"),
    _line_4("unknown pool", 'pool = "bach"', "jobs.a.pool"),
    Bad("misspelt table", GOOD + "[job.b]\nx = 1\n", ((4, '"jobs"'),)),
    Bad("misspelt key at the top", f'timezon = "UTC"\n{GOOD}', ((1, '"timezone"'),)),
    Bad("schedule in defaults", f'[defaults]\nevery = "1s"\n{GOOD}', ((2, "defaults.every"),)),
    # numbers and spans
    _line_4("negative span", "timeout = -1", "jobs.a.timeout"),
    _line_4("span without unit", 'timeout = "5"', '"5s"'),
    _line_4("span that is no text", "kill_after = 5", '"5s"'),
    _line_4("fraction of an attempt", "retry = { attempts = 1.5 }", "jobs.a.retry.attempts"),
    _line_4("attempts as text", 'retry = { attempts = "2" }', "jobs.a.retry.attempts"),
    _line_4("no attempts", "retry = { attempts = 0 }", "jobs.a.retry.attempts"),
    _line_4("endless backoff", "retry = { attempts = 2, backoff = inf }", "jobs.a.retry.backoff"),
    _line_4("no queue", "queue_limit = 0", "jobs.a.queue_limit"),
    _line_4("exit status", "success_codes = [256]", "jobs.a.success_codes"),
    _line_4("umask", 'umask = "9"', "jobs.a.umask"),
    _line_4("environment", "env = { N = 1 }", "jobs.a.env.N"),
    _line_4("name of a variable", 'env = { "A=B" = "1" }', "jobs.a.env"),
    _line_4("pycron's own variable", 'env = { PYCRON_RUN_ID = "1" }', "PYCRON_"),
    Bad("pool without workers", f"{GOOD}[pools.p]\nworkers = 0\n", ((5, "pools.p.workers"),)),
    # when
    Bad("no moment", '[jobs.a]\nevery = "0s"\ncommand = "true"\n', ((2, "jobs.a.every"),)),
    Bad("eternity", '[jobs.a]\nevery = "1e400s"\ncommand = "true"\n', ((2, "jobs.a.every"),)),
    _line_4("two triggers", 'every = "1s"', "every"),
    Bad("no trigger", '[jobs.a]\ncommand = "true"\n', ((1, "jobs.a"),)),
    Bad("not true", '[jobs.a]\nstartup = false\ncommand = "true"\n', ((2, "jobs.a.startup"),)),
    Bad("date as text", '[jobs.a]\nat = "tomorrow"\ncommand = "true"\n', ((2, "jobs.a.at"),)),
    _schedule("never", "0 0 30 2 *", "never"),
    _schedule("never, in another way", "0 0 */31 * MON#2", "never"),
    _schedule("minute", "61 * * * *", "minute"),
    _schedule("reversed range", "30-10 * * * *", "minute"),
    _schedule("four fields", "* * * *", "fields"),
    _schedule("seven fields", "* * * * * * *", "fields"),
    _schedule("junk", "*5 * * * *", "minute"),
    _schedule("look-alike digits", "٣ * * * *", "minute"),
    _schedule("unknown name", "@dayly", "@daily"),
    # the command and the name
    Bad("no command", '[jobs.a]\nevery = "1s"\n', ((1, "jobs.a"),)),
    Bad("empty command", '[jobs.a]\nevery = "1s"\ncommand = ""\n', ((3, "jobs.a.command"),)),
    Bad("empty program", '[jobs.a]\nevery = "1s"\ncommand = []\n', ((3, "jobs.a.command"),)),
    Bad("name with a newline", GOOD.replace("[jobs.a]", '[jobs."a\\nb"]'), ((1, "jobs."),)),
    Bad("name with an escape", GOOD.replace("[jobs.a]", '[jobs."\\u001b[1m"]'), ((1, "jobs."),)),
    Bad("no name", GOOD.replace("[jobs.a]", '[jobs.""]'), ((1, "jobs."),)),
    Bad("two of a name", f"{GOOD}{GOOD}", ((4, "jobs.a"),)),
    # the file
    Bad("empty", "", ((0, "job"),)),
    Bad("only remarks", "# nothing\n", ((0, "job"),)),
    Bad("not TOML", f"{GOOD}this is no TOML\n", ((4, ""),)),
    Bad("unclosed text", '[jobs.a]\ncommand = "true\n', ((2, ""),)),
    Bad("classic crontab", "30 2 * * * backup --all\n", ((1, ""),)),
    Bad("not UTF-8", GOOD.encode() + b'description = "caf\xe9"\n', ((4, "UTF-8"),)),
    Bad("a zero byte", GOOD.encode() + b"\0\n", ((4, ""),)),
    Bad("UTF-16", GOOD.encode("utf-16"), ((1, ""),)),
    Bad("jobs is no table", "jobs = 1\n", ((1, "jobs"),)),
    Bad("job is no table", "[jobs]\na = 1\n", ((2, "jobs.a"),)),
    Bad("too large", b"#" * (60 << 20), ((0, "large"),)),
    Bad(
        "all faults at once",
        f'{GOOD}overlap = "no"\ntimeout = 5\n[jobs.b]\nevery = "1s"\ncomand = "x"\n',
        ((4, "overlap"), (5, "timeout"), (8, '"command"')),
    ),
]


STARTED = {
    "misspelt key", "name with an escape", "empty", "classic crontab", "not UTF-8", "a zero byte",
    "too large", "all faults at once",
}  # fmt: skip
"""For which the program itself is started: one of each kind of file and of refusal."""


@pytest.mark.parametrize("bad", CASES, ids=[case.name for case in CASES])
def test_faults_are_told(daemon: Daemon, bad: Bad) -> None:
    """Each fault is one line with file, line and what is wrong (P7).

    Where the program is started, it is seen that no daemon has begun.
    """
    content = bad.text.encode() if isinstance(bad.text, str) else bad.text
    daemon.crontab.write_bytes(content)
    is_started = bad.name in STARTED or daemon.command != OWN_PROGRAM
    checked = (daemon.cli if is_started else daemon.tell)("check", check=78)
    assert checked.stdout == ""
    lines = checked.stderr.splitlines()
    assert len(lines) == len(bad.faults), lines
    for line, (number, words) in zip(lines, bad.faults, strict=True):
        _assert_place(line, daemon.crontab, number)
        assert words in line
        assert line.isprintable()
    refused = _told_by_run(daemon) if is_started else _told_to_the_service(daemon)
    assert refused == lines
    if is_started:
        assert not daemon.ledger.exists()


def _told_by_run(daemon: Daemon) -> list[str]:
    started = daemon.cli("run", check=78)
    return [line.removeprefix("pycron: ") for line in started.stderr.splitlines()]


def _told_to_the_service(daemon: Daemon) -> list[str]:
    """Return what ``pycron run`` prints of the refusal that it gets, read as it reads a crontab."""
    with pytest.raises(CrontabError) as refused:
        load_apart(daemon.crontab, ERRANDS.start)
    assert refused.value.exit_code == 78
    return str(refused.value).splitlines()


def _assert_place(line: str, crontab: Path, number: int) -> None:
    place = PLACE.match(line)
    assert place, line
    assert place["file"] == str(crontab)
    assert int(place["line"] or 0) == number, line


def _missing(_crontab: Path) -> None:
    pass


def _directory(crontab: Path) -> None:
    crontab.mkdir()


def _link_to_itself(crontab: Path) -> None:
    crontab.symlink_to(crontab)


def _fifo(crontab: Path) -> None:
    os.mkfifo(crontab)


def _unreadable(crontab: Path) -> None:
    crontab.write_text(GOOD, encoding="utf-8")
    crontab.chmod(0)
    if os.access(crontab, os.R_OK):
        pytest.skip("root may read everything")


NO_FILES = [_missing, _directory, _link_to_itself, _fifo, _unreadable]


@pytest.mark.parametrize("make", NO_FILES, ids=[make.__name__ for make in NO_FILES])
def test_no_file(daemon: Daemon, make: Callable[[Path], None]) -> None:
    """Where there is no file to read, one line says which and why (P7)."""
    make(daemon.crontab)
    for command in ("check", "run"):
        (line,) = daemon.cli(command, check=78).stderr.splitlines()
        _assert_place(line.removeprefix("pycron: "), daemon.crontab, 0)


def test_fault_in_a_drop_in(daemon: Daemon) -> None:
    """A fault in a drop-in is told with the name of that file, and spoils the whole (P7)."""
    daemon.crontab.write_text(GOOD, encoding="utf-8")
    directory = daemon.crontab.with_suffix(".d")
    directory.mkdir()
    drop_in = directory / "b.toml"
    drop_in.write_text('[jobs.b]\nevery = "1"\ncommand = "x"\n', encoding="utf-8")
    for command in ("check", "run"):
        (line,) = daemon.cli(command, check=78).stderr.splitlines()
        _assert_place(line.removeprefix("pycron: "), drop_in, 2)
