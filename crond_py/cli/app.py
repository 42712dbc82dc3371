"""The program ``pycron``: its commands by name, and the boundary where errors become sentences."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import crond_py
from crond_py.cli import say
from crond_py.cli.options import RunsWords, TextValues
from crond_py.errors import (
    CrontabError,
    PycronError,
    TaskRefusedError,
    UnknownNameError,
    UsageError,
)

if TYPE_CHECKING:
    from crond_py.cli.when import When

_COMMANDS: Final = {
    "run": "crond_py.cli.run",
    "check": "crond_py.cli.check",
    "list": "crond_py.cli.jobs",
    "next": "crond_py.cli.upcoming",
    "graph": "crond_py.cli.graph",
    "history": "crond_py.cli.history",
    "logs": "crond_py.cli.logs",
    "status": "crond_py.cli.status",
    "exec": "crond_py.cli.exec",
    "env": "crond_py.cli.env",
    "trigger": "crond_py.cli.trigger",
    "at": "crond_py.cli.at",
    "in": "crond_py.cli.after_a_while",
    "every": "crond_py.cli.every",
    "submit": "crond_py.cli.submit",
    "tasks": "crond_py.cli.tasks",
    "cancel": "crond_py.cli.cancel",
    "reload": "crond_py.cli.reload",
    "stop": "crond_py.cli.stop",
    "schema": "crond_py.cli.schema",
}
"""Each command's module: its function ``command`` is what is run, ``EXAMPLES`` are for its help."""

_ELSEWHERE: Final = {
    "start": "pycron run starts the daemon, pycron trigger JOB a run",
    "restart": "stop pycron and start it again: pycron stop, then pycron run",
    "edit": "edit the crontab, then: pycron check, and pycron reload",
    "ps": "pycron list has the jobs, pycron status what the daemon is doing",
    "kill": "pycron cancel ends runs, pycron stop the daemon",
    "show": "pycron history, pycron list and pycron logs tell of runs, jobs and output",
    "enable": "write enabled = true in the crontab, then: pycron reload",
    "disable": "write enabled = false in the crontab, then: pycron reload",
    "add": "write the job into the crontab, then: pycron reload",
    "atq": "pycron tasks shows what is to come",
    "atrm": "pycron cancel takes a task back",
    "batch": "pycron in 0s hands in a command, and a pool bounds how many run at once",
    "crontab": "edit the crontab, then: pycron reload; pycron list shows its jobs",
    "remove": "take the job out of the crontab, then: pycron reload",
}
"""Commands of other programs, and what to do here."""

_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141  # as a shell shows a program that SIGPIPE has ended


class _Command(TextValues, TyperCommand):
    """One command."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments; a fault knows of which command it is."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]  # an error of usage has one
            raise


class _TaskCommand(RunsWords, _Command):
    """A command that hands in another one."""


class _AtCommand(_TaskCommand):
    """One that is given a time of the clock."""

    def when(self) -> When:
        """Return how it is read."""
        from crond_py.cli.when import Moment  # noqa: PLC0415 - of one command

        return Moment()


class _InCommand(_TaskCommand):
    """One that is given a length of time from now."""

    is_repeated = False

    def when(self) -> When:
        """Return how it is read."""
        from crond_py.cli.when import Span  # noqa: PLC0415 - of two commands

        return Span(is_repeated=self.is_repeated)


class _EveryCommand(_InCommand):
    """One that is given an interval."""

    is_repeated = True


_CLASSES: Final = {"at": _AtCommand, "in": _InCommand, "every": _EveryCommand}


class _Commands(TextValues, TyperGroup):
    """The commands; a module is imported when its command is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None where there is none of that name."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name])
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        epilog = _examples(module.EXAMPLES)
        single.command(cmd_name, cls=_CLASSES.get(cmd_name, _Command), epilog=epilog)(
            module.command
        )
        return get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is asked for. Raises UnknownNameError with the nearest one."""
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            raise UnknownNameError(_no_such_command(args[0]))
        return super().resolve_command(ctx, args)


def _examples(examples: Sequence[str]) -> str:
    r"""Return the end of a command's help; ``\b`` keeps its lines from being filled."""
    return "\n".join(["\b", "Examples:", *(f"  {example}" for example in examples)])


def _no_such_command(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only for somebody's typing mistake

    near = get_close_matches(name, _COMMANDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "see pycron --help"
    return f"there is no command {name!r}; {_ELSEWHERE.get(name, hint)}"


app = typer.Typer(
    cls=_Commands,
    name="pycron",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each command has a help of its own: pycron next --help",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say.out(f"pycron {crond_py.__version__}")
        raise typer.Exit


@app.callback()
def _pycron(
    ctx: typer.Context,
    *,
    version: Annotated[
        bool,
        typer.Option(
            "-V", "--version", help="Show the version and exit.", callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:  # fmt: skip
    """Run jobs on time, and say what became of each: the accountable cron."""
    del version
    if ctx.invoked_subcommand is None:
        say.error_line(ctx.get_help())
        raise typer.Exit(UsageError.exit_code)


def run_app(arguments: Sequence[str]) -> int:
    """Run a command and return the exit code. Raises nothing."""
    say.prepare()
    try:
        code = get_command(app).main(list(arguments), prog_name="pycron", standalone_mode=False)
        say.flush()
    except BaseException as error:  # noqa: BLE001 - the boundary of the program
        return _explain(error)
    return code if isinstance(code, int) else 0


def _explain(error: BaseException) -> int:  # noqa: C901, PLR0911 - one way out for each kind
    """Say what has happened, on standard error, and return the exit code for it."""
    match error:
        case CrontabError(faults=faults):
            for fault in faults:
                say.error_line(str(fault))  # as it is: editors know FILE:LINE: at the beginning
            return error.exit_code
        case TaskRefusedError(faults=faults):
            for fault in faults:
                (say.error_line if fault.path else say.note)(str(fault))
            return error.exit_code
        case PycronError():
            say.note(str(error))
            return error.exit_code
        case typer.TyperException():
            return _usage(error)
        case typer.Abort() | KeyboardInterrupt():
            return _INTERRUPTED
        case SystemExit(code=0 | None):  # a shell has asked what may come next
            say.flush()
            return 0
        case BrokenPipeError() | SystemExit():  # the second is typer's word for the first
            say.drop()
            return _PIPE_CLOSED
        case OSError():
            say.drop()
            return _unexpected(error, f"{error.filename or 'output'}: {error.strerror or error}")
    return _unexpected(error, f"unexpected {type(error).__name__}: {error}")


def _usage(error: typer.TyperException) -> int:
    """Say what was wrong with the arguments, and where help is."""
    command = getattr(getattr(error, "ctx", None), "command_path", "pycron")
    message = error.format_message().rstrip(".")
    say.note(f"{message[0].lower()}{message[1:]}; see {command} --help")
    return error.exit_code


def _unexpected(error: BaseException, message: str) -> int:
    if os.environ.get("PYCRON_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        say.note(f"{message} (PYCRON_DEBUG=1 shows where; please report what should not be)")
    return 1
