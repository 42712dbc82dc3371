"""The JSON Schema of a crontab, for editors, made from the tables in ``keys``.

``crontab.schema.json`` is what this module makes; ``python -m crond_py.crontab.schema`` writes it
anew, and a test fails when that was forgotten. The schema knows the shape of a crontab, not what
its expressions, zones and names mean: what it lets pass the loader may still refuse.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from crond_py.crontab.fields import fields_schema
from crond_py.crontab.keys import FILE_KEYS, JOB_KEYS, SCHEDULE_KEYS
from crond_py.crontab.values import JOB_NAME, Schema

SCHEMA_FILE: Final = Path(__file__).with_name("crontab.schema.json")


def json_schema() -> Schema:
    """Return the schema, draft 2020-12, as a new dictionary."""
    top = fields_schema(FILE_KEYS.values())
    top["properties"]["jobs"] = {
        "description": FILE_KEYS["jobs"].doc,
        "type": "object",
        "propertyNames": JOB_NAME.schema(),
        "additionalProperties": {"$ref": "#/$defs/job"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pycron crontab",
        "description": "The jobs that pycron runs, when they are due, and what becomes of them.",
        **top,
        "$defs": {"job": _job_schema()},
    }


def _job_schema() -> Schema:
    """Return the schema of one job: a command and exactly one of the schedule keys."""
    schedules = [key.name for key in SCHEDULE_KEYS.values() if key.is_supported]
    return {
        **fields_schema(JOB_KEYS.values()),
        "required": ["command"],
        "oneOf": [{"required": [name]} for name in schedules],
    }


def schema_text() -> str:
    """Return the schema as the file has it."""
    return json.dumps(json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
