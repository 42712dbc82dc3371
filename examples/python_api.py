"""The scheduler in a program of your own: plain callables, run at their time on a few threads.

python examples/python_api.py
"""

import logging
from datetime import UTC, datetime, timedelta

from crond_py import Retry, Scheduler

log = logging.getLogger("example")

attempts: list[int] = []


def greet(name: str) -> None:
    """Say hello."""
    log.info("hello, %s", name)


def fetch() -> str:
    """Fail the first time, as things on a network do."""
    attempts.append(1)
    if len(attempts) == 1:
        raise ConnectionError("nobody answers")
    return "the data"


def main() -> None:
    """Schedule one task of each kind, and wait for those that come soon."""
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)5d ms  %(message)s")
    with Scheduler(workers=4) as scheduler:
        # After a while, in seconds or as a timedelta.
        scheduler.schedule_after(0.2, greet, "once")

        # At a time: an aware datetime follows the wall clock, also when that is set.
        scheduler.schedule(datetime.now(UTC) + timedelta(seconds=0.3), greet, "on time")

        # Again and again, without drift. A turn that the run before outlasts is skipped.
        ticks = scheduler.schedule_every(0.1, greet, "again", first=0)

        # By the calendar, in a time zone, with the rules of the crontab when clocks change.
        nightly = scheduler.schedule_cron("30 2 * * *", greet, "night", timezone="Europe/Berlin")
        log.info("the next night's run is due at %s", nightly.next_due)

        # Once more if it fails; what it raised is logged with its traceback.
        retry = Retry(attempts=3, delay=timedelta(seconds=0.1))
        task = scheduler.schedule_after(0, fetch, retry=retry)
        task.wait()
        log.info("fetched %s after %d attempts", task.last_result, len(attempts))

        ticks.wait(runs=5)
        ticks.cancel()
        log.info("%d ticks, and the scheduler drops what is still to come", ticks.runs)


if __name__ == "__main__":
    main()
