"""The ledger as commands see it: read only, and perhaps not there yet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from crond_py.cli import say
from crond_py.errors import LedgerError
from crond_py.places import Places, way_in
from crond_py.ports import LedgerReader

_LACKS = (
    "the newest records are not shown: {ledger} could not be written, so they are in the journal "
    "beside it; the daemon copies them once it can be, a stopped one with its next start"
)


@contextmanager
def reading(places: Places, *, tells_lack: bool = False) -> Iterator[LedgerReader | None]:
    """Give the ledger, or None where no daemon has begun one. Raises LedgerError.

    ``tells_lack``: what it has not yet taken of what a daemon has recorded is told of.
    """
    if not _is_there(places):
        yield None
        return
    # Only a command that reads a ledger has to load SQLite.
    from crond_py.ledger.sqlite import open_reader  # noqa: PLC0415

    reader = open_reader(places.ledger)
    try:
        if tells_lack and reader.has_kept_aside():
            say.note(_LACKS.format(ledger=places.ledger))
        yield reader
    finally:
        reader.close()


def _is_there(places: Places) -> bool:
    """Tell whether there is a ledger. Raises LedgerError where this user may not read it."""
    may_be_read = False
    try:
        places.ledger.stat()
        may_be_read = os.access(places.ledger, os.R_OK, effective_ids=True)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        pass
    except OSError:
        return True  # told when it is opened
    if not may_be_read:
        raise LedgerError(
            f"you may not read the ledger {places.ledger}; {way_in(places.state_dir)}"
        )
    return True
