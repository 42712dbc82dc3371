"""What a log record is about, for all who log. How it is shown is the business of ``logs``."""

from __future__ import annotations

from typing import Any


def fields(**values: object) -> dict[str, Any]:
    """Return the ``extra`` of a log record; values that are None are left out."""
    return {"fields": {name: value for name, value in values.items() if value is not None}}
