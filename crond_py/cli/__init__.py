"""The command line. What it does is done elsewhere; here it is asked for and shown.

``app`` names the commands and is the boundary where errors become sentences and exit codes;
each command is a module of its own, imported only when it is asked for, because ``pycron next``
is to answer at once. ``options`` has what several commands take, ``render`` how tables look,
``records`` what ``--json`` prints, ``times`` how people write and read instants, ``when`` where the
time that a command is given ends and the command to be run begins.

Exit codes: 0 done, 1 a general failure, 2 a request that makes no sense as put, 3 no daemon is
running, 78 the crontab is refused, 130 interrupted; ``exec`` leaves with that of the command, or
124, 126 or 127 as a shell and timeout(1) do.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the program ``pycron`` with the arguments of this process, and exit."""
    if sys.argv[1:2] == ["run"]:
        # A hangup means "read the crontab again", also to a daemon that has hardly begun: it is
        # kept until the service, which inherits that, has its own handler.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # An interrupt ends what has not begun. As a KeyboardInterrupt it can be lost: in a
            # callback of the import system, or with this program when the service takes its place.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    from crond_py.cli.app import run_app  # noqa: PLC0415 - nothing may come before the signal

    sys.exit(run_app(sys.argv[1:]))
