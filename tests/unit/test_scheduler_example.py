"""The example of the Python API works as it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "python_api.py"


def test_the_example_runs() -> None:
    """A person who tries the example sees each kind of task run, and the program ends."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for words in ("hello, once", "hello, on time", "hello, again", "fetched the data after 2"):
        assert words in done.stderr
