"""``pycron schema``: the JSON Schema of a crontab, for editors."""

from __future__ import annotations

from crond_py.cli import say
from crond_py.crontab.schema import json_schema

EXAMPLES = ("pycron schema > crontab.schema.json",)


def command() -> None:
    """Print the JSON Schema of the crontab, for an editor."""
    say.out_json(json_schema())
