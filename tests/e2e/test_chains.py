"""Jobs that follow others, with the real daemon."""

from __future__ import annotations

from tests.support.daemon import Daemon

CHAIN = """
[jobs.head]
schedule = "*/2 * * * * *"
command = 'sh "$STAMP" begin; sleep 0.3; sh "$STAMP" end'

[jobs.left]
after = ["head"]
command = 'sh "$STAMP" begin'

[jobs.right]
after = ["head"]
command = 'sh "$STAMP" begin; exit 3'

[jobs.end]
after = { left = "success", right = "failure" }
command = 'sh "$STAMP" begin; test -n "$PYCRON_DUE"'

[jobs.never]
after = ["right"]
command = 'sh "$STAMP" begin'
"""


def test_a_cycle_goes_down_the_chain(daemon: Daemon) -> None:
    """P1, P2: each cycle has one row of each job, with one due instant, also across a kill -9."""
    log = daemon.start(CHAIN)
    log.wait("run succeeded", job="end", count=2)
    daemon.kill()
    log = daemon.start(CHAIN)
    log.wait("run succeeded", job="end", count=2)
    daemon.write(CHAIN.replace("[jobs.head]", "[jobs.head]\nenabled = false"))
    daemon.cli("reload")
    daemon.settle()
    daemon.stop()
    head = {row["due"]: row for row in daemon.history("head")}
    for job in ("left", "right", "end", "never"):
        rows = daemon.history(job)
        assert len({row["due"] for row in rows}) == len(rows)
        assert {row["due"] for row in rows} == set(head)
        assert all(row["outcome"] for row in rows)
    assert {row["outcome"] for row in daemon.history("never")} == {"skipped"}
    assert not daemon.stamps("never")
    for row in daemon.history("never"):
        assert row["reason"].startswith("upstream_failed: right ")
    started = daemon.stamps("end")
    assert len({stamp.due for stamp in started}) == len(started) >= 4
