"""Whatever is in a file, loading it gives a crontab or its faults, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crond_py.crontab.keys import FILE_KEYS, JOB_KEYS
from crond_py.crontab.loader import load_crontab
from crond_py.crontab.tables import KEEP_KEYS, LIMITS_KEYS, RETRY_KEYS
from crond_py.errors import CrontabError

EXAMPLES = [
    path.read_bytes() for path in sorted((Path(__file__).parents[3] / "examples").rglob("*.toml"))
]
in_one_directory = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(path: Path, data: bytes) -> None:
    """Load bytes; what comes out must be whole, or faults that a terminal can show."""
    path.write_bytes(data)
    lines = data.count(b"\n") + 1
    try:
        crontab = load_crontab(path, hostname="here")
    except CrontabError as error:
        faults = error.faults
        assert faults
    else:
        assert crontab.jobs or b"jobs" in data
        return
    for fault in faults:
        assert 0 <= fault.line <= lines
        assert fault.message
        assert str(fault).isprintable()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the crontab is written, over and over."""
    return tmp_path / "crontab.toml"


@in_one_directory
@given(data=st.binary(max_size=200))
@example(b"\xef\xbb\xbf")
@example(b"a = 0x" + b"f" * 10_000)
@example(b"[jobs.a]\nqueue_limit = 0x" + b"f" * 10_000)
@example(b"[jobs.a]\nretry.backoff = 0x" + b"f" * 10_000)
@example(b"[jobs.a]\nat = 0001-01-01T00:00:00+23:59")
@example(b"[jobs.a]\nat = 9999-12-31T23:59:59.999999-23:59")
def test_any_bytes(path: Path, data: bytes) -> None:
    """P7: no bytes do more than be refused."""
    check(path, data)


PIECES = [
    b"", b"\n", b'"', b"'", b'"""', b"[", b"]", b"{", b"}", b"=", b",", b".", b"#", b"\\", b"\x00",
    b"\xff", b"\r", b"0", b"-1", b"true", b"nan", b"inf", b"1e400", b"2026-02-29", b'"@every"',
    b'"0s"', b"[[jobs]]\n", b"[jobs.x]\n", b"\x1b[2J", "é".encode(), "\u202e".encode(),
]  # fmt: skip


@in_one_directory
@given(
    data=st.sampled_from(EXAMPLES),
    edits=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 40), st.sampled_from(PIECES)),
        min_size=1,
        max_size=4,
    ),
)
def test_examples_with_mistakes(
    path: Path, data: bytes, edits: list[tuple[float, int, bytes]]
) -> None:
    """P7: slips of the hand in a real crontab do no more than be refused."""
    for where, length, piece in edits:
        start = int(where * len(data))
        data = data[:start] + piece + data[start + length :]
    check(path, data)


odd_text = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "5s",
            "0s",
            "10M",
            "4.5K",
            "none",
            "/x",
            "* * * * *",
            "@daily",
            "UTC",
            "a",
            "\x00",
            "\x1b[2J",
            "é" * 200,
        ]
    ),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12),
)
odd_values = st.recursive(
    st.one_of(
        st.integers(-(10**30), 10**30),
        st.floats(),
        st.booleans(),
        st.datetimes(),
        st.dates(),
        st.times(),
        odd_text,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(odd_text, st.sampled_from([*RETRY_KEYS, *KEEP_KEYS, *LIMITS_KEYS, "file"])),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=5,
)
odd_jobs = st.dictionaries(
    st.one_of(st.sampled_from(list(JOB_KEYS)), odd_text), odd_values, max_size=6
)
odd_crontabs = st.fixed_dictionaries(
    {"jobs": st.dictionaries(odd_text, st.one_of(odd_jobs, odd_values), max_size=3)},
    optional={name: st.one_of(odd_values, odd_jobs) for name in FILE_KEYS if name != "jobs"},
)


@in_one_directory
@given(document=odd_crontabs)
def test_any_value_of_any_key(path: Path, document: dict[str, Any]) -> None:
    """P7: no value of any type in any place does more than be refused."""
    check(path, tomli_w.dumps(document).encode())
