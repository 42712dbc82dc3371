"""Commands that do what no command should: zoo.py ANIMAL [MARK].

Those that leave processes behind have MARK among these processes' arguments, and write a line to
the FIFO "bell" in the working directory when all are there.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

MARK = sys.argv[2] if len(sys.argv) > 2 else ""
SLEEP = ("sleep", MARK)
"""MARK is a number of seconds that nobody else sleeps for."""


def _ring(word: str = "here") -> None:
    with open("bell", "w") as bell:  # noqa: PTH123 - as short as can be
        bell.write(f"{word}\n")


def _fork_away(argv: tuple[str, ...], env: dict[str, str] | None = None) -> None:
    """Fork twice, with a session of its own, so that the parent of the program is gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvpe(argv[0], argv, os.environ if env is None else env)  # type: ignore[arg-type]
        os._exit(0)
    os.wait()


def setsid() -> None:
    """Wait for a child that has a session of its own."""
    child = subprocess.Popen(SLEEP, start_new_session=True)
    _ring()
    child.wait()


def double_fork() -> None:
    """Go on beside a process that has left by two forks."""
    _fork_away(SLEEP)
    _ring()
    signal.pause()


def without_a_name() -> None:
    """Go on beside a process that has left and has nothing of the run in its environment."""
    _fork_away(SLEEP, {"PATH": os.environ["PATH"]})
    _ring()
    signal.pause()


def deaf() -> None:
    """Ignore SIGTERM, and so does the child."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(SLEEP)
    _ring()
    child.wait()


def herd() -> None:
    """Go on beside two hundred children, every other one of which has a session of its own."""
    for number in range(200):
        subprocess.Popen(SLEEP, start_new_session=number % 2 == 0)
    _ring()
    signal.pause()


def stopped() -> None:
    """Stop, as Ctrl-Z does, with a child that is stopped too."""
    child = subprocess.Popen(SLEEP)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    _ring()
    os.kill(os.getpid(), signal.SIGSTOP)


def leaves_a_herd() -> None:
    """End at once and leave two hundred children."""
    for _ in range(200):
        subprocess.Popen(SLEEP)
    _ring()


def leaves_a_writer() -> None:
    """End at once and leave a child that holds the output open, and writes to it once let go."""
    subprocess.Popen(["sh", "-c", f"echo {MARK} > /dev/null; read x < gate; echo late words"])
    sys.stdout.write("first words\n")
    _ring()


def kills_its_group() -> None:
    """End all of its process group, itself included."""
    subprocess.Popen(SLEEP)
    os.killpg(0, signal.SIGKILL)


def one_line() -> None:
    """Print a gigabyte without a newline."""
    piece = b"x" * (1 << 20)
    for _ in range(1 << 10):
        os.write(1, piece)


def paced_lines() -> None:
    """Print a hundred thousand lines a second for MARK seconds; tell how long it had to wait."""
    begin, held_s = time.monotonic(), 0.0  # noqa: TID251 - a program of its own
    for piece in range(100 * int(MARK)):
        numbers = range(1000 * piece, 1000 * (piece + 1))
        lines = b"".join(b"line %07d of very many\n" % number for number in numbers)
        ahead_s = begin + piece / 100 - time.monotonic()  # noqa: TID251 - likewise
        if ahead_s > 0:
            time.sleep(ahead_s)  # noqa: TID251 - likewise
        written_from = time.monotonic()  # noqa: TID251 - likewise
        while lines:
            lines = lines[os.write(1, lines) :]
        held_s += time.monotonic() - written_from  # noqa: TID251 - likewise
    _ring(f"{held_s:.6f}")


def many_lines() -> None:
    """Print three hundred thousand lines, as fast as can be."""
    piece = b"".join(b"line %05d of all that there are\n" % number for number in range(1000))
    for _ in range(300):
        os.write(1, piece)


def endless_lines() -> None:
    """Print lines, one write for each, until somebody ends it."""
    _ring()
    while True:
        os.write(1, b"one more line of very many that nobody will ever want to read\n")


def closed_output() -> None:
    """Close its output, and say with its status what a further word came to."""
    os.close(1)
    os.close(2)
    try:
        os.write(1, b"x")
    except OSError:
        sys.exit(7)


def ugly() -> None:
    """Print what is no text, or text that drives a terminal."""
    os.write(1, b"\xff\xfe\x00NUL\x00 \x1b]0;title\x07\x1b[2J\x1b[31mred \xe2\x82 \r\x08\x7f end\n")


ANIMALS: dict[str, Callable[[], None]] = {
    animal.__name__: animal
    for animal in (
        setsid, double_fork, without_a_name, deaf, herd, stopped, leaves_a_herd,
        leaves_a_writer, kills_its_group, one_line, many_lines, paced_lines, endless_lines,
        closed_output, ugly,
    )
}  # fmt: skip

if __name__ == "__main__":
    ANIMALS[sys.argv[1]]()
