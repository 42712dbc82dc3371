"""Runs the jobs of a JSON file by APScheduler 3, each in a thread of a pool."""

import json
import logging
import subprocess
import sys
from pathlib import Path

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.cron import CronTrigger

logging.basicConfig(level=logging.WARNING)
scheduler = BlockingScheduler(
    executors={"default": ThreadPoolExecutor(256)},
    job_defaults={"misfire_grace_time": None, "coalesce": True},
)
for name, fields, command in json.loads(Path(sys.argv[1]).read_text()):
    second, minute, hour, day, month, weekday = fields.split()
    trigger = CronTrigger(
        second=second, minute=minute, hour=hour, day=day, month=month, day_of_week=weekday
    )
    scheduler.add_job(subprocess.call, trigger, args=[command], kwargs={"shell": True}, id=name)
scheduler.start()
