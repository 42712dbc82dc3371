"""The ledger as commands see it: read only, and perhaps not there yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from crond_py.cli import say
from crond_py.places import Places
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
    with suppress(PermissionError):  # told when it is opened
        if not places.ledger.exists():
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
