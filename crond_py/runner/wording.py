"""Texts on their way to the kernel, and the kernel's faults on their way to people."""

from __future__ import annotations

import errno


def cause(error: OSError) -> str:
    """Return the cause with its errno's name: ``no such file or directory (ENOENT)``."""
    text = error.strerror or str(error)
    text = text[:1].lower() + text[1:]
    code = errno.errorcode.get(error.errno or 0)
    return f"{text} ({code})" if code else text


def encode(text: str) -> bytes:
    """Return the bytes of a text of the crontab, which is UTF-8 whatever our locale is."""
    return text.encode("utf-8", "surrogateescape")
