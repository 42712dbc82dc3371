"""Runs commands of pycron in this process, where a start of the program would prove no more.

A start takes a quarter of a second of the processor, most commands some milliseconds. All is as in
a process of its own from the arguments to the exit code, but for the streams, which are no files.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from crond_py.cli.app import run_app

OWN_PROGRAM = (str(Path(sys.executable).with_name("pycron")),)
"""The program of these sources; another one, such as an installed wheel's, can only be started."""


def run_in_place(
    arguments: Sequence[str], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command with nothing but ``env`` in its environment; return what a start would."""
    out, complaint = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, env, clear=True),
        redirect_stdout(out),
        redirect_stderr(complaint),
    ):
        code = run_app(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), complaint.getvalue())
