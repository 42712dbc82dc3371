"""Keeps small what the daemon takes: modules it does not use, texts, and the C library's heap.

The modules below are imported by others of the standard library for what is never, or hardly ever,
asked of them here: ``ntpath`` by ``pathlib`` for paths of Windows, ``tokenize`` by ``linecache``
for the lines of a traceback, ``sysconfig`` by ``zoneinfo`` for where zones are (which ``pycron
run`` tells), ``inspect`` by ``dataclasses`` for classes without a docstring (from Python 3.12 on
for all of them, so there it is loaded). Together they take a tenth of the daemon's memory. Each is
put off until something of it is used for the first time, and is then as it always is.

For ``typing``, which all ask for names that mean nothing to a daemon, there is ``untyped``.

Modules of pycron itself are not put off: its files may be another version's by then.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType, ModuleType

from crond_py import untyped

TYPE_CHECKING = False  # that of typing would load it
if TYPE_CHECKING:
    from typing import Any, Final

PUT_OFF: Final = {
    "ast": (),
    "concurrent.futures": ("Future",),
    "dis": (),
    "inspect": (),
    "locale": (),
    "ntpath": (),
    "selectors": ("PollSelector",),
    "sysconfig": (),
    "tokenize": (),
    "traceback": (),
    "urllib.parse": ("quote_from_bytes",),
}
"""Modules and those of their functions that others take while they are imported themselves.

A class counts as a function where it is only called.
"""

_UNTRIED: Final = (3, 14)
"""From here on nobody has tried what the making of classes asks ``typing`` for."""

_M_ARENA_MAX: Final = -8  # malloc.h of the GNU C library
_HEAP: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE of object.h
_IMMUTABLE: Final = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_FUNCTION: Final = 0x3  # CO_OPTIMIZED | CO_NEWLOCALS of code.h
_HAS_DOCSTRING: Final = 0x4000000  # CO_HAS_DOCSTRING, the same

_lock: Final = allocate_lock()


def put_off_modules() -> None:
    """Have the modules loaded when they are first used; those that are loaded stay as they are."""
    for name, functions in PUT_OFF.items():
        if name not in sys.modules:
            sys.modules[name] = _StandIn(name, functions)
    if "typing" not in sys.modules and sys.version_info < _UNTRIED:
        typing = sys.modules["typing"] = _StandIn("typing", ())
        vars(typing).update(untyped.names())


def leave_texts_out() -> None:
    """Have modules of pycron that are loaded from now on let go of their texts at once.

    What ``forget_texts`` lets go of later leaves holes in the heap, few of which are filled again.
    """
    sys.meta_path.insert(0, _Terse)


def forget_texts() -> None:
    """Let go of what nobody asks a daemon for: texts of modules and classes, types of arguments.

    What is loaded later keeps its own. The fields of classes keep their types: ``control.codec``
    reads messages by them.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not _Terse]
    for thing in gc.get_objects():
        if type(thing) is FunctionType:
            del thing.__annotations__
        elif (type(thing) is ModuleType or _can_be_changed(thing)) and vars(thing).get("__doc__"):
            thing.__doc__ = None


class _Terse(SourceFileLoader):
    """Finds and loads modules of pycron, and nothing of them that only people read."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the import system would find, with this as its loader."""
        if not name.startswith(f"{__package__}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = cls(spec.loader.name, spec.loader.path)
        return spec

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module, its functions without their texts."""
        code = super().get_code(fullname)
        return None if code is None else without_texts(code)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and have its functions let go of the types of their arguments."""
        super().exec_module(module)
        _forget_types(module, module.__name__)


def without_texts(code: CodeType) -> CodeType:
    """Return code as it is, but for the texts of the functions in it."""
    constants = [
        without_texts(each) if isinstance(each, CodeType) else each for each in code.co_consts
    ]
    if _has_text(code):
        constants[0] = None
    return code.replace(co_consts=tuple(constants)) if constants else code


def _has_text(code: CodeType) -> bool:
    """Tell whether the first constant is the text of a function, and has no other use.

    The compiler puts it there. From Python 3.14 on a flag says so; before, each function has one
    or None, and what is none (a lambda, a comprehension) has a name in brackets.
    """
    if not code.co_consts or not isinstance(code.co_consts[0], str):
        return False
    if sys.version_info >= (3, 14):
        return bool(code.co_flags & _HAS_DOCSTRING)
    return code.co_flags & _FUNCTION == _FUNCTION and not code.co_name.startswith("<")


def _forget_types(of: ModuleType | type, module: str) -> None:
    """Let go of the types of arguments of what is defined in a module, or a class of it."""
    for thing in list(vars(of).values()):
        if isinstance(thing, type):
            if thing.__module__ == module and of is sys.modules[module]:
                _forget_types(thing, module)
            continue
        called = thing.fget if isinstance(thing, property) else thing
        function = getattr(called, "__func__", called)  # of a class method
        if type(function) is FunctionType and function.__module__ == module:
            del function.__annotations__


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
