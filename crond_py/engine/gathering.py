"""For how long an end waits for others, so that what follows from several is done at once.

Where runs wait for a slot of a pool, the starts that follow from the ends of others are committed,
and handed to the runner, several at a time: as many as come in the time that the last commit took.
Whatever else there is to do is done at once, and what has come before it; what may follow in
another pool too.
"""

from __future__ import annotations

from collections import Counter

from crond_py.crontab.model import Job
from crond_py.engine.chains import Chains
from crond_py.engine.parts import Parts, Register
from crond_py.ports import Ended, Started

LONGEST_NS = 10_000_000
"""For how long at most ends are gathered."""


class Gathering:
    """Says which batches of events are to grow, by how long it takes to deal with one."""

    def __init__(self, parts: Parts, register: Register, chains: Chains) -> None:
        self._timekeeper = parts.timekeeper
        self._register = register
        self._chains = chains
        self._begun_ns = 0
        self._took_ns = 0
        self._since_ns = 0
        self._must_go = False
        self._ended: Counter[str] = Counter()

    def begin(self) -> None:
        """Note that a batch is dealt with from now on."""
        self._begun_ns = self._timekeeper.reading()

    def note_commit(self) -> None:
        """Note that the batch was committed, and is to survive a power cut."""
        self._took_ns = self._timekeeper.reading() - self._begun_ns

    def open(self) -> None:
        """Note that the first event of the next batch has come."""
        self._since_ns = self._timekeeper.reading()
        self._must_go = False
        self._ended.clear()

    def patience_s(self, event: object) -> float:
        """Return for how many seconds yet other ends are to join the batch that an event came to.

        Once there is something in it that must not wait, or no other end can come, that is none.
        """
        if isinstance(event, Started):  # does not wait by itself, but with others
            return 0.0
        if not self._must_go:
            self._must_go = not self._may_wait(event)
        if self._must_go:
            return 0.0
        left_ns = self._since_ns + min(self._took_ns, LONGEST_NS) - self._timekeeper.reading()
        return max(0, left_ns) / 1e9

    def _may_wait(self, event: object) -> bool:
        active = self._register.current(event.key) if isinstance(event, Ended) else None
        if active is None or self._register.is_stopping:
            return False
        slots = self._register.slots(active.job)
        self._ended[slots.pool.name] += 1
        is_last = self._ended[slots.pool.name] >= slots.taken
        return slots.is_crowded and not is_last and not self._is_awaited_elsewhere(active.job)

    def _is_awaited_elsewhere(self, job: Job) -> bool:
        """Whether an end of a job's run may let one of another pool begin."""
        bound = self._register.shares.ceiling(job)
        return bound is not None or self._chains.is_followed(job.name)
