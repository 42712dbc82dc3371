"""Keeps small what the daemon takes: modules it does not use, texts, and the C library's heap.

The modules below are imported by others of the standard library for what is never, or hardly ever,
asked of them here: ``tokenize`` by ``linecache`` for the lines of a traceback, ``inspect`` by
``dataclasses`` for classes without a docstring (from Python 3.12 on for all of them, so there it is
loaded). Together they take a tenth of the daemon's memory. Each is put off until something of it is
used for the first time, and is then as it always is.

Modules of pycron itself are not put off: its files may be another version's by then.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from _thread import allocate_lock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, Final

PUT_OFF: Final = {
    "ast": (),
    "dis": (),
    "inspect": (),
    "locale": (),
    "selectors": ("PollSelector",),
    "tokenize": (),
    "traceback": (),
    "urllib.parse": ("quote_from_bytes",),
}
"""Modules and those of their functions that others take while they are imported themselves.

A class counts as a function where it is only called.
"""

_M_ARENA_MAX: Final = -8  # malloc.h of the GNU C library
_HEAP: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE of object.h
_IMMUTABLE: Final = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE

_lock: Final = allocate_lock()


def put_off_modules() -> None:
    """Have the modules loaded when they are first used; those that are loaded stay as they are."""
    for name, functions in PUT_OFF.items():
        if name not in sys.modules:
            sys.modules[name] = _StandIn(name, functions)


def forget_texts() -> None:
    """Let go of what nobody asks a daemon for: texts of modules and classes, types of arguments.

    What is loaded later keeps its own. The fields of classes keep their types: ``control.codec``
    reads messages by them.
    """
    for thing in gc.get_objects():
        if type(thing) is FunctionType:
            del thing.__annotations__
        elif (type(thing) is ModuleType or _can_be_changed(thing)) and vars(thing).get("__doc__"):
            thing.__doc__ = None


def _can_be_changed(thing: object) -> bool:
    """Tell whether something is a class whose attributes can be set."""
    return isinstance(thing, type) and thing.__flags__ & (_HEAP | _IMMUTABLE) == _HEAP


def keep_one_heap() -> None:
    """Have all threads use one heap of the C library; by default most get one of their own.

    Only one thread at a time runs Python, so they do not stand in one another's way. To be called
    before there are threads. Without the GNU C library nothing is done.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Give the system what the C library's heap holds and does not use, if it can do so."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def collecting_later() -> Iterator[None]:
    """Look for no garbage while what is to last is made, nor among that at any time later.

    To look through a hundred thousand jobs takes longer than a job may start late. What is let go
    of all the same, as by a reload, is freed by its reference count.
    """
    gc.collect()  # what the imports have left
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _StandIn(ModuleType):
    """Stands for a module until something of it is used.

    To be loaded is left to the import system, so several threads may ask at once. Names with two
    underscores are those by which the import system looks at it, and load nothing.
    """

    def __init__(self, name: str, functions: tuple[str, ...]) -> None:
        super().__init__(name)
        for function in functions:
            vars(self)[function] = _calling(self, function)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(_load(self), name)


def _load(stand_in: _StandIn) -> ModuleType:
    with _lock:
        if sys.modules.get(stand_in.__name__) is stand_in:
            del sys.modules[stand_in.__name__]
    module = importlib.import_module(stand_in.__name__)
    for name, value in vars(module).items():
        if not name.startswith("__"):
            vars(stand_in)[name] = value  # who holds the stand-in finds it at once from now on
    return module


def _calling(stand_in: _StandIn, name: str) -> Callable[..., Any]:
    """Return a function that loads the module when it is called."""

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(_load(stand_in), name)(*arguments, **named)

    return call
