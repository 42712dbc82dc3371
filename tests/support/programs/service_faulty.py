"""Be a daemon whose engine has a fault when a process has ended: OPTIONS of the service."""

import sys

from crond_py import service
from crond_py.engine.core import Core
from crond_py.ports import Ended

real = Core.handle


def handle(core, batch):  # type: ignore[no-untyped-def]
    """Fail when a process has ended."""
    if any(isinstance(event, Ended) for event in batch):
        raise MemoryError("planted")
    real(core, batch)


Core.handle = handle  # type: ignore[method-assign]
sys.exit(service.main(sys.argv[1:]))
