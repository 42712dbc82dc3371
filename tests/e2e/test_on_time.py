"""Jobs run at their time, each occurrence once."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta

from tests.support.daemon import Daemon, Event, assert_accounted, begun

# Each may outlast its second on a busy machine, and the daemon may come late: neither is at issue.
EACH_SECOND = """
[jobs.cron]
schedule = "* * * * * *"
command = 'sh "$STAMP" ran'
overlap = "allow"
missed = "all"

[jobs.beat]
every = "1s"
command = 'sh "$STAMP" ran'
overlap = "allow"
missed = "all"
"""

A_SECOND = timedelta(seconds=1)


def test_each_second_once(daemon: Daemon) -> None:
    """A job due each second runs once for each, not before it; so does an interval (P1, P2, P4).

    The job itself says when it ran and for which instant; how late it was is printed only.
    """
    log = daemon.start(EACH_SECOND)
    log.wait("run succeeded", job="cron", count=10)
    log.wait("run succeeded", job="beat", count=10)
    daemon.stop()
    for job in ("cron", "beat"):
        rows = daemon.history(job)
        assert_accounted(rows, A_SECOND)
        stamps = daemon.stamps(job)
        assert sorted(stamp.due for stamp in stamps) == _dues(begun(rows))
        assert all(stamp.at >= stamp.due for stamp in stamps)
        late = sorted(stamp.at - stamp.due for stamp in stamps)
        sys.stdout.write(f"{job}: {late[len(late) // 2]} late in the middle, {late[-1]} at most\n")
    assert all(stamp.due.microsecond == 0 for stamp in daemon.stamps("cron"))
    # An interval counts from the start, which is hardly ever on a whole second.
    assert len({stamp.due.microsecond for stamp in daemon.stamps("beat")}) == 1


def _dues(rows: list[Event]) -> list[datetime]:
    return [datetime.fromisoformat(row["due"]) for row in rows]
