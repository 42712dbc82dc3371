"""What ``pycron at``, ``in`` and ``every`` share: the options of one task, and handing it in."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from crond_py.cli import say
from crond_py.cli.absent import absent_of_task
from crond_py.cli.in_vain import words_for_a_shell
from crond_py.cli.ledgers import reading
from crond_py.cli.records import standing
from crond_py.cli.times import local_text, relative_text
from crond_py.clock import SystemClock
from crond_py.control.batches import size_of, submitted_for, task_values
from crond_py.control.client import Conversation
from crond_py.control.codec import instant_text
from crond_py.control.protocol import Submit, SubmittedList, SubmittedTask
from crond_py.dataclass import dataclass
from crond_py.errors import UsageError
from crond_py.places import Places
from crond_py.ports import RunQuery

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND", show_default=False,
        help="What to run, after -- if it has options. One word is a command line for the shell; "
        "several are a program and its arguments.",
    ),
]  # fmt: skip
KeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="KEY", show_default=False,
        help="A name of your own: submitted again with it, it stays the one task.",
    ),
]  # fmt: skip
TimeoutOption = Annotated[
    str | None,
    typer.Option(metavar="DURATION", show_default=False, help="End it after this long."),
]
PoolOption = Annotated[
    str | None,
    typer.Option(metavar="POOL", show_default=False, help="Run it in this pool of the crontab."),
]
UserOption = Annotated[
    str | None,
    typer.Option(metavar="USER", show_default=False, help="Run it as this user (root only)."),
]
DirectoryOption = Annotated[
    str | None,
    typer.Option(
        "--cwd", metavar="DIR", show_default=False,
        help="Run it in this directory; else in the current one, or with --user at home.",
    ),
]  # fmt: skip
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "-s", "--set", metavar="KEY=VALUE", show_default=False,
        help="Any key of a job in the crontab, as there: -s priority=5 -s 'retry={attempts=3}'. "
        "May be given again.",
    ),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What the options say of a task."""

    key: str | None = None
    timeout: str | None = None
    pool: str | None = None
    user: str | None = None
    cwd: str | None = None
    settings: Sequence[str] | None = None

    def values(self) -> dict[str, Any]:
        """Return them as keys of the task. Raises UsageError."""
        said = task_values(
            {"key": self.key, "timeout": self.timeout, "pool": self.pool, "user": self.user}
        )
        for text in self.settings or ():
            _put(said, _setting(text), text)
        if self.cwd is not None:
            _put(said, {"cwd": os.path.abspath(self.cwd)}, "--cwd")  # noqa: PTH100 - keeps links
        elif "user" not in said and "cwd" not in said:
            said["cwd"] = _here()
        return said


def _setting(text: str) -> dict[str, Any]:
    """Read KEY=VALUE as TOML; a value that is none is text as it stands."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set takes KEY=VALUE, such as priority=5, not {text!r}")
    try:
        table = tomllib.loads(f"{key} = 0")
        (name,) = table
    except (ValueError, RecursionError):  # no key at all, or more than one line
        raise UsageError(f"--set: {key.strip()!r} is no key of a job") from None
    try:
        read = tomllib.loads(f"{key} = {value}")
    except (ValueError, RecursionError):  # too many digits, or too deep
        read = None
    # A shell takes the quotes of env.A="1" away, so that all in there is text.
    if read is not None and not (name == "env" and not isinstance(_value_of(read), str | dict)):
        return read
    innermost = table
    while isinstance(inner := next(iter(innermost.values())), dict):
        innermost = inner
    innermost[next(iter(innermost))] = value.strip()
    return table


def _value_of(table: Mapping[str, Any]) -> object:
    """Return the value of the one key of nested tables."""
    value: object = table
    while isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value


def _put(said: dict[str, Any], more: Mapping[str, Any], text: str) -> None:
    """Put keys beside others, tables key by key. Raises UsageError for what is there already."""
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(inner := said.setdefault(name, {}), dict):
            _put(inner, value, text)
        elif name in said:
            raise UsageError(f"{text}: {name} is given twice")
        else:
            said[name] = value


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        message = f"the current directory cannot be used ({error.strerror}); give --cwd"
        raise UsageError(message) from None


def submit_one(
    when: Mapping[str, Any],
    words: Sequence[str],
    options: TaskOptions,
    places: Places,
    *,
    as_json: bool,
) -> None:
    """Hand in a task, and say which it is and when it is due. Raises PycronError."""
    command = words[0] if len(words) == 1 else list(words)
    values = {"command": command, **when}
    _put(values, options.values(), "--set")
    size_of(values)
    with Conversation(places.socket) as conversation:
        answer = conversation.call(Submit((values,), submitted_for()))
        daemon = conversation.peer
    (stored,) = answer.tasks
    if stored.is_new:
        for warning in _warnings(values, answer, daemon.uid):
            say.note(f"warning: {warning}")
    if as_json:
        say.out_json(submitted_record(stored))
    else:
        say.out(_sentence(stored, when.get("every"), _standing(stored, places)))


def _warnings(values: Mapping[str, Any], answer: SubmittedList, daemon_uid: int) -> Iterator[str]:
    """Yield what a task lacks, and what in it may not be meant."""
    yield from absent_of_task(values, answer.search_path, daemon_uid)
    if said := words_for_a_shell(values["command"]):
        yield f"command: {said}"
    yield from (warning.text for warning in answer.warnings)


def submitted_record(stored: SubmittedTask) -> dict[str, Any]:
    """Return a task that was handed in as JSON."""
    return {
        "task": stored.id,
        "job": stored.job,
        "due": instant_text(stored.due),
        "new": stored.is_new,
        "differs": list(stored.differs),
        "ended_at": instant_text(stored.ended_at) if stored.ended_at else None,
    }


def _standing(stored: SubmittedTask, places: Places) -> str:
    """Return how the last run stands of a task of which nothing is to come."""
    if stored.ended_at is None:
        return ""
    with reading(places) as ledger:
        runs = ledger.runs(RunQuery(job=stored.job, limit=1)) if ledger is not None else []
        return standing(runs[0]).replace("_", " ") if runs else "ended"


def _sentence(stored: SubmittedTask, every: str | None, state: str) -> str:
    now = SystemClock().now()
    due = f"{local_text(stored.due)} ({relative_text(stored.due, now)})"
    if not stored.is_new:
        is_due = "is due" if stored.due > now else "was due"
        kept = f", with another {' and '.join(stored.differs)}, and is kept as it was"
        before = f"{stored.job} was submitted with this key before{kept if stored.differs else ''}"
        if state:
            rest = "nothing more of it is to come; another key makes another task"
            return f"{before}; its last run, due {due}: {state}; {rest}"
        return f"{before}; it {is_due} {due}"
    if every is not None:
        return f"{stored.job} is due every {every}, first {due}"
    return f"{stored.job} is due {due}"
