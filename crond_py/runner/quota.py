"""Keeps the outputs of each job within the bytes that its ``keep`` allows.

The oldest go first. Never removed are the output of a run that goes on, one that somebody can
still write to, and that of the job's newest run, however long it is. The rows in the ledger stay.

Looking into a directory takes the longer the more there is, so it is done elsewhere (``submit``),
and the less often: after one new run in ``SHARE`` of those that are there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crond_py.ports import KeptOutputs
from crond_py.runner.holes import has_writer
from crond_py.runner.output import open_to_read, output_path, remove_outputs, run_of

SHARE: Final = 20

log = logging.getLogger("pycron.output")


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    run_id: int
    size: int


class Quota:
    """Applies ``keep.bytes``. ``note`` is called from one thread and returns at once."""

    def __init__(self, state_dir: Path, submit: Callable[[Callable[[], None]], None]) -> None:
        self._state_dir = state_dir
        self._submit = submit
        self._runs_until_look: dict[str, int] = {}

    def note(self, kept: KeptOutputs) -> None:
        """Note that a run of a job has ended, and have its outputs looked at where it is time."""
        left = self._runs_until_look.get(kept.job, 1) - 1
        # The look itself, which comes later, says how many runs it is until the next.
        self._runs_until_look[kept.job] = left if left > 0 else SHARE
        if left <= 0:
            self._submit(lambda: self._apply(kept))

    def _apply(self, kept: KeptOutputs) -> None:
        directory = output_path(self._state_dir, kept.job, 0, 0).parent
        try:
            files = _files_in(directory)
        except FileNotFoundError:
            files = []
        except OSError as error:
            log.warning("cannot look into %s: %s", directory, error.strerror, extra={"fields": {}})
            return
        self._runs_until_look[kept.job] = max(1, len(files) // SHARE)
        for fault in remove_outputs(choose(files, kept)):
            log.warning("%s", fault, extra={"fields": {}})


def _files_in(directory: Path) -> list[_File]:
    files = []
    with os.scandir(directory) as entries:
        for entry in entries:
            path = Path(entry.path)
            run_id = run_of(path)
            if run_id is None:
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed or replaced meanwhile
                continue
            # A hole takes no place; small files may take none but in the directory.
            size = min(found.st_size, found.st_blocks * 512 or found.st_size)
            files.append(_File(path, run_id, size))
    return files


def choose(files: list[_File], kept: KeptOutputs) -> list[Path]:
    """Return the files that are to go, the oldest first."""
    excess = sum(file.size for file in files) - kept.most_bytes
    newest = max((file.run_id for file in files), default=0)
    chosen = []
    for file in sorted(files, key=lambda file: (file.run_id, file.path.name)):
        if excess <= 0:
            break
        is_over = file.run_id < min(newest, kept.newest + 1) and file.run_id not in kept.going_on
        if is_over and not _is_written(file.path):
            chosen.append(file.path)
            excess -= file.size
    return chosen


def _is_written(path: Path) -> bool:
    try:
        descriptor = open_to_read(path)
    except OSError:  # gone, or no output of ours: removing it says what there is to say
        return False
    try:
        return bool(has_writer(descriptor))
    finally:
        os.close(descriptor)
