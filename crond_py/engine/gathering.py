"""For how long an end waits for others, so that what follows from several is done at once.

Where runs wait for a slot of a pool, the starts that follow from the ends of others are committed,
and handed to the runner, several at a time: as many as come in the time that the last commit took.
Whatever else there is to do is done at once, what may follow in another pool too.
"""

from __future__ import annotations

from collections.abc import Sequence

from crond_py.crontab.model import Job
from crond_py.engine.chains import Chains
from crond_py.engine.parts import Parts, Register
from crond_py.ports import Ended

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

    @property
    def now_ns(self) -> int:
        """What the monotonic clock shows."""
        return self._timekeeper.reading()

    def begin(self) -> None:
        """Note that a batch is dealt with from now on."""
        self._begun_ns = self.now_ns

    def note_commit(self) -> None:
        """Note that the batch was committed, and is to survive a power cut."""
        self._took_ns = self.now_ns - self._begun_ns

    def patience_s(self, batch: Sequence[object], since_ns: int) -> float:
        """Return for how many seconds yet other ends are to join what has come since an instant.

        That is one of the monotonic clock. Once no other end can come there is nothing to wait for.
        """
        newest = batch[-1]
        active = self._register.current(newest.key) if isinstance(newest, Ended) else None
        if active is None or self._register.is_stopping:
            return 0.0
        slots = self._register.slots(active.job)
        is_all = sum(type(event) is Ended for event in batch) >= slots.taken
        if is_all or not slots.is_crowded or self._is_awaited_elsewhere(active.job):
            return 0.0
        return (since_ns + min(self._took_ns, LONGEST_NS) - self.now_ns) / 1e9

    def _is_awaited_elsewhere(self, job: Job) -> bool:
        """Whether an end of a job's run may let one of another pool begin."""
        bound = self._register.shares.of(job).group.max_running
        return bound is not None or self._chains.is_followed(job.name)
