"""SHA-256 from the interpreter's own module, where it has it.

``hashlib`` takes it from OpenSSL, whose library alone is four megabytes of the daemon's memory. Of
the interpreter's modules the names differ: ``_sha2`` from Python 3.12 on, ``_sha256`` before it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def sha256(data: bytes) -> bytes:
    """Return the 32 bytes of the SHA-256 (FIPS 180-4) of ``data``."""
    digest: bytes = _sha256(data).digest()
    return digest


def _find() -> Any:
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            return import_module(name).sha256
        except ImportError:
            continue
    message = "this Python has no SHA-256"
    raise ImportError(message)


_sha256 = _find()
