"""Options and arguments that several commands take, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from crond_py.errors import PycronError, UsageError
from crond_py.places import Places, find_places

Crontab = Annotated[
    str | None,
    typer.Option(
        "-c", "--crontab", metavar="FILE", show_default=False,
        help="The crontab; else $PYCRON_CRONTAB, else the usual one.",
    ),
]  # fmt: skip
CrontabArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="CRONTAB", show_default=False,
        help="The crontab; else $PYCRON_CRONTAB, else /etc/pycron/crontab.toml or, "
        "for a user, ~/.config/pycron/crontab.toml.",
    ),
]  # fmt: skip
DaemonCrontab = Annotated[
    str | None,
    typer.Option(
        "-c", "--crontab", metavar="FILE", show_default=False,
        help="Accepted as by the other commands; what the daemon has read is what counts.",
    ),
]  # fmt: skip
StateDir = Annotated[
    str | None,
    typer.Option(
        "--state-dir", "--state", metavar="DIR", show_default=False,
        help="Where ledger, output and control socket are; else $PYCRON_STATE_DIR, else the "
        "usual place.",
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print JSON, with instants in UTC.")]


def places_of(crontab: str | None, state_dir: str | None) -> Places:
    """Return the places that the options name, with the usual ones for the rest."""
    return find_places(
        crontab=Path(crontab) if crontab else None,
        state_dir=Path(state_dir) if state_dir else None,
    )


def complete_job(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of jobs that begin so, for a shell's completion."""
    # Only a shell asks, and only here is a crontab needed to read a command line.
    from crond_py.cli.names import crontab_in_force  # noqa: PLC0415
    from crond_py.crontab import load_crontab  # noqa: PLC0415

    option = ctx.params.get("crontab")
    try:
        places = places_of(option, ctx.params.get("state_dir"))
        names = load_crontab(crontab_in_force(places, option)).jobs
    except PycronError:
        return []
    return [name for name in names if name.startswith(incomplete)]


class _AsTyped:
    """Reads the values of a parameter: text stays text, whole numbers are read here."""

    def __init__(self, annotation: object) -> None:
        self._is_number = annotation in (int, int | None)

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value for the command. Raises typer.BadParameter."""
        if param.multiple or param.nargs == -1:
            return list(value or ())
        if value is None or not self._is_number or isinstance(value, int):
            return value
        try:
            return int(value)
        except ValueError:
            raise typer.BadParameter(
                f"{value!r} is not a whole number", ctx=ctx, param=param
            ) from None


class TextValues:
    """A command or group whose values are text, whole numbers and flags, read without pydantic.

    Typer imports pydantic to read a value, even one that is not given, and that takes longer than
    all the rest of a short command. It keeps its reader in an attribute of the parameter, which is
    filled in here. A typer that has no such attribute is only slower; a test holds that it has.
    """

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters of the command, the help option included."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # a mixin
        for param in params:
            if getattr(param, "_runtime_param", "none") is None:
                param._runtime_param = _AsTyped(param.type_descriptor.annotation)  # noqa: SLF001
        return params


class RunsWords:
    """A command that is given another one to run, whose options are none of its own.

    Subclasses say in ``join_when`` which of the arguments that are no options say when. An option
    behind those, where no ``--`` says whose it is, would be taken from the command.
    """

    @staticmethod
    def join_when(when: str, words: Sequence[str]) -> tuple[str, list[str]]:
        """Return when it is to be run, as one word, and the command, of which there is a word."""
        return when, list(words)

    def begins_command(self, words: list[str]) -> bool:
        """Return whether the last of some words is of the command that is to be run."""
        return len(self.join_when(words[0], [*words[1:], "command"])[1]) > 1

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments. Raises UsageError for an option that may be the command's."""
        params = self.get_params(ctx)  # type: ignore[attr-defined]  # a mixin
        with_value = {
            name for param in params if not getattr(param, "is_flag", True) for name in param.opts
        }
        known = {name for param in params for name in param.opts}
        words: list[str] = []
        rest = iter(args)
        for each in rest:
            if each == "--":
                if words and self.begins_command(words):
                    raise UsageError(self._says_more(ctx.command_path, words))
                break
            if not each.startswith("-") or each == "-":
                words.append(each)
            elif words and self.begins_command(words):
                raise UsageError(self._whose(ctx.command_path, words, each))
            elif not words and re.match(r"-[.0-9:]", each):
                raise UsageError(f"{each} has a sign; {ctx.command_path} takes what is to come")
            elif each in with_value:
                next(rest, None)
            elif each.startswith("--") and each.partition("=")[0] not in known:
                raise UsageError(_no_such_option(ctx.command_path, each.partition("=")[0]))
        return super().parse_args(ctx, args)  # type: ignore[misc]  # a mixin

    def _says_more(self, path: str, words: list[str]) -> str:
        when, rest = self.join_when(words[0], [*words[1:], "command"])
        return (
            f"{rest[0]!r} says nothing of when, and what is run stands after the --: "
            f"{path} {when} -- command ..."
        )

    def _whose(self, path: str, words: list[str], option: str) -> str:
        first = next(n for n in range(1, len(words)) if self.begins_command(words[: n + 1]))
        when, command = " ".join(words[:first]), words[first]
        return (
            f"{option} may be an option of {command}; put -- before the command, and pycron's own "
            f"options before that: {path} {when} -- {command} {option} ..."
        )


def _no_such_option(path: str, option: str) -> str:
    """Say that a command that hands in a task has no such option, and what it has for it."""
    from crond_py.crontab.task_keys import TASK_KEYS  # noqa: PLC0415 - only for a typing mistake

    key = option.removeprefix("--").replace("-", "_")
    way_out = f"give that key of a job: -s {key}=..." if key in TASK_KEYS else f"see {path} --help"
    return f"no such option: {option}; {way_out}"
