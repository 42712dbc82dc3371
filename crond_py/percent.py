"""Percent-encoding (RFC 3986, 2.1), without urllib, which the daemon needs for nothing else."""

from __future__ import annotations

from typing import Final

_UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
)


def percent_encode(raw: bytes, *, safe: bytes = b"") -> str:
    """Return ``raw`` as text of the unreserved characters (RFC 3986, 2.3) and those of ``safe``."""
    kept = _UNRESERVED.union(safe)
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in raw)
