"""Note each SIGTERM and SIGCONT as a line of OUT until GATE is opened: OUT GATE READY."""

import signal
import sys
from pathlib import Path

out, gate, ready = map(Path, sys.argv[1:])


def note(number: int, _frame: object) -> None:
    """Write the signal's name down."""
    with out.open("a") as file:
        file.write(signal.Signals(number).name + "\n")


signal.signal(signal.SIGTERM, note)
signal.signal(signal.SIGCONT, note)
ready.write_text("up\n")
gate.read_text()
