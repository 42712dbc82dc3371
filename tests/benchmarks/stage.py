"""Where a measurement takes place: the directory for its daemons, and who takes its records."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks.peer import Workplace
from tests.benchmarks.records import Recorder


@dataclass(frozen=True, slots=True)
class Stage:
    """Both together, as each measurement needs them."""

    work: Workplace
    recorder: Recorder

    def attempt(self, what: str, step: Callable[[], object]) -> bool:
        """Take a step of a long run: one daemon's failure is a line of the report, not the end."""
        try:
            step()
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            self.recorder.leave_out(what, str(error))
            return False
        return True
