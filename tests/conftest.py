"""What all tests share: how hypothesis behaves here, their order, and which program is tested."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections import Counter
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

LONG = {"cli", "docs", "e2e", "process", "property", "simulation"}
"""Directories whose tests take seconds; those of the others take next to nothing."""

SHARE_OF_LONG = 0.75


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix the tests of all directories, where several processes take one after the other.

    Those of one directory mostly wait, those of another mostly compute: beside one another they
    take the least time. Each directory is spread evenly, but the long tests end sooner: at the end
    there are short ones for all, and nobody is left with a long one.
    """
    if not hasattr(config, "workerinput"):
        return  # alone, file by file: what a file shares is made once
    here = Path(__file__).parent
    names = [item.path.relative_to(here).parts[0] for item in items]
    totals, seen = Counter(names), Counter[str]()
    places = []
    for name in names:
        places.append(seen[name] / totals[name] * (SHARE_OF_LONG if name in LONG else 1))
        seen[name] += 1
    items[:] = [items[n] for n in sorted(range(len(items)), key=places.__getitem__)]


@pytest.fixture(scope="session")
def pycron_command() -> tuple[str, ...]:
    """Return the program under test; PYCRON names another one, such as an installed wheel's."""
    given = os.environ.get("PYCRON", "")
    return tuple(shlex.split(given)) or (str(Path(sys.executable).with_name("pycron")),)
