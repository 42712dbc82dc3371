"""Reads a crontab: the file, its drop-ins, and how they go together.

``crontab.toml`` may have a directory ``crontab.d`` beside it; every file in it whose name ends
in ``.toml`` and does not begin with a dot is a drop-in, and they are read in the order of their
names. A drop-in may hold all that the crontab may. Its jobs and pools join the others, and no
name may be there twice. Its ``timezone``, ``[env]`` and ``[defaults]`` hold for its own jobs
only, and go over those of the crontab, which hold for all.

For one job, the nearest word counts: its own keys, then ``[defaults]`` (then ``timezone`` and
``[env]``) of its file, then those of the crontab. ``env``, ``retry`` and ``limits`` are put
together key by key, everything else is taken whole.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from crond_py.crontab.chains import check_chains
from crond_py.crontab.faults import FileReport, Refused, quoted, shown
from crond_py.crontab.fields import read_fields
from crond_py.crontab.jobs import JobReader, check_pool, check_umask, scope_within
from crond_py.crontab.keys import DEFAULTS_KEYS, FILE_KEYS
from crond_py.crontab.locate import KeyPath, job_lines
from crond_py.crontab.model import DEFAULT_POOL, Crontab, Group, Job, Pool, Scope
from crond_py.crontab.source import Table, read_table
from crond_py.crontab.values import JOB_NAME, is_name, not_the
from crond_py.dataclass import dataclass
from crond_py.errors import CrontabError


def load_crontab(path: Path, *, hostname: str | None = None) -> Crontab:
    """Return the crontab of ``path`` and of the drop-ins beside it.

    Jobs whose ``hosts`` do not name ``hostname`` (this machine's, by default) come out disabled.

    Raises CrontabError with every fault of every file; nothing else is raised for what is in
    the files, or for a file that cannot be read.
    """
    return _Loader(os.uname().nodename if hostname is None else hostname).load(path)


def drop_in_directory(path: Path) -> Path:
    """Return the directory that holds the drop-ins of a crontab, whether it is there or not."""
    return path.parent / (path.name.removesuffix(".toml") + ".d")


@dataclass(slots=True)
class _Document:
    """One file. ``table`` None: it could not be read, and its report says why."""

    report: FileReport
    table: Table | None
    scope: Scope = field(default_factory=Scope)


class _Loader:
    """The state of one loading."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._reports: list[FileReport] = []
        self._documents: list[_Document] = []
        self._pools: dict[str, Pool] = {DEFAULT_POOL: Pool(DEFAULT_POOL)}
        self._groups: dict[str, Group] = {}
        self._owners: dict[KeyPath, FileReport] = {}
        self._has_entries = False

    def load(self, path: Path) -> Crontab:
        """Read every file; return the whole or raise the faults."""
        main = self._open(path)
        drop_ins = [self._open(file) for file in self._drop_ins(main.report)]
        self._documents = [main, *drop_ins]
        for document in self._documents:
            self._read_shares(document)
        main.scope = self._scope(main, Scope())
        for document in drop_ins:
            document.scope = self._scope(document, main.scope)
        jobs = self._read_jobs()
        self._refuse_nothing()
        faults = tuple(fault for report in self._reports for fault in report.faults())
        if faults:
            raise CrontabError(faults)
        files = tuple(document.report.path for document in self._documents)
        return Crontab(
            MappingProxyType(jobs),
            MappingProxyType(self._pools),
            files,
            MappingProxyType(self._groups),
            main.scope,
        )

    def _report(self, path: Path) -> FileReport:
        self._reports.append(FileReport(path))
        return self._reports[-1]

    def _open(self, path: Path) -> _Document:
        report = self._report(path)
        return _Document(report, read_table(report))

    def _drop_ins(self, main: FileReport) -> list[Path]:
        """Return the drop-ins in order; a directory that cannot be read is a fault."""
        directory = drop_in_directory(main.path)
        try:
            names = sorted(entry.name for entry in directory.iterdir())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            if main.is_clean():  # else it is the crontab that is not there, and its fault says why
                reason = getattr(error, "strerror", None) or type(error).__name__
                self._report(directory).add((), f"the drop-ins cannot be read: {reason}")
            return []
        return [
            directory / name
            for name in names
            if name.endswith(".toml") and not name.startswith(".")
        ]

    def _known_pools(self) -> Collection[str] | None:
        """Return the names of all pools, or None where a file that may have some is unreadable."""
        is_complete = all(document.table is not None for document in self._documents)
        return self._pools.keys() if is_complete else None

    def _read_shares(self, document: _Document) -> None:
        """Take up the pools and groups of a file."""
        for name, values in self._named("pools", document):
            self._pools[name] = Pool(name, values.get("workers"), values.get("lag_warning"))
        for name, values in self._named("groups", document):
            self._groups[name] = Group(name, **values)

    def _named(self, key: str, document: _Document) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the tables below a key of a file that have a name, used once."""
        tables = (document.table or {}).get(key, {})
        try:
            named = FILE_KEYS[key].kind.read(tables)
        except Refused as refused:
            document.report.add_refused((key,), refused)
            # What is named is there all the same, for those that refer to it.
            named = (
                {name: {} for name in tables if is_name(name)} if isinstance(tables, dict) else {}
            )
        for name, values in named.items():
            if self._is_new((key, name), document.report):
                yield name, values

    def _is_new(self, path: KeyPath, report: FileReport) -> bool:
        """Tell whether a name is used for the first time; a second time is a fault."""
        owner = self._owners.setdefault(path, report)
        if owner is report:
            return True
        kind, name = str(path[0])[:-1], quoted(path[1])
        message = f"the {kind} {name} is also at {owner.place(path)}"
        report.add(path, message, "give one of them another name")
        return False

    def _scope(self, document: _Document, outer: Scope) -> Scope:
        """Return what the jobs of a file have without saying it themselves."""
        report, table = document.report, document.table or {}
        rest = {
            key: value
            for key, value in table.items()
            if key not in ("pools", "groups", "jobs", "defaults")
        }
        top = read_fields(rest, FILE_KEYS, report.add_refused)
        defaults = table.get("defaults", {})
        if not isinstance(defaults, dict):
            report.add(("defaults",), f"must be a table, not {quoted(defaults)}")
            defaults = {}

        def refuse(below: KeyPath, refused: Refused) -> None:
            report.add_refused(("defaults", *below), refused)

        values = read_fields(defaults, DEFAULTS_KEYS, refuse)
        check_pool(values.get("pool"), self._known_pools(), refuse)
        if "umask" in values:
            check_umask(defaults, report, ("defaults",))
        return scope_within(outer, top.get("timezone"), top.get("env", {}), values, refuse)

    def _read_jobs(self) -> dict[str, Job]:
        """Return the jobs of all files that have no fault."""
        reader = JobReader(self._known_pools(), self._host)
        jobs: dict[str, Job] = {}
        for document in self._documents:
            report = document.report
            lines = job_lines(report.text)
            file = shown(str(report.path))
            for name, table in self._job_tables(document):
                line = lines.get(name) or report.line(("jobs", name))
                job = reader.read(name, table, document.scope, report, f"{file}:{line}")
                if job is not None and is_name(name):
                    jobs[name] = job
                table.clear()  # its room is taken by the jobs that follow
        self._check_chains(jobs)
        return jobs

    def _check_chains(self, jobs: Mapping[str, Job]) -> None:
        """Enter what is wrong with the chains of jobs, where all files could be read."""
        if not all(document.table is not None for document in self._documents):
            return
        owners = {str(path[1]): own for path, own in self._owners.items() if path[0] == "jobs"}

        def refuse(job: str, below: KeyPath, message: str, suggestion: str) -> None:
            owners[job].add(("jobs", job, *below), message, suggestion)

        check_chains(jobs, owners, refuse)

    def _job_tables(self, document: _Document) -> Iterator[tuple[str, Table]]:
        """Yield the jobs of a file that have a name, used once, and a table.

        What is in one whose name is bad has faults of its own, which are told as well.
        """
        report = document.report
        tables = (document.table or {}).get("jobs", {})
        if not isinstance(tables, dict):
            way_out = "write [jobs.NAME], with one pair of brackets, for each job"
            report.add(("jobs",), f"must be a table of tables, not {quoted(tables)}", way_out)
            self._has_entries = True
            return
        for name, table in tables.items():
            self._has_entries = True
            path: KeyPath = ("jobs", name)
            try:
                JOB_NAME.read(name)
            except Refused as refused:
                report.add_refused(path, refused)
            if not isinstance(table, dict):
                report.add_refused(path, not_the("a table", table, f"write [jobs.{name}]"))
            elif self._is_new(path, report):
                yield name, table

    def _refuse_nothing(self) -> None:
        """Enter that there are no jobs, where that is all that is wrong."""
        if self._has_entries or not all(report.is_clean() for report in self._reports):
            return
        if any((document.table or {}).get("jobs") == {} for document in self._documents):
            return  # it says so
        report = self._reports[0]
        what = "has no jobs" if report.text.strip() else "is empty"
        way_out = "add a table [jobs.NAME] with a schedule and a command"
        way_out += "; for submitted tasks alone, [jobs]"
        report.add((), what, way_out)
