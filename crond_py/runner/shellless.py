"""Tells where a text for the shell can be executed without one, because that does the same.

A shell that runs one simple command looks a program up and executes it, which costs as much as the
start itself, and the shell then waits for the whole life of the job. So a text that has nothing in
it for a shell to do is split here and executed directly: words and quoted texts in plain
characters, and no assignment, expansion, pattern, redirection, builtin or reserved word (see
XCU 2 of POSIX). Whatever is not certain is left to the shell; so is whatever cannot be executed,
so that messages and the statuses 126 and 127 are the shell's own.

A shell is visible to its child in two ways. PWD is in the environment: it is here, too. And the
child leads no session and no process group, while what is executed directly leads both; the one
program for which that matters, setsid(1), which then forks and waits for nothing, is the shell's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from crond_py.ports import ProcessSpec

SHELL: Final = "/bin/sh"
"""The one shell that is done without: what another one does with a text is its own business."""

_PLAIN = r"[A-Za-z0-9_@%+:,./=-]"
_WORD: Final = rf"(?:{_PLAIN}|'[ -&(-~]*'|\"[ !#%-\[\]^_a-z{{|}}~]*\")+"
_SIMPLE: Final = re.compile(rf"[ \t]*{_WORD}(?:[ \t]+{_WORD})*[ \t]*")
_WORDS: Final = re.compile(_WORD)
_PIECES: Final = re.compile(rf"{_PLAIN}+|'[^']*'|\"[^\"]*\"")
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_@+:,./-]+")  # no "=": an assignment; no "%": a job
_LONGEST: Final = 4096  # characters; a longer text is rare and not worth remembering

# Shells that are known to execute, for a name that is none of these, what PATH has for it.
_KNOWN_SHELLS: Final = frozenset({"dash", "bash"})
_RESERVED: Final = frozenset(
    [
        "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
        "if", "in", "select", "then", "time", "until", "while",
    ]
)  # fmt: skip
_BUILTINS: Final = frozenset(
    [
        ".", ":", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "chdir",
        "command", "compgen", "complete", "compopt", "continue", "declare", "dirs",
        "disown", "echo", "enable", "eval", "exec", "exit", "export", "false", "fc", "fg",
        "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout",
        "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly",
        "return", "set", "shift", "shopt", "source", "suspend", "test", "times", "trap",
        "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
    ]
)  # fmt: skip
_LEADS_NOTHING: Final = "setsid"

# What a shell takes from its environment that changes what it does, or that it would set anew.
_HEEDED: Final = frozenset({"BASHOPTS", "ENV", "FPATH", "PWD", "SHELLOPTS"})
_HEEDED_PREFIX: Final = "BASH_"


def without_shell(spec: ProcessSpec, env: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return what the shell would execute for a spec's ``text``, or None: that is its business.

    ``env`` is the whole environment of the process.
    """
    if not spec.text or spec.shell != SHELL or len(spec.text) > _LONGEST:
        return None
    words = split_simple(spec.text)
    if words is None or not _HEEDED.isdisjoint(env):
        return None
    if any(name.startswith(_HEEDED_PREFIX) for name in env):
        return None
    if "/" not in words[0] and not (_is_plain_path(env.get("PATH", "")) and _is_known_shell()):
        return None
    return words


@lru_cache(maxsize=1024)
def split_simple(text: str) -> tuple[str, ...] | None:
    """Return the words of one simple command; None where there is anything else in a text."""
    if not _SIMPLE.fullmatch(text) or _LEADS_NOTHING in text:
        return None
    raw = _WORDS.findall(text)
    name = raw[0]
    if not _PROGRAM.fullmatch(name) or name in _RESERVED or name in _BUILTINS:
        return None
    return tuple("".join(map(_unquoted, _PIECES.findall(word))) for word in raw)


def _unquoted(piece: str) -> str:
    return piece[1:-1] if piece[0] in "'\"" else piece


def physical_directory(cwd: str) -> str:
    """Return what a shell that begins in a directory has as PWD."""
    return os.path.realpath(cwd)


def _is_plain_path(path: str) -> bool:
    """Whether every shell finds the same on a PATH: dash gives ``%`` a meaning."""
    return "%" not in path and all(entry.startswith("/") for entry in path.split(":"))


def _is_known_shell() -> bool:
    try:
        status = os.lstat(SHELL)
    except OSError:
        return False
    return _name_of_shell(status.st_dev, status.st_ino, status.st_mtime_ns) in _KNOWN_SHELLS


@lru_cache(maxsize=4)
def _name_of_shell(_device: int, _inode: int, _mtime_ns: int) -> str:
    """Return the name of the program that is the shell, looked up when that has changed."""
    return Path(os.path.realpath(SHELL)).name
