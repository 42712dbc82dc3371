"""What befalls the ledger of a daemon at work: another program holds it, its pages are ruined."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.daemon import PATIENCE_S, PROGRAMS


@contextmanager
def locked(ledger: Path) -> Iterator[None]:
    """Hold the ledger as another program does that writes it."""
    with subprocess.Popen(
        [sys.executable, PROGRAMS / "ledger_hold.py", ledger],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "released\n"
        assert holder.wait(PATIENCE_S) == 0


def ruin(ledger: Path, *spared: str) -> None:
    """Overwrite the pages that tables and indexes begin with, but for those named."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as probe:
        probe.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        roots = probe.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage").fetchall()
        (size,) = probe.execute("PRAGMA page_size").fetchone()
        with ledger.open("r+b", buffering=0) as file:
            for name, page in roots:
                if name not in spared:
                    file.seek((page - 1) * size)
                    file.write(b"\xa5" * size)
        # Another program's change makes the daemon read anew what it has in memory.
        probe.execute("UPDATE meta SET created_at = created_at + 1")
