"""Crontabs of a test: written, loaded, and their faults as lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from crond_py.crontab.loader import load_crontab
from crond_py.crontab.model import Crontab
from crond_py.errors import CrontabError

HOST = "alpha.example.org"


def load(path: Path, text: str, **drop_ins: str) -> Crontab:
    """Write a crontab and its drop-ins, and load them on the host ``HOST``."""
    path.write_text(text, encoding="utf-8")
    directory = path.with_suffix(".d")
    directory.mkdir(exist_ok=True)
    for name, drop_in in drop_ins.items():
        (directory / f"{name}.toml").write_text(drop_in, encoding="utf-8")
    return load_crontab(path, hostname=HOST)


def faults(path: Path, text: str, **drop_ins: str) -> list[str]:
    """Load what has faults, and return them as lines without the directory."""
    with pytest.raises(CrontabError) as caught:
        load(path, text, **drop_ins)
    return [str(fault).replace(f"{path.parent}/", "") for fault in caught.value.faults]
