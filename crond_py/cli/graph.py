"""``pycron graph``: which jobs follow which, as a tree for each job that begins a chain."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crond_py.cli import say
from crond_py.cli.names import crontab_in_force, no_such_job
from crond_py.cli.options import Crontab, Json, StateDir, complete_job, places_of
from crond_py.cli.render import is_terminal
from crond_py.crontab import load_crontab
from crond_py.crontab.model import AfterTrigger, Job
from crond_py.crontab.summary import describe_trigger
from crond_py.model import Condition
from crond_py.printable import printable_line

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

EXAMPLES = ("pycron graph", "pycron graph report")

_WIDE = 10_000
"""Wider than any line; in columns."""

_GUIDE = 4
"""How wide the lines are that lead to a branch, at each level."""

_ASKED = {
    Condition.SUCCESS: "",
    Condition.FAILURE: "if it fails",
    Condition.ANY: "however it ends",
}


def command(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB", show_default=False, help="Show only the chain that this job is in.",
            autocompletion=complete_job,
        ),
    ] = None,
    *,
    crontab: Crontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show which jobs follow which (the key after).

    A job that waits for several others stands below each of them.
    """
    path = crontab_in_force(places_of(crontab, state_dir), crontab)
    jobs = load_crontab(path).jobs
    if job is not None and job not in jobs:
        raise no_such_job(job, jobs, path)
    followers = _followers(jobs)
    chosen = _connected(jobs, followers, job) if job is not None else _in_chains(jobs, followers)
    if as_json:
        say.out_json([_record(jobs[name], followers) for name in jobs if name in chosen])
    elif not chosen:
        say.note(f"no job in {path} follows another")
    else:
        _draw(jobs, followers, chosen)


def _conditions(job: Job) -> Mapping[str, Condition]:
    return job.trigger.conditions if isinstance(job.trigger, AfterTrigger) else {}


def _followers(jobs: Mapping[str, Job]) -> dict[str, list[str]]:
    followers: dict[str, list[str]] = {name: [] for name in jobs}
    for job in jobs.values():
        for upstream in _conditions(job):
            followers[upstream].append(job.name)
    return followers


def _in_chains(jobs: Mapping[str, Job], followers: Mapping[str, list[str]]) -> set[str]:
    return {name for name, job in jobs.items() if followers[name] or _conditions(job)}


def _connected(jobs: Mapping[str, Job], followers: Mapping[str, list[str]], start: str) -> set[str]:
    """Return every job that is in one chain with ``start``."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [*followers[name], *_conditions(jobs[name])]
    return found


def _record(job: Job, followers: Mapping[str, list[str]]) -> dict[str, Any]:
    return {
        "job": job.name,
        "enabled": job.enabled,
        "schedule": describe_trigger(job),
        "after": {name: asked.value for name, asked in _conditions(job).items()},
        "before": followers[job.name],
    }


def _draw(jobs: Mapping[str, Job], followers: Mapping[str, list[str]], chosen: set[str]) -> None:
    from rich.console import Console  # noqa: PLC0415 - takes as long as all the rest

    console = Console(highlight=False, markup=False, emoji=False, width=_WIDE)
    room = get_terminal_size().columns if is_terminal() else 0
    drawn: set[str] = set()
    for name, job in jobs.items():
        if name in chosen and not _conditions(job):
            tree = _tree(jobs, followers, name, drawn)
            # In too little room names would be cut; a terminal wraps them, and none is lost.
            console.print(tree, width=room if _least_width(tree) <= room else _WIDE)
    sys.stdout.flush()


def _least_width(tree: Tree) -> int:
    """Return in how many columns no word of a tree has to be cut."""
    from rich.cells import cell_len  # noqa: PLC0415 - see above

    widest, waiting = 0, [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        longest = max(map(cell_len, str(node.label).split()))
        widest = max(widest, depth * _GUIDE + longest)
        waiting += [(child, depth + 1) for child in node.children]
    return widest


def _tree(
    jobs: Mapping[str, Job], followers: Mapping[str, list[str]], head: str, drawn: set[str]
) -> Tree:
    """Return the tree below a head; what was drawn before is only named again."""
    from rich.tree import Tree  # noqa: PLC0415 - see above

    root = Tree(_label(jobs[head], describe_trigger(jobs[head])), guide_style="dim")
    waiting = [(root, head, follower) for follower in reversed(followers[head])]
    while waiting:
        tree, upstream, name = waiting.pop()
        is_new = name not in drawn
        drawn.add(name)
        remarks = [*_remarks(jobs[name], upstream), *([] if is_new else ["as above"])]
        branch = tree.add(_label(jobs[name], ", ".join(remarks)))
        if is_new:
            waiting += [(branch, name, follower) for follower in reversed(followers[name])]
    return root


def _remarks(job: Job, upstream: str) -> Iterator[str]:
    conditions = _conditions(job)
    if asked := _ASKED[conditions[upstream]]:
        yield asked
    if others := [name for name in conditions if name != upstream]:
        yield f"also after {', '.join(others)}"


def _label(job: Job, remark: str) -> Text:
    from rich.text import Text  # noqa: PLC0415 - see above

    label = Text(printable_line(job.name), style="bold" if job.enabled else "dim")
    if not job.enabled:
        remark = f"{remark}, disabled" if remark else "disabled"
    if remark:
        label.append(f"  {printable_line(remark)}", style="not bold dim")
    return label
