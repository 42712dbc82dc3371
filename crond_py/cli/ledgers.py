"""The ledger as commands see it: read only, and perhaps not there yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from crond_py.places import Places
from crond_py.ports import LedgerReader


@contextmanager
def reading(places: Places) -> Iterator[LedgerReader | None]:
    """Give the ledger, or None where no daemon has begun one. Raises LedgerError."""
    with suppress(PermissionError):  # told when it is opened
        if not places.ledger.exists():
            yield None
            return
    # Only a command that reads a ledger has to load SQLite.
    from crond_py.ledger.sqlite import open_reader  # noqa: PLC0415

    reader = open_reader(places.ledger)
    try:
        yield reader
    finally:
        reader.close()
