"""Calls that come after ends: each once, in order, and none held up by another or by a look."""

from __future__ import annotations

from datetime import timedelta

import pytest

from crond_py.runner.aftercalls import AfterCalls
from tests.support.clock import FakeClock


def test_what_was_put_is_called_in_order_though_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    """P8: a fault of one call loses none behind it."""
    made: list[int] = []
    calls = AfterCalls(FakeClock())
    for call in (lambda: made.append(1), lambda: 1 // 0, lambda: made.append(2)):
        calls.put(call)
    taken = calls.take()
    assert calls.take() == []
    calls.make(taken)
    assert made == [1, 2]
    assert "ZeroDivisionError" in caplog.text


def test_a_look_outlives_what_it_calls(caplog: pytest.LogCaptureFixture) -> None:
    """P8: by a fault of it no end is lost, nor is it called again."""
    clock = FakeClock()
    calls = AfterCalls(clock)
    look = calls.wait_for_look(lambda: 1 // 0)
    look()
    clock.advance(timedelta(milliseconds=200))
    calls.make([])
    assert caplog.text.count("ZeroDivisionError") == 1


@pytest.mark.parametrize("is_looked", [True, False], ids=["after the look", "overdue"])
def test_what_waits_for_a_look_is_called_once(is_looked: bool) -> None:
    """P4: by the look, or a fifth of a second later at most."""
    clock, made = FakeClock(), list[str]()
    calls = AfterCalls(clock)
    assert calls.patience_s() is None
    look = calls.wait_for_look(lambda: made.append("called"))
    assert calls.patience_s() == pytest.approx(0.2)
    calls.make([])
    assert made == []
    if is_looked:
        look()
        assert calls.patience_s() is None
    clock.advance(timedelta(milliseconds=200))
    calls.make([])
    look()
    assert made == ["called"]
