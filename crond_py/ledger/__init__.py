"""The ledger: where every run is kept.

A ledger holds runs with their attempts, and one cursor a job. Its interface is ``ports.Ledger``;
what that promises is held by one suite, ``tests/conformance``, that runs against every ledger.

- ``sqlite``: the real one. ``SqliteLedger`` writes, ``open_reader`` looks on from any process.
- ``memory``: the same in memory, which can be made to fail and to crash. For tests.
- ``lock``: who may write. One daemon to a state directory.
- ``database``, ``reader``, ``records``, ``queries.sql``, ``migrations/``: what ``sqlite`` is made
  of: files and errors, asking, rows to and from the model's words, the statements, the tables.

The file is in SQLite's WAL mode, in which readers never wait for the writer nor it for them. A
durable write returns once the log is on the disk (``synchronous = FULL``). Another one is in the
kernel's hands when it returns (``NORMAL``): it outlives a kill, and a power cut may undo it; but
the log is one file and is read from its beginning, so a durable write takes everything before it
along. An error leaves nothing half written and the connection in use.
"""
