"""``python -m crond_py.crontab FILE``: reads a crontab for the daemon, see ``apart``.

It says what it has found on standard output, as ``handover`` has it, and ends.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from crond_py.crontab.loader import load_crontab
from crond_py.crontab.model import Crontab
from crond_py.crontab.sender import send
from crond_py.errors import CrontabError


def main(path: str) -> None:
    """Read the crontab and hand over what came of it."""
    gc.disable()  # all that is made here is needed until the end, and that comes at once
    found: Crontab | CrontabError
    try:
        found = load_crontab(Path(path))
    except CrontabError as error:
        found = error
    with os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as stream:
        send(found, stream)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except BrokenPipeError:  # the daemon was killed, and nobody wants to know any more
        os._exit(1)
    os._exit(0)  # it takes a while to let go of a hundred thousand jobs one by one
