"""Runs the jobs of a JSON file by APScheduler 4, as tasks of asyncio."""

import asyncio
import json
import logging
import sys
from pathlib import Path

from apscheduler import AsyncScheduler
from apscheduler.triggers.cron import CronTrigger

logging.basicConfig(level=logging.WARNING)
AT_ONCE = 1000


async def run(command: str) -> None:
    """Run a command to its end."""
    process = await asyncio.create_subprocess_shell(command)
    await process.wait()


async def main() -> None:
    """Enter the jobs and run them."""
    jobs = json.loads(Path(sys.argv[1]).read_text())
    async with AsyncScheduler(max_concurrent_jobs=AT_ONCE) as scheduler:
        await scheduler.configure_task("run", func=run, max_running_jobs=AT_ONCE)
        for name, fields, command in jobs:
            second, minute, hour, day, month, weekday = fields.split()
            trigger = CronTrigger(
                second=second, minute=minute, hour=hour, day=day, month=month, day_of_week=weekday
            )
            await scheduler.add_schedule("run", trigger, args=[command], id=name)
        await scheduler.run_until_stopped()


asyncio.run(main())
