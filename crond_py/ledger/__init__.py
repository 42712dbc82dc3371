"""The ledger: where every run is kept.

A ledger holds runs with their attempts, one cursor a job, and the tasks that were handed in. Its
interface is ``ports.Ledger``; what that promises is held by one suite, ``tests/conformance``, that
runs against every ledger.

- ``journaled``: the daemon's. ``JournaledLedger`` is ``sqlite``, and while that takes nothing
  (locked, no room, damaged, deleted) ``aside``: the ``journal`` takes the writes, and ``memory``
  answers, for tasks with ``moved``. ``opening.open_ledger`` makes it; ``answering`` passes
  questions on.
- ``sqlite``: the file. ``SqliteLedger`` writes, ``open_reader`` looks on from any process.
- ``memory``: the same in memory, which can also be made to fail and to crash, for tests; its
  tasks are in ``memorytasks``.
- ``lock``: who may write. One daemon to a state directory.
- ``salvage``, ``rescue``, ``spare``, ``known``: what is carried over from a damaged file to a fresh
  one, read from it (tasks apart), from a copy beside it, or known to the daemon.
- ``mark``: beside the file, what it must know; so it shows when its newest records are lost.
- ``steps``: writes as rows, for the file and the journal alike; ``changes``, ``tasklists``,
  ``undo``: for memory.
- ``database``, ``reader``, ``tasks``, ``tasktables``, ``records``, ``queries.sql``,
  ``migrations/``: what ``sqlite`` is made of: files and errors, asking (for tasks apart), writing
  tasks, rows to and from the model's words, the statements, the tables.

The file is in SQLite's WAL mode, in which readers never wait for the writer nor it for them. A
durable write returns once the log is on the disk (``synchronous = FULL``). Another one is in the
kernel's hands when it returns (``NORMAL``): it outlives a kill, and a power cut may undo it; but
the log is one file and is read from its beginning, so a durable write takes everything before it
along. An error leaves nothing half written and the connection in use.

What holds in trouble, too: a claim is durable, in the file or in the journal, before anybody acts
on it; an occurrence has one run; a run keeps its number. The file knows the number of the
journal's last record that it has, so none is copied twice, however often a daemon is killed.

SQLite takes a log that was damaged or deleted for one that ended there, and an old copy of the file
for the file. A start finds out by the mark, says it, and has a ``gap``: ids go on behind all that
may have been given, and the engine enters as lost, and never runs again, what may have run.
"""
