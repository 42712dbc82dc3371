"""Percent-encoding, beside that of urllib."""

from __future__ import annotations

from urllib.parse import quote_from_bytes

from hypothesis import given
from hypothesis import strategies as st

from crond_py.percent import percent_encode


@given(st.binary(), st.sampled_from([b"", b"/", b"/:"]))
def test_it_is_what_urllib_makes(raw: bytes, safe: bytes) -> None:
    """For all bytes, whatever is to be left as it is."""
    assert percent_encode(raw, safe=safe) == quote_from_bytes(raw, safe=safe)
