"""The records of a run: one JSON line each, from which the table can be made again."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass(slots=True)
class Recorder:
    """Takes records; tells about each on standard error, and writes it to a file where wanted."""

    out: Path | None = None
    records: list[Record] = field(default_factory=list)

    def add(self, measure: str, who: str, **values: Any) -> None:
        """Take what was measured of somebody."""
        self._take({"measure": measure, "who": who, **values})

    def leave_out(self, what: str, why: str) -> None:
        """Take what could not be measured."""
        self._take({"measure": "left out", "who": what, "why": why})

    def _take(self, record: Record) -> None:
        self.records.append(record)
        line = json.dumps(record)
        if self.out is not None:
            with self.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        sys.stderr.write(_for_people(record) + "\n")
        sys.stderr.flush()


def _for_people(record: Record) -> str:
    shown = [
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in record.items()
        if key not in {"measure", "who"} and value is not None
    ]
    return " ".join([f"{record['measure']}, {record['who']}:", *shown])


def read_records(file: Path) -> list[Record]:
    """Return the records of a file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]
