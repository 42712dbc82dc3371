"""The descriptors of the standard streams, which may have been closed when we began."""

from __future__ import annotations

import os


def occupy_standard_descriptors() -> None:
    """Put /dev/null where standard input, output or error was closed when the process began.

    Otherwise the next file to be opened, the ledger say, would get the number of standard error,
    and all that somebody writes there.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is taken, so this is the one that is missing.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
