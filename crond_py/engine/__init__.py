"""The engine: the state machine that turns due instants into accounted runs.

How an occurrence goes through it::

    heap --TimersFired--> inbox --batch--> Core.handle
                                            |  agenda: which job, on time or missed?
                                            |  admission: start, queue, replace or skip? (policy)
                                            v
                                          outbox: claims and other writes, ONE transaction
                                            |  committed, durable
                                            v
                                          runner.start --Started/Ended--> inbox --> ...

States of a run: QUEUED (behind a predecessor of its job, or for a slot of its pool), RUNNING (an
attempt has begun), WAITING_RETRY, DONE with an outcome.

What holds, whatever happens:

1. Nothing starts before its claim, with the attempt's number, is durable (``outbox``). A crash at
   any point leaves either no row, and the occurrence is missed, or a row, and it is never claimed
   again: (job, era, due) is unique in the ledger.
2. The claim and the job's cursor are one transaction, so no occurrence falls between them.
3. With ``skip``, ``queue`` and ``replace`` at most one run of a job is active: one that has a
   slot, waits for one, has a process, or waits for a retry. What still runs after a restart is
   adopted first, be it the process that was started or only others that it has left.
4. A slot is held from the beginning of an attempt to its end, never while waiting.
5. An occurrence that nothing stands in the way of is claimed ten milliseconds ahead, so that the
   disk does not delay it; one of many of an instant earlier, by how many they are (``ahead``). The
   runner has it then and makes ready what it needs; its process never starts before its instant.
   What a stop recalls before it was started is left to the next daemon, which does with it what it
   does with what was missed. So it is with many of an instant where a crash comes before that: the
   runner notes when it lets them go (``letgo``), and what it has not has surely not begun.
6. Deadlines of wall-clock instants come from one held clock difference (``timekeeper``); when the
   clock is set, all are derived again. Elapsed time never looks at the wall clock.
7. That an attempt is being ended, and as what, is durable before the first signal, if that can be
   had: a restart goes on with it, and neither runs it again nor takes its end for another.
8. A run that follows others is claimed in the transaction in which the last of them gets its
   outcome. Whatever has an outcome has it once, and what follows from it is made once.

When neither the ledger nor its journal can be written, writes and what waits for them are kept in
order and tried again each second; ends of processes are noted meanwhile, and nothing starts
unrecorded. When a schedule
cannot be followed, that job alone is disabled and named by ``pycron status``.

The modules: ``core`` (batches of events in, one flush out), ``gathering`` (how long a batch waits
for more), ``agenda`` (when), ``ahead`` (how much before that), ``admission`` (whether),
``starting`` (from a slot to a process), ``attempts`` (from the end of an attempt to the outcome),
``stopping`` (ended early), ``signals`` (noted, then sent), ``recovery`` (what an earlier daemon
left), ``recalled`` (and had not started), ``forgotten`` (what its ledger has lost of that),
``chains``, ``cycles``, ``eras``, ``stretches`` and ``by_hand`` (what follows what), ``rows`` (the
ledger, and what waits to be written), ``pools``, ``lines`` and ``shares`` (slots, and whose turn it
is), ``tasks``, ``lanes``, ``feeding``, ``uptake``, ``attendance``, ``presence`` and ``task_ends``
(what was handed in: which are due, how many at a time, of which lane next, to runs, what was missed
or merely waits, who waits for its end), ``parking`` and ``parked`` (which of their retries wait in
the ledger alone), ``retention``, ``outbox`` (record first, then act), ``timekeeper``, ``lag`` (how
late), ``records`` and ``events`` (the data), ``parts`` (what they share), ``telling`` (the log),
``status`` and ``view`` (what is told to others), ``thread`` (the loop around it).
"""
