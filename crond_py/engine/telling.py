"""How the engine writes its log: an event in words, and what it is about as fields."""

from __future__ import annotations

import logging
from datetime import timedelta

from crond_py.schedule import format_duration

log = logging.getLogger("pycron.engine")

INTERNAL_FAULT = "an error inside pycron, see the daemon's log"
"""What is said of something that could not be done, where the log has the traceback."""


def fields(**values: object) -> dict[str, object]:
    """Return the ``extra`` of a log record; values that are None are left out."""
    return {"fields": {name: value for name, value in values.items() if value is not None}}


def tell(level: int, message: str, job: str, **values: object) -> None:
    """Log one event of a job; values that are None are left out."""
    log.log(level, message, extra=fields(job=job, **values))


def short(span: timedelta | None) -> str:
    """Return a span as a person would write it."""
    return format_duration(span) if span is not None else ""
