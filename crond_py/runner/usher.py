"""A small program that starts many jobs at one instant, each by vfork, and ends.

Started by ``ushers`` a little ahead of the instant: Python's interpreter without the site module,
this text, and nothing imported but what is built in. It has one thread and does nothing else, so
neither the daemon's threads nor its size slow the starts, and it can take on a job's user, brand,
directory and umask itself, between one start and the next; no Python runs between fork and exec.

What it starts has no signal ignored. That is why it uses what subprocess does and not posix_spawn:
with that, glibc has the signals 32 and 33 ignored, which it has for its own use.

While it starts a job of another user its real and effective ids are that user's, who could signal
it then: end or stop it. It is not the daemon, which notices and starts the rest in another way.
Its saved id stays its own: so it can go back, and nobody may trace it or read its memory.

It is given two descriptors. From the one it reads what to do, marshalled. To the other, a file in
memory, it writes what became of each start, in a slot of 24 bytes: first a number (0: not begun,
1: begun, then the pid, or FAILED and the errno), then the wall clock's nanoseconds. The byte behind
these is the daemon's: where it is not 0, the start is not made. When the usher ends, its children
become the daemon's, which is their subreaper. Where the daemon has ended, or has written something
behind the slots, it starts nothing more.

It may be given a third, of a file in which it notes that it begins, before it looks whether the
daemon is there: whoever finds that note not made, and the daemon gone, knows that nothing has begun
and will not (see ``letgo``).
"""

import _posixsubprocess
import _signal  # type: ignore[import-not-found]  # signal itself would take longer than all else
import marshal
import posix
import resource
import sys
import time

SLOT_BYTES = 24
WITHDRAWN_AT = 16
"""Where in a slot the daemon has its word."""

BEGUN = 1
FAILED = 1 << 32
NOTED_AHEAD_NS = 1_000_000
"""How long before the instant it notes that it begins, so that this delays no start."""

WAKES_LATE_NS = 150_000
"""For how long it looks at the clock rather than sleep, see ``clock.wait_closely``."""

_LONGEST_FAULT = 4096
_RLIMIT_LOCKS = 10  # asm-generic/resource.h; Python has no name for it
_TO_APPEND = posix.O_WRONLY | posix.O_APPEND | posix.O_NOFOLLOW | posix.O_CLOEXEC


def run(orders: int, slots: int) -> None:  # noqa: C901, PLR0912 - calls cost each start
    """Wait for the instant and start all that is ordered."""
    for descriptor in (orders, slots):
        posix.set_inheritable(descriptor, False)
    daemon, clock, at_ns, starts, note = marshal.loads(_read(orders))  # noqa: S302 - ours
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    fault = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
    null = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
    own = posix.getresuid(), posix.getresgid(), posix.getgroups()
    soft, hard = resource.getrlimit(_RLIMIT_LOCKS)
    behind = len(starts) * SLOT_BYTES
    if note is not None:
        descriptor, place, value = note
        posix.set_inheritable(descriptor, False)
        _wait(clock, at_ns - NOTED_AHEAD_NS, slots, behind)
        if posix.getppid() != daemon or posix.pread(slots, 1, behind):
            return
        posix.pwrite(descriptor, value, place)
        posix.close(descriptor)
    _wait(clock, at_ns, slots, behind)
    for number, (program, argv, env, cwd, umask, output, user, brand) in enumerate(starts):
        if posix.getppid() != daemon or posix.pread(slots, 1, behind):
            return
        place = number * SLOT_BYTES
        if posix.pread(slots, 1, place + WITHDRAWN_AT) != b"\0":
            continue
        posix.pwrite(slots, BEGUN.to_bytes(8, "little"), place)
        stream = null
        try:
            if output is not None:
                stream = posix.open(output, _TO_APPEND)
            _put_brand(soft if brand is None else brand, hard)
            posix.umask(umask)
            try:
                if user is not None:
                    _become(user)
                posix.chdir(cwd)
                pid = _execute(program, argv, env, (null, stream), fault)
            finally:
                if user is not None:
                    _return(*own)
        except OSError as error:
            told = FAILED + (error.errno or 0)
        else:
            told = pid
        now_ns = time.time_ns()  # noqa: TID251 - clock is of the rest of pycron
        posix.pwrite(slots, told.to_bytes(8, "little") + now_ns.to_bytes(8, "little"), place)
        if stream != null:
            posix.close(stream)


def _execute(
    program: bytes,
    argv: list[bytes],
    env: list[bytes],
    streams: tuple[int, int],
    fault: tuple[int, int],
) -> int:
    """Start a program by vfork, as the leader of a session, and return its pid. Raises OSError."""
    null, stream = streams
    arguments = (
        *(argv, [program], False, (), None, env),  # no descriptor is closed, none to be kept
        *(null, -1, -1, stream, -1, stream, *fault),
        *(True, True),  # the signals that Python ignores are not, and it leads a session
        *(-1, None, None, None, -1, None),  # group, ids and umask stay
    )
    try:
        pid = _posixsubprocess.fork_exec(*arguments, True)  # type: ignore[arg-type] # its types lag
    except TypeError:  # newer ones do not ask whether it may be by vfork
        pid = _posixsubprocess.fork_exec(*arguments)  # type: ignore[arg-type, call-arg]
    try:
        told = posix.read(fault[0], _LONGEST_FAULT)
    except BlockingIOError:  # it has executed the program
        return pid
    posix.waitpid(pid, 0)
    raise OSError(int(told.split(b":")[1], 16), "not executed")


def _wait(clock: int, until_ns: int, slots: int, behind: int) -> None:
    remaining_ns = until_ns - time.clock_gettime_ns(clock)
    if remaining_ns <= 0 or posix.pread(slots, 1, behind):
        return
    if remaining_ns > WAKES_LATE_NS:
        time.sleep((remaining_ns - WAKES_LATE_NS) / 1e9)  # noqa: TID251 - all it waits for
    while time.clock_gettime_ns(clock) < until_ns:
        pass


def _put_brand(brand: int, hard: int) -> None:
    try:  # noqa: SIM105 - contextlib takes longer to import than all else
        resource.setrlimit(_RLIMIT_LOCKS, (brand, hard))
    except (OSError, ValueError):  # the hard limit does not allow for it: it goes without
        pass


def _become(user: tuple[int, int, list[int]]) -> None:
    """Take a job's user on, but for the saved ids."""
    uid, gid, groups = user
    posix.setgroups(groups)
    posix.setresgid(gid, gid, -1)
    posix.setresuid(uid, uid, -1)


def _return(uids: tuple[int, int, int], gids: tuple[int, int, int], groups: list[int]) -> None:
    """Be who it was again; else the process ends, since it would start other jobs as this user."""
    try:
        posix.setresuid(*uids)
        posix.setresgid(*gids)
        posix.setgroups(groups)
    except OSError:
        posix._exit(1)  # noqa: SLF001 - os has it from here


def _read(descriptor: int) -> bytes:
    data = b""
    while chunk := posix.read(descriptor, 1 << 20):
        data += chunk
    return data


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
