"""Options and arguments that several commands take, and how their values are read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from crond_py.errors import PycronError, UsageError
from crond_py.model import Outcome, State
from crond_py.places import Places, find_places

if TYPE_CHECKING:
    from crond_py.cli.when import When

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


_STATES: Final = frozenset({"ended", "pending", "waiting", *State, *Outcome})


def places_of(crontab: str | None, state_dir: str | None) -> Places:
    """Return the places that the options name, with the usual ones for the rest.

    Raises UsageError where --state is given what is no directory, but a state to look for.
    """
    if state_dir and state_dir in _STATES and not Path(state_dir).exists():
        raise UsageError(
            f"there is no directory {state_dir!r}, and --state is short for --state-dir; "
            f"pycron history has --outcome to choose by (for a directory: ./{state_dir})"
        )
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

    An option behind the words that say when, where no ``--`` says whose it is, would be taken from
    the command.
    """

    def when(self) -> When:
        """Return how the command reads its time."""
        raise NotImplementedError

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments. Raises UsageError for an option that may be the command's."""
        if ctx.resilient_parsing:  # a shell asks what may come next
            return super().parse_args(ctx, args)  # type: ignore[misc]  # a mixin
        from crond_py.cli.when import split_words  # noqa: PLC0415 - of three commands

        options, words, command = self._sorted(ctx, args)
        if words:
            when, command = split_words(ctx.command_path, words, command, self.when())
            args = [*options, "--", when, *command]
        return super().parse_args(ctx, args)  # type: ignore[misc]  # a mixin

    def _sorted(self, ctx: Any, args: list[str]) -> tuple[list[str], list[str], list[str] | None]:
        """Return the options, the words that are none, and those behind a ``--``, if it is there.

        A ``--`` before the first of the words changes nothing.
        """
        path, params = ctx.command_path, self.get_params(ctx)  # type: ignore[attr-defined]  # a mixin
        known = {name: param for param in params for name in param.opts}
        options: list[str] = []
        words: list[str] = []
        rest = iter(args)
        for each in rest:
            if each == "--":
                behind = list(rest)
                return (options, words, behind) if words else (options, behind, None)
            if not each.startswith("-") or each == "-":
                words.append(each)
                continue
            if words:
                self._check_own(path, words, each)
            elif re.match(r"-[.0-9:]", each):
                raise UsageError(f"{each} has a sign; {path} takes what is to come")
            options.append(each)
            if each in known:
                is_flag = getattr(known[each], "is_flag", True)
                value = [] if is_flag else list(itertools.islice(rest, 1))
                if not (is_flag or value):
                    raise UsageError(f"option {each!r} requires an argument; see {path} --help")
                options += value
            elif each.startswith("--") and each.partition("=")[0] not in known:
                raise UsageError(_no_such_option(path, each.partition("=")[0], known))
        return options, words, None

    def _check_own(self, path: str, words: list[str], option: str) -> None:
        """Raise UsageError where an option stands behind the beginning of the command."""
        from crond_py.cli.when import split_words  # noqa: PLC0415 - of three commands

        when, command = split_words(path, [*words, option], None, self.when())
        if command[0] != option:
            raise UsageError(
                f"{option} may be an option of {command[0]}; put -- before the command, and "
                f"pycron's own options before that: {path} {when} -- {command[0]} {option} ..."
            )


_WHEN: Final = {"at": "18:00", "in": "10m", "every": "5m"}


def _no_such_option(path: str, option: str, own: Iterable[str]) -> str:
    """Say that a command that hands in a task has no such option, and what it has for it.

    ``own`` are those that it has.
    """
    from crond_py.crontab.task_keys import TASK_KEYS  # noqa: PLC0415 - only for a typing mistake

    key = option.removeprefix("--").replace("-", "_")
    known = TASK_KEYS.get(key)
    if key in _WHEN:
        way_out = f"when it is due stands first, as in: pycron {key} {_WHEN[key]} -- command ..."
    elif key == "command":
        way_out = f"it stands last, as in: {path} ... -- command ..."
    elif known is not None and known.is_supported:
        way_out = f"give that key of a job: -s {key}=..."
    else:
        meant = _meant(key, own) if known is None else ""
        way_out = f"did you mean {meant}?" if meant else f"see {path} --help"
    return f"no such option: {option}; {way_out}"


def _meant(key: str, own: Iterable[str]) -> str:
    """Return the likeliest of a command's ``own`` options and of a task's keys, as it is written.

    It is "" where none is near.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only for a typing mistake

    from crond_py.crontab.task_keys import TASK_KEYS, WHEN_KEYS  # noqa: PLC0415

    written = {
        name: f"-s {name}=..."
        for name, each in TASK_KEYS.items()
        if each.is_supported and name not in {*WHEN_KEYS, "command"}
    }
    written |= {each.strip("-").replace("-", "_"): each for each in own if each.startswith("--")}
    near = get_close_matches(key, written, n=1)
    return written[near[0]] if near else ""
