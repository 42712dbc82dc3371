"""``pycron env``: what a run of a job would find, printed."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from crond_py.cli import say
from crond_py.cli.byhand import find_job, note_other_user, spec_of
from crond_py.cli.options import Crontab, Json, StateDir, complete_job, places_of
from crond_py.cli.render import is_terminal
from crond_py.errors import CannotStartError, UsageError
from crond_py.model import Limits, OutputMode
from crond_py.ports import ProcessSpec
from crond_py.printable import printable_line
from crond_py.runner.setting import Setting, prepare, resolve
from crond_py.runner.wording import encode

EXAMPLES = ("pycron env backup", "pycron env backup --json", "pycron env backup -0 | sort -z")


def command(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The job's name.", autocompletion=complete_job)
    ],
    *,
    null: Annotated[
        bool,
        typer.Option(
            "-0", "--null",
            help="End each variable with a NUL instead of a newline, byte for byte as it is.",
        ),
    ] = False,
    crontab: Crontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Print the environment that a job would have.

    It is printed as lines of NAME=value, sorted. On a terminal user, directory, umask and what
    else is set up come first, as comments; --json has all of that, too. What a shell sets by
    itself, such as PWD, is not in it. Where a run could not start, a note says why.
    """
    if null and as_json:
        raise UsageError("give --null or --json, not both")
    places = places_of(crontab, state_dir)
    found = find_job(job, places, crontab)
    note_other_user(found, places)
    spec = spec_of(found, places)
    setting = resolve(spec)
    fault = _find_fault(spec, setting)
    if fault:
        say.note(f"a run could not start now: {fault}")
    if as_json:
        say.out_json(_record(spec, setting, fault))
        return
    if null:
        for name, value in sorted(setting.env.items()):
            say.write_bytes(encode(f"{name}={value}") + b"\0")
        return
    if is_terminal():
        for key, value in _remarks(spec, setting):
            say.out(f"# {key}: {printable_line(value)}")
    for name, value in sorted(setting.env.items()):
        say.out(printable_line(f"{name}={value}"))


def _find_fault(spec: ProcessSpec, setting: Setting) -> str:
    try:
        with prepare(spec, setting):
            return ""
    except CannotStartError as error:
        return str(error)


def _remarks(spec: ProcessSpec, setting: Setting) -> list[tuple[str, str]]:
    """Return what else is set up, for people; what is as the daemon has it is left out."""
    account = setting.account
    groups = f", groups {' '.join(map(str, account.groups))}" if account.groups else ""
    limits = _limits(spec.limits)
    remarks = [
        ("command", spec.argv[2] if _is_for_shell(spec) else " ".join(spec.argv)),
        ("shell", spec.shell if _is_for_shell(spec) else ""),
        ("user", f"{account.name} (uid {account.uid}, gid {account.gid}{groups})"),
        ("cwd", setting.cwd),
        ("umask", f"{spec.umask:03o}"),
        ("nice", "" if spec.nice is None else str(spec.nice)),
        ("limits", ", ".join(f"{name} {value}" for name, value in limits.items())),
        ("stdin", _stdin_text(spec.stdin)),
    ]
    return [(key, value) for key, value in remarks if value]


def _is_for_shell(spec: ProcessSpec) -> bool:
    return spec.argv[:2] == (spec.shell, "-c") and len(spec.argv) == 3  # noqa: PLR2004 - sh -c TEXT


def _stdin_text(stdin: str | Path | None) -> str:
    if stdin is None:
        return "nothing"
    return f"a text of {len(encode(stdin))} bytes" if isinstance(stdin, str) else str(stdin)


def _limits(limits: Limits) -> dict[str, int]:
    """Return the limits that are set, as the crontab names them, in bytes and seconds."""
    values = {
        field.name.removesuffix("_bytes"): getattr(limits, field.name) for field in fields(limits)
    }
    values["cpu"] = None if limits.cpu is None else int(limits.cpu.total_seconds())
    return {name: value for name, value in values.items() if value is not None}


def _record(spec: ProcessSpec, setting: Setting, fault: str) -> dict[str, Any]:
    """Return everything; the keys are part of the product: they stay."""
    account, output = setting.account, spec.output
    stdin: dict[str, str] | None = None
    if spec.stdin is not None:
        kind = "text" if isinstance(spec.stdin, str) else "file"
        stdin = {kind: str(spec.stdin)}
    return {
        "job": spec.env["PYCRON_JOB"],
        "argv": list(spec.argv),
        "shell": spec.shell,
        "user": account.name,
        "uid": account.uid,
        "gid": account.gid,
        "groups": list(account.groups),
        "cwd": setting.cwd,
        "umask": f"{spec.umask:03o}",
        "nice": spec.nice,
        "limits": _limits(spec.limits),
        "stdin": stdin,
        "output": {
            "mode": (output.mode if output else OutputMode.DISCARD).value,
            "directory": str(Path(output.path).parent) if output else None,
            "limit": output.limit_bytes if output else None,
        },
        "env": dict(sorted(setting.env.items())),
        "fault": fault or None,
    }
