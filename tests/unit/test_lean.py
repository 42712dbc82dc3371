"""What the daemon's process does without, and that it has it all the same once it is needed."""

from __future__ import annotations

import dis
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any
from zoneinfo import TZPATH

import pytest

import crond_py
from crond_py import lean
from crond_py.lean import _UNTRIED, PUT_OFF

LOAD = """
import json, sys
from crond_py.lean import put_off_modules, _StandIn
put_off_modules()
import crond_py.service
def is_loaded(name):
    return name in sys.modules and not isinstance(sys.modules[name], _StandIn)
"""


def told(program: str) -> Any:
    """Run a program after what the daemon imports, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-P", "-c", f"{LOAD}{program}"],
        env={**os.environ, "PYTHONTZPATH": os.pathsep.join(TZPATH)},  # as ``pycron run`` does
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_nothing_that_is_put_off_is_loaded_by_the_imports() -> None:
    """Neither are other modules that a daemon has no use for."""
    modules = set(told("print(json.dumps([name for name in sys.modules if is_loaded(name)]))"))
    put_off = set(PUT_OFF)
    if sys.version_info >= (3, 12):  # there dataclasses uses inspect for every class
        put_off -= {"ast", "dis", "inspect"}
    assert not modules & put_off
    idle = {"asyncio", "hashlib", "_hashlib", "ssl", "tempfile", "shutil", "bz2", "lzma", "pickle",
            "email", "ipaddress", "argparse", "tomli", "tomllib", "croniter",
            "crond_py.crontab.loader", "multiprocessing", "http", "typer", "rich", "pydantic",
            "uuid", "secrets", "random"}  # fmt: skip
    assert not modules & idle
    assert ("typing" in modules) == (sys.version_info >= _UNTRIED)


USES = {
    "ast": "import ast; answer = ast.literal_eval('[1]') == [1]",
    "concurrent.futures": """
from concurrent.futures import Future
future = Future(); future.set_result(7)
answer = future.result(0) == 7
""",
    "dis": "import dis; answer = len(list(dis.get_instructions(is_loaded))) > 3",
    "inspect": "from inspect import signature; answer = str(signature(is_loaded)) == '(name)'",
    "locale": "import locale; answer = bool(locale.getpreferredencoding(False))",
    "ntpath": "import ntpath; answer = ntpath.splitdrive('c:a') == ('c:', 'a')",
    "selectors": """
import subprocess
with subprocess._PopenSelector() as selector:
    answer = selector.register(0, 1).fd == 0
""",
    "sysconfig": "import sysconfig; answer = sysconfig.get_python_version() in sys.version",
    "tokenize": """
import linecache
answer = 'composition root' in linecache.getline(crond_py.service.__file__, 1)
""",
    "traceback": """
import io, logging
stream = io.StringIO()
logging.getLogger("x").addHandler(logging.StreamHandler(stream))
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("x").exception("oh")
answer = "ZeroDivisionError: division by zero" in stream.getvalue()
""",
    "urllib.parse": """
from pathlib import Path
answer = Path("/a b").as_uri() == "file:///a%20b"
""",
}


@pytest.mark.parametrize("name", PUT_OFF)
def test_what_was_put_off_is_there_when_it_is_used(name: str) -> None:
    """It is loaded then, and does what it always does; who holds the stand-in has it too."""
    held = (
        f"stand_in = sys.modules[{name!r}]\n{USES[name]}\nassert is_loaded({name!r})\n"
        "print(json.dumps(answer))\n"
        f"real = sys.modules[{name!r}]\n"
        "public = [each for each in vars(real) if not each.startswith('_')]\n"
        "assert all(getattr(stand_in, each) is getattr(real, each) for each in public)\n"
    )
    assert told(held) is True


def test_several_threads_may_load_a_module_at_once() -> None:
    """Each has the one module, whole."""
    race = """
import threading
stand_in, found, gate = sys.modules["inspect"], [], threading.Barrier(8)
def use():
    gate.wait()
    found.append(stand_in.signature)
threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
import inspect
print(json.dumps([len(found), all(each is inspect.signature for each in found)]))
"""
    assert told(race) == [8, True]


@pytest.mark.skipif(sys.version_info >= _UNTRIED, reason="it is not put off there")
def test_typing_is_whole_for_whoever_asks_for_more_of_it() -> None:
    """The stand-in has only what classes need; for anything else it is the module itself."""
    program = """
import typing as before
assert not is_loaded("typing")
from typing import get_type_hints
import typing
print(json.dumps([is_loaded("typing"), before.get_type_hints is typing.get_type_hints,
                  before.Protocol is typing.Protocol]))
"""
    assert told(program) == [True, True, True]


def test_what_is_loaded_already_stays_as_it_is() -> None:
    """The command line and the tests, which have these modules, are left alone."""
    program = """
import ast
before = sys.modules["ast"]
put_off_modules()
print(json.dumps(sys.modules["ast"] is before and ast.parse("1") is not None))
"""
    assert told(program) is True


def test_a_name_that_a_module_has_not_is_an_attribute_error() -> None:
    """As always; names with two underscores load nothing."""
    program = """
import tokenize
outcome = [hasattr(tokenize, "__nothing__"), is_loaded("tokenize")]
outcome += [hasattr(tokenize, "nothing"), is_loaded("tokenize")]
print(json.dumps(outcome))
"""
    assert told(program) == [False, False, False, True]


def test_what_a_daemon_is_not_asked_for_is_let_go_of() -> None:
    """Texts and the types of arguments; what messages are read by is still there."""
    program = """
from crond_py import lean
from crond_py.control import codec, protocol
lean.forget_texts()
texts = [crond_py.service.__doc__, crond_py.service.Service.__doc__]
types = crond_py.service.Service.run.__annotations__
sent = codec.to_json(protocol.Reloaded(added=("a",), removed=(), changed=(), unchanged=2))
print(json.dumps([texts, types, codec.from_json(protocol.Reloaded, sent).added]))
"""
    assert told(program) == [[None, None], {}, ["a"]]


def test_texts_are_left_out_of_what_is_loaded() -> None:
    """Modules that are loaded then have none in functions either; later ones have them."""
    program = """
from crond_py import lean
lean.leave_texts_out()
import crond_py.crontab.intervals as terse
lean.forget_texts()
import crond_py.crontab.chains as wordy
import inspect
texts = [terse.can_jitter.__doc__, terse.__doc__, terse.can_jitter.__annotations__]
print(json.dumps([texts, inspect.signature(terse.refined).parameters["key"].name,
                  wordy.check_chains.__doc__[:6], lean._Terse in sys.meta_path]))
"""
    assert told(program) == [[None, None, {}], "key", "Refuse", False]


def test_a_text_that_is_left_out_has_no_other_use() -> None:
    """No function of pycron, or of what it is given here, uses its text as a value (dis)."""
    sources = [path.read_text("utf-8") for path in Path(crond_py.__file__).parent.rglob("*.py")]
    odd = """
def twice():
    'twice'
    return 'twice'
lone = lambda: 'text'
def inner():
    return [f'{each}!' for each in 'words']
"""
    found = [code for source in sources for code in codes(compile(source, "it", "exec"))]
    assert sum(map(lean._has_text, found)) > 1000
    assert not [code.co_qualname for code in found if lean._has_text(code) and uses_first(code)]
    assert [code.co_qualname for code in codes(compile(odd, "it", "exec")) if uses_first(code)]
    names: dict[str, Any] = {}
    exec(lean.without_texts(compile(odd, "it", "exec")), names)
    assert names["lone"]() == "text"
    assert names["inner"]()[0] == "w!"


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code objects of functions within a code object, down to the last."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from codes(each)


def uses_first(code: CodeType) -> bool:
    """Tell whether a function loads its first constant, and that is text."""
    loads = [step.arg for step in dis.get_instructions(code) if step.opcode in dis.hasconst]
    return 0 in loads and isinstance(code.co_consts[0], str)


def test_all_threads_share_one_heap() -> None:
    """A thread that allocates makes no arena of the C library (malloc_info tells how many)."""
    program = """
import ctypes, os, re, threading
from crond_py import lean
libc = ctypes.CDLL(None)
if not hasattr(libc, "malloc_info"):
    print(json.dumps("no GNU C library")); sys.exit()
lean.keep_one_heap()
def work():
    b"".join([b"x" * 600 for _ in range(100)])
threads = [threading.Thread(target=work) for _ in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
lean.give_back_memory()
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(b"/dev/stderr", b"w"))
libc.malloc_info(0, stream); libc.fflush(stream)
print(json.dumps("done"))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{LOAD}{program}"], capture_output=True, text=True, check=True
    )
    if json.loads(done.stdout) != "done":
        pytest.skip("there is no malloc_info here")
    assert done.stderr.count("<heap nr=") == 1
