"""Where outputs lie that a ledger has recorded: in its own state directory, nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from crond_py.launch import own_outputs
from crond_py.runner.output import output_path

STATE = Path("/here/state")


@pytest.mark.parametrize(
    "job", ["backup", "with space/and slash", ".hidden", "..", "ü" * 100, "task:17"]
)
@pytest.mark.parametrize("then", ["/here/state", "/elsewhere/state", "relative", "/"])
def test_what_was_recorded_elsewhere_lies_here(job: str, then: str) -> None:
    """A state directory that was copied or moved has its outputs where it is now."""
    recorded = str(output_path(Path(then), job, 7, 2))
    assert own_outputs(STATE, [recorded]) == [str(output_path(STATE, job, 7, 2))]


@pytest.mark.parametrize(
    "recorded",
    [
        "",
        "/",
        "1-1.log",
        "/1-1.log",
        "/etc/passwd",
        "/here/state/ledger.sqlite",
        "/here/state/output/backup",
        "/here/state/output/../1-1.log",
        "/here/state/output/./1-1.log",
        "/here/state/output/backup/1-1.log/",
        "/here/state/output/backup/..",
        "/here/state/output/backup/1-1.log.new",
    ],
)
def test_what_is_no_output_lies_nowhere(recorded: str) -> None:
    """P9: whatever a ledger has, nothing but an output is ever removed for it."""
    assert own_outputs(STATE, [recorded]) == []
