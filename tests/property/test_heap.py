"""The heap of deadlines against the simplest thing that is right: a list that is sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from crond_py.dispatcher import Entry, Timeline

DEADLINES = st.integers(0, 40)


@dataclass(eq=False)
class Expected:
    """An entry of the model; ``number`` is the order of entry."""

    deadline_ns: int
    priority: int
    number: int
    entry: Entry

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among the others."""
        return (self.deadline_ns, -self.priority, self.number)


class HeapAgainstList(RuleBasedStateMachine):
    """Any mixture of entries, cancels and pops gives what the sorted list gives."""

    entered: Bundle[Expected] = Bundle("entered")

    @initialize()
    def begin(self) -> None:
        """Begin with nothing."""
        self.timeline = Timeline()
        self.waiting: list[Expected] = []
        self.number = 0

    @rule(target=entered, deadline_ns=DEADLINES, priority=st.integers(-2, 2))
    def push(self, deadline_ns: int, priority: int) -> Expected:
        """Enter one."""
        self.number += 1
        entry = self.timeline.push(deadline_ns, self.number, priority=priority)
        expected = Expected(deadline_ns, priority, self.number, entry)
        self.waiting.append(expected)
        return expected

    @rule(expected=entered)
    def cancel(self, expected: Expected) -> None:
        """Take one back, that may be gone already."""
        was_waiting = expected in self.waiting
        assert self.timeline.cancel(expected.entry) is was_waiting
        if was_waiting:
            self.waiting.remove(expected)

    @rule(count=st.integers(1, 300), deadline_ns=DEADLINES)
    def push_and_cancel_many(self, count: int, deadline_ns: int) -> None:
        """Enter many and take all of them back, so that the heap is built anew."""
        entries = [self.timeline.push(deadline_ns, object()) for _ in range(count)]
        self.number += count
        assert all(self.timeline.cancel(entry) for entry in entries)

    @rule(now_ns=DEADLINES)
    def pop_due(self, now_ns: int) -> None:
        """Take out what is due."""
        due = sorted((e for e in self.waiting if e.deadline_ns <= now_ns), key=lambda e: e.place)
        self.waiting = [e for e in self.waiting if e not in due]
        assert self.timeline.pop_due(now_ns) == [e.number for e in due]

    @rule()
    def pop_first(self) -> None:
        """Take out the first, due or not."""
        first = min(self.waiting, key=lambda e: e.place, default=None)
        if first is not None:
            self.waiting.remove(first)
        expected = None if first is None else first.number
        assert cast("int | None", self.timeline.pop_first()) == expected

    @rule()
    def look(self) -> None:
        """Ask for the earliest deadline."""
        expected = min((e.deadline_ns for e in self.waiting), default=None)
        assert self.timeline.next_deadline() == expected

    @invariant()
    def counts_the_waiting_ones(self) -> None:
        """Count what waits; see that what was cancelled does not fill the heap."""
        assert len(self.timeline) == len(self.waiting)
        stubs = self.timeline.heap_size - len(self.waiting)
        assert stubs <= max(64, len(self.waiting))


TestHeap = HeapAgainstList.TestCase
TestHeap.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
