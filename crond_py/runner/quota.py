"""Keeps the outputs of each job within the bytes that its ``keep`` allows.

The oldest go first. Never removed are the output of a run that goes on, one that somebody can
still write to, and that of the job's newest run, however long it is. The rows in the ledger stay.

What no row speaks of goes before all else: an output that was set aside, the beginning of one
that was never finished, and what is left of a ledger that is not used any more, which may have
counted further than this one.

Looking into a directory takes the longer the more there is, so it is done elsewhere (``submit``),
and the less often: after one new run in ``SHARE`` of those that are there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from crond_py.dataclass import dataclass
from crond_py.model import task_id_of
from crond_py.ports import KeptOutputs
from crond_py.runner.holes import has_writer
from crond_py.runner.output import (
    is_aside,
    open_to_read,
    output_directory,
    remove_outputs,
    run_of,
)

SHARE: Final = 20

log = logging.getLogger("pycron.output")


@dataclass(frozen=True, slots=True)
class _File:
    """``orphaned_ns`` is when it was last written to, of a file that no row speaks of."""

    path: str
    run_id: int
    size: int
    inode: int
    orphaned_ns: int | None = None

    @property
    def order(self) -> tuple[bool, int, int, str]:
        """By which files go: one that no row speaks of by its age, others by their run."""
        return (
            self.orphaned_ns is None,
            self.orphaned_ns or 0,
            self.run_id,
            os.path.basename(self.path),
        )


class Quota:
    """Applies ``keep.bytes``. ``note`` is called from one thread and returns at once."""

    def __init__(self, state_dir: Path, submit: Callable[[Callable[[], None]], None]) -> None:
        self._state_dir = state_dir
        self._submit = submit
        self._runs_until_look: dict[str, int] = {}
        self._beyond: dict[str, frozenset[int]] = {}

    def note(self, kept: KeptOutputs) -> None:
        """Note that a run of a job has ended, and have its outputs looked at where it is time.

        Those of tasks lie all together, and are not bounded.
        """
        if task_id_of(kept.job) is not None:
            return
        left = self._runs_until_look.get(kept.job, 1) - 1
        # The look itself, which comes later, says how many runs it is until the next.
        self._runs_until_look[kept.job] = left if left > 0 else SHARE
        if left <= 0:
            # A run has its row before its output: what was there already when this was said, and
            # is of a later run than its newest, is of none that this ledger has.
            beyond = self._beyond.get(kept.job, frozenset())
            self._submit(lambda: self._apply(kept, beyond))

    def _apply(self, kept: KeptOutputs, beyond: frozenset[int]) -> None:
        directory = output_directory(self._state_dir, kept.job)
        try:
            files = _files_in(directory, beyond, kept.newest)
        except FileNotFoundError:
            files = []
        except OSError as error:
            log.warning("cannot look into %s: %s", directory, error.strerror, extra={"fields": {}})
            return
        self._runs_until_look[kept.job] = max(1, len(files) // SHARE)
        self._beyond[kept.job] = frozenset(
            file.inode for file in files if file.run_id > kept.newest
        )
        for fault in remove_outputs(choose(files, kept)):
            log.warning("%s", fault, extra={"fields": {}})


def _files_in(directory: str, beyond: frozenset[int], newest: int) -> list[_File]:
    """Return the files that are there.

    Those of runs after ``newest`` that have an inode of ``beyond`` are an earlier ledger's.
    """
    files = []
    with os.scandir(directory) as entries:
        for entry in entries:
            path = entry.path
            run_id = run_of(path)
            if run_id is None and (not is_aside(path) or _is_written(path)):
                continue  # not ours, or just being made
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed or replaced meanwhile
                continue
            # A hole takes no place; small files may take none but in the directory.
            size = min(found.st_size, found.st_blocks * 512 or found.st_size)
            is_orphaned = run_id is None or (run_id > newest and found.st_ino in beyond)
            orphaned_ns = found.st_mtime_ns if is_orphaned else None
            files.append(_File(path, run_id or 0, size, found.st_ino, orphaned_ns))
    return files


def choose(files: list[_File], kept: KeptOutputs) -> list[str]:
    """Return the files that are to go, the oldest first."""
    excess = sum(file.size for file in files) - kept.most_bytes
    known = [file.run_id for file in files if file.run_id <= kept.newest]
    newest = max(known, default=0)
    chosen = []
    for file in sorted(files, key=lambda file: file.order):
        if excess <= 0:
            break
        is_over = file.run_id < newest and file.run_id not in kept.going_on
        if (is_over or file.orphaned_ns is not None) and not _is_written(file.path):
            chosen.append(file.path)
            excess -= file.size
    return chosen


def _is_written(path: str) -> bool:
    try:
        descriptor = open_to_read(path)
    except OSError:  # gone, or no output of ours: removing it says what there is to say
        return False
    try:
        return bool(has_writer(descriptor))
    finally:
        os.close(descriptor)
