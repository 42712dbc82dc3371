"""What all tests share: how hypothesis behaves here, and which program is under test."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A deadline would make tests depend on the machine's speed, and so would a limit on drawing.
settings.register_profile("pycron", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pycron")

# A script that has put the tests into the background has them ignore these two, and with them all
# that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def pycron_command() -> tuple[str, ...]:
    """Return the program under test; PYCRON names another one, such as an installed wheel's."""
    given = os.environ.get("PYCRON", "")
    return tuple(shlex.split(given)) or (str(Path(sys.executable).with_name("pycron")),)
