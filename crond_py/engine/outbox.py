"""Collects what one batch of events wants written, commits it at once, then acts.

Record first, then act: an effect (starting a process, answering a caller) is handed in together
with the writes that must be in the ledger before it happens. Where the ledger can't be written,
both are kept in order and tried again later; nothing is lost and nothing runs unrecorded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from crond_py.engine.rows import Unwritten
from crond_py.errors import LedgerError
from crond_py.ports import Claim, Ledger, SetAttempt, SetRun, Write

ClaimTaken = Callable[[int | None], None]
Effect = Callable[[], None]


class NotWrittenError(LedgerError):
    """What was handed in could not be written; it is still there."""


class Outbox:
    """The engine's writes and the effects that wait for them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._writes: list[Write] = []
        self._takers: list[ClaimTaken] = []
        self._effects: list[Effect] = []
        self._urgent: list[Effect] = []
        self._ready: deque[Effect] = deque()
        self._unwritten: Unwritten | None = None
        self._is_durable = False

    @property
    def is_empty(self) -> bool:
        """Whether everything has been written and done."""
        waiting = (self._writes, self._effects, self._urgent, self._ready)
        return not any(waiting)

    @property
    def has_work(self) -> bool:
        """Whether something is to be done that waits for no write."""
        return bool(self._ready)

    @property
    def is_durable(self) -> bool:
        """Whether something waits to be written that is to survive a power cut."""
        return self._is_durable

    @property
    def unwritten(self) -> Unwritten:
        """What waits to be written, by the rows that it will make."""
        if self._unwritten is None:
            self._unwritten = Unwritten()
        self._unwritten.catch_up(self._writes)
        return self._unwritten

    def claim(self, claim: Claim, then: ClaimTaken) -> None:
        """Enter a run; ``then`` gets its id once that is durable, None if it was refused."""
        self._writes.append(claim)
        self._takers.append(then)
        self._is_durable = True

    def is_about(self, run_id: int) -> bool:
        """Whether something of a run waits to be written."""
        return any(
            isinstance(each, SetRun | SetAttempt) and each.run_id == run_id for each in self._writes
        )

    def write(self, *writes: Write, durable: bool = False) -> None:
        """Write something that a restart could find out by itself, unless ``durable``."""
        self._writes.extend(writes)
        self._is_durable = self._is_durable or durable

    def then(self, effect: Effect) -> None:
        """Do something once all that was written so far is in the ledger."""
        self._effects.append(effect)

    def after_these(self, effect: Effect) -> None:
        """Do something after all that is just about to be done; called by one of these effects."""
        self._ready.append(effect)

    def then_in_any_case(self, effect: Effect) -> None:
        """Do something once all so far is in the ledger, or as soon as that cannot be had."""
        self._urgent.append(effect)

    def act_unwritten(self) -> None:
        """Do what is to be done in any case, while the ledger is not asked."""
        self._ready.extend(self._urgent)
        self._urgent = []
        self._act()

    def flush(self) -> None:
        """Commit and act, also on what the effects themselves hand in.

        Raises NotWrittenError where the ledger can't be written; everything is then still here.
        What an effect raises comes through, and those behind it are left for the next flush.
        """
        self._act()
        while self._writes or self._effects or self._urgent:
            try:
                ids = self._commit()
            except LedgerError as error:
                self.act_unwritten()
                raise NotWrittenError(str(error)) from error
            self._ready.extend(map(partial, self._takers, ids))
            self._ready.extend([*self._effects, *self._urgent])
            self._writes, self._takers, self._effects, self._urgent = [], [], [], []
            self._unwritten = None
            self._is_durable = False
            self._act()

    def _commit(self) -> list[int | None]:
        if not self._writes:
            return []
        return self._ledger.write(self._writes, durable=self._is_durable)

    def _act(self) -> None:
        while self._ready:
            self._ready.popleft()()
