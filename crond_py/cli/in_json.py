"""Faults of a task that was written as JSON: what the daemon says in TOML, put into JSON."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from typing import Final

from crond_py.errors import Fault

_TABLE: Final = re.compile(r"\{ [^{}]* \}")
_SETTING: Final = re.compile(r"\b([a-z_]+) = (?=[\"{\[])")
_WHAT_WAS_SAID: Final = ", not "


def in_json(fault: Fault) -> Fault:
    """Return the fault with its examples in JSON; what it quotes of the task stays as it is."""
    message, mark, said = fault.message.partition(_WHAT_WAS_SAID)
    said = "null" if said == "None" else said  # text stands in quotes
    return replace(
        fault, message=_rewritten(message) + mark + said, suggestion=_rewritten(fault.suggestion)
    )


def _rewritten(text: str) -> str:
    return _SETTING.sub(r'"\1": ', _TABLE.sub(_table, text))


def _table(found: re.Match[str]) -> str:
    try:
        return json.dumps(tomllib.loads(f"table = {found[0]}")["table"])
    except (tomllib.TOMLDecodeError, TypeError):  # it is none, or has what JSON has not
        return found[0]
