"""``pycron submit``: hand in tasks from a file, one a line, however many they are."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import IO, Annotated, Any, Final

import typer

from crond_py.cli import say
from crond_py.cli.in_json import in_json
from crond_py.cli.in_vain import words_for_a_shell
from crond_py.cli.one_task import submitted_record
from crond_py.cli.options import DaemonCrontab, Json, StateDir, places_of
from crond_py.control.batches import LONGEST_TASK, packed, placed_faults, size_of, submitted_for
from crond_py.control.client import call
from crond_py.control.protocol import Submit, SubmittedTask
from crond_py.control.waiting import Watch
from crond_py.dataclass import dataclass
from crond_py.errors import Fault, PycronError, TaskRefusedError, UsageError
from crond_py.model import task_job
from crond_py.places import Places

EXAMPLES = (
    "pycron submit tasks.jsonl --key nightly-2026-03-01",
    "make-tasks | pycron submit -",
    "pycron submit --check tasks.jsonl",
)

_LONGEST_LINE: Final = 4 * LONGEST_TASK  # text that is not ASCII may be shorter when it is read
_CHUNK: Final = 1 << 16
_SOON_S: Final = 0.2
"""For how long further lines are waited for before those that are there are handed in."""

_MOST_FAULTS: Final = 100
"""How many faults are told one by one."""

_MOST_STRETCHES: Final = 5
"""How many stretches of numbers are told."""

_BOM: Final = b"\xef\xbb\xbf"
_PARTS: Final = frozenset((b"[", b"{", b"]", b"}", b"[{", b"},", b"}]"))
"""What stands on a line of its own where a file is one JSON text for people."""

_EVERY_US: Final = 200_000


def command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file with the tasks; - is standard input.")
    ],
    *,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX", show_default=False,
            help="Give each task without a key the key PREFIX:LINE, so that the same file can be "
            "submitted again and no task is there twice.",
        ),
    ] = None,
    only_check: Annotated[
        bool, typer.Option("--check", help="Only say whether all is good; submit nothing.")
    ] = False,
    crontab: DaemonCrontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Submit tasks from a file, one on each line, as JSON.

    A line is an object of the keys of a job in the crontab, with exactly one of "at", "in" and
    "every": {"command": ["backup", "--all"], "in": "10m", "key": "b-1"}. Lines are stored some
    hundred at a time, or when no more come for a moment. If one is refused nothing more is stored;
    what was stored before stays, and the faults of the file are told, the first hundred of them one
    by one. With keys it can then be submitted again. Other than those of pycron at, the tasks run
    at home unless they have "cwd". With --json each stored task is printed as JSON on a line of its
    own. --check asks the daemon, too: by its crontab a task is good or not.
    """
    if key == "":
        raise UsageError(
            "--key is empty: say a name of your own, which each line's key begins with"
        )
    submission = _Submission(places_of(crontab, state_dir), file, as_json=as_json)
    submission.is_storing = not only_check
    with _opened(file) as lines:
        submission.take(_entries(lines, submission.name, key))
    submission.finish(only_check=only_check)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line that is not blank: the task on it, or what is wrong with it."""

    line: int
    values: dict[str, Any]
    size: int = 0
    fault: Fault | None = None


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        yield sys.stdin.buffer
        return
    try:
        with open(file, "rb") as lines:  # noqa: PTH123 - the name is shown as it was given
            yield lines
    except OSError as error:
        if error.filename != file:
            raise
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None


def _entries(file: IO[bytes], name: str, prefix: str | None) -> Iterator[_Entry | None]:
    """Yield what is on each line, and None where the next one is long in coming."""
    number = 0
    for read in _lines(file):
        if read is None:
            yield None
            continue
        number += 1
        line = read.removeprefix(_BOM) if number == 1 else read
        if len(line) > _LONGEST_LINE:
            message = f"has more than {_LONGEST_LINE} bytes"
            yield _Entry(number, {}, fault=Fault(name, number, "", message))
        elif line.strip():
            yield _entry(line, name, number, prefix)


def _lines(file: IO[bytes]) -> Iterator[bytes | None]:
    """Yield the lines of a file, or None when nothing more has come for a moment.

    Of one that is too long a little more comes than it may have, and the rest is left out.
    """
    descriptor, rest, is_cut = file.fileno(), b"", False
    while chunk := (yield from _read_on(descriptor)):
        first, *lines = chunk.split(b"\n")
        rest = rest if is_cut else rest + first
        if lines:
            yield rest
            yield from lines[:-1]
            rest = lines[-1]
        is_cut = len(rest) > _LONGEST_LINE
    if rest:
        yield rest


def _read_on(descriptor: int) -> Generator[bytes | None, None, bytes]:
    """Return what comes next, after a None where that takes its time; nothing at the end."""
    with suppress(ValueError):  # one beyond what select(2) can take is just read
        if not select.select([descriptor], [], [], _SOON_S)[0]:
            yield None
            select.select([descriptor], [], [])  # a pipe may be one whose reads do not wait
    return os.read(descriptor, _CHUNK)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises ValueError where a key is in it twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        message = f"{json.dumps(double)} is there twice"
        raise ValueError(message)
    return values


def _entry(line: bytes, name: str, number: int, prefix: str | None) -> _Entry:
    try:
        values = json.loads(line.decode("utf-8"), object_pairs_hook=_without_doubles)
    except UnicodeDecodeError as error:
        fault = Fault(name, number, "", f"byte {error.start + 1} of the line is not UTF-8")
        return _Entry(number, {}, fault=fault)
    except (ValueError, RecursionError) as error:
        place = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        message = f"is not JSON{place}: {why[:1].lower()}{why[1:]}"
        hint = "a task stands on one line" if line.strip() in _PARTS else ""
        return _Entry(number, {}, fault=Fault(name, number, "", message, hint))
    if not isinstance(values, dict):
        hint = 'a task is an object: {"command": "...", "in": "10m"}'
        return _Entry(number, {}, fault=Fault(name, number, "", "is no object", hint))
    if prefix is not None and values.get("key") is None:
        values["key"] = f"{prefix}:{number}"
    try:
        return _Entry(number, values, size_of(values, name, number))
    except TaskRefusedError as error:
        return _Entry(number, {}, fault=error.faults[0])


class _Progress:
    """A line on standard error, where somebody looks at it, that says how far it is."""

    def __init__(self) -> None:
        self._watch = Watch.begin()
        self._shown_us = 0

    def show(self, tasks: int) -> None:
        """Show how many tasks there are by now, not too often."""
        elapsed_us = self._elapsed_us()
        if elapsed_us - self._shown_us >= _EVERY_US and say.is_watched():
            rate = tasks * 1_000_000 // max(elapsed_us, 1)
            say.transient(f"{tasks:,} tasks, {rate:,} a second")
            self._shown_us = elapsed_us

    def clear(self) -> None:
        """Take the line away."""
        if self._shown_us:
            say.transient("")
            self._shown_us = 0

    def _elapsed_us(self) -> int:
        return int(self._watch.elapsed().total_seconds() * 1_000_000)


class _Numbers:
    """The numbers of the tasks that were stored. Those of others may lie between them."""

    def __init__(self) -> None:
        self._stretches: list[list[int]] = []  # the first and the last of some without a gap
        self._more = 0

    def add(self, number: int) -> None:
        """Enter a number that is larger than those before."""
        stretches = self._stretches
        if not self._more and stretches and number == stretches[-1][1] + 1:
            stretches[-1][1] = number
        elif len(stretches) < _MOST_STRETCHES:
            stretches.append([number, number])
        else:
            self._more += 1

    def __str__(self) -> str:
        told = [
            task_job(first) + (f" to {task_job(last)}" if last > first else "")
            for first, last in self._stretches
        ]
        return ", ".join(told) + (f" and {self._more} more" if self._more else "")


@dataclass(slots=True)
class _Submission:
    """How far it has come. Once a task was refused the rest is only checked."""

    places: Places
    file: str
    as_json: bool
    is_storing: bool = True
    tasks: int = 0
    new: int = 0
    differing: int = 0
    over: int = 0
    last_line: int = 0
    checked: int = 0
    faults: int = 0
    warned: set[str] = field(default_factory=set)
    progress: _Progress = field(default_factory=_Progress)
    numbers: _Numbers = field(default_factory=_Numbers)

    @property
    def name(self) -> str:
        """What the file is called in faults."""
        return "<stdin>" if self.file == "-" else self.file

    def take(self, entries: Iterator[_Entry | None]) -> None:
        """Hand in all that is good. Raises PycronError that says how far it has come."""
        try:
            for batch in packed(entries, lambda entry: entry.size):
                self._take(batch)
                self.progress.show(self.tasks if self.is_storing else self.checked)
        except (PycronError, KeyboardInterrupt):
            self.progress.clear()
            if self.tasks:
                say.note(f"{self._stored()}; whether the next lines are is not known")
            elif self.is_storing:
                say.note("no task is known to be stored")
            raise
        finally:
            self.progress.clear()

    def _take(self, batch: list[_Entry]) -> None:
        faults = [entry.fault for entry in batch if entry.fault is not None]
        good = [entry for entry in batch if entry.fault is None]
        is_storing = self.is_storing and not faults
        request = Submit(
            tuple(entry.values for entry in good), submitted_for(), only_check=not is_storing
        )
        try:
            if good:
                answer = call(self.places.socket, request)
                for warning in answer.warnings:
                    self._warn(warning.text, good[warning.place - 1])
                for entry in good:
                    if said := words_for_a_shell(entry.values["command"]):
                        self._warn(f"command: {said}", entry)
                self._note(answer.tasks, good)
        except TaskRefusedError as error:
            placed = placed_faults(error, self.name, [entry.line for entry in good])
            faults += map(in_json, placed)
        if faults:
            self._refuse(faults)
        elif is_storing:
            self.last_line = batch[-1].line
        self.checked += len(batch)

    def _warn(self, text: str, entry: _Entry) -> None:
        """Tell what may not be meant, each once, with its first line."""
        if text not in self.warned and len(self.warned) < _MOST_FAULTS:
            self.warned.add(text)
            self.progress.clear()
            say.note(f"warning: {self.name}:{entry.line}: {text}")

    def _note(self, stored: tuple[SubmittedTask, ...], good: list[_Entry]) -> None:
        for task, entry in zip(stored, good, strict=False):
            if task.is_new:
                self.new += 1
                self.numbers.add(task.id)
            if task.differs:
                self._note_differing(task, entry)
            self.over += not task.is_new and task.ended_at is not None
            if self.as_json:
                say.out(json.dumps({"line": entry.line, **submitted_record(task)}))
        self.tasks += len(stored)

    def _note_differing(self, task: SubmittedTask, entry: _Entry) -> None:
        self.differing += 1
        if self.differing <= _MOST_FAULTS:
            self.progress.clear()
            say.note(
                f"{self.name}:{entry.line}: {task.job} has the key {entry.values['key']!r} "
                f"already, with another {' and '.join(task.differs)}; it is kept as it was"
            )

    def _refuse(self, faults: list[Fault]) -> None:
        self.progress.clear()
        left = max(0, _MOST_FAULTS - self.faults)
        for fault in sorted(faults, key=lambda fault: fault.line)[:left]:
            say.error_line(str(fault))
        self.is_storing = False
        self.faults += len(faults)

    def _stored(self) -> str:
        """Say what is stored."""
        before = self.tasks - self.new
        text = f"{self.new} task{'' if self.new == 1 else 's'} stored"
        if before:
            text += f", {before} {'was' if before == 1 else 'were'} there before"
        of_these = [f"{self.over} with nothing more to come"] if self.over else []
        if self.differing:
            of_these.append(f"{self.differing} otherwise, and kept as before")
        if of_these:
            text += f" ({', '.join(of_these)})"
        return f"{text}, up to line {self.last_line} of {self.name}"

    def finish(self, *, only_check: bool) -> None:
        """Say what has come of it, and leave with 2 where something was refused."""
        if self.faults:
            rest = (
                "" if only_check else f"; {self._stored() if self.tasks else 'nothing is stored'}"
            )
            number = f"{self.faults} fault{'' if self.faults == 1 else 's'}"
            if self.faults > _MOST_FAULTS:
                number += f", of which these are the first {_MOST_FAULTS},"
            say.note(f"{number} in {self.name}{rest}")
            raise typer.Exit(UsageError.exit_code)
        if self.as_json:
            return
        if only_check:
            say.out(f"{self.checked} task{'' if self.checked == 1 else 's'}, all good")
        elif self.tasks:
            say.out(f"{self._stored()}{f': {self.numbers}' if self.new else ''}")
        else:
            say.note(f"there are no tasks in {self.name}")
