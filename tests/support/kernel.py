"""What the kernel that the tests run on can do."""

from __future__ import annotations

import platform

_VERSION = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])

TELLS_EXITS = _VERSION >= (6, 15)
"""Whether a pidfd tells how a process has ended that is not ours (PIDFD_INFO_EXIT)."""
