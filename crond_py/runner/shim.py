"""A tiny program between pycron and a job: sets what only a process itself can set, and executes.

Resource limits cannot be set from outside without a moment in which they do not hold, and nothing
may run between fork and exec in a daemon of many threads. So a job with ``limits`` or ``nice``
begins as this: Python's interpreter without the site module, this text, and nothing imported but
what is built in, because a start waits for it. It is executed by ``spawn``, as root where the
daemon is root's, and knows nothing of the rest of pycron.

It is given two descriptors. From the one it reads what to do, marshalled. To the other it writes
one byte before it executes the job, or the stage at which it failed and the errno; both are closed
by the execution. Of its own environment nothing reaches the job.

The order matters: limits may be raised and the nice value lowered only by root, so before the
user is changed; a directory is entered as the user; and the address space is limited at the very
end, since the interpreter itself may be larger than the job is allowed to be.
"""

import _signal  # type: ignore[import-not-found]  # signal itself would take longer than all else
import marshal
import posix
import resource
import sys

_READY = b"\0"
_ROOM_BYTES = 8 << 20


def run(orders: int, report: int) -> None:
    """Do as the orders say; returns only where that has failed, after it has been reported."""
    stage = "read"
    try:
        for descriptor in (orders, report):
            posix.set_inheritable(descriptor, False)
        (nice, limits, user, cwd, program, argv, env) = marshal.loads(_read(orders))  # noqa: S302 - ours
        # Python ignores these two, and what is ignored stays so across an exec.
        _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
        _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
        if nice is not None:
            stage = "nice"
            posix.setpriority(posix.PRIO_PROCESS, 0, nice)
        for stage, number, value in limits:  # noqa: B007 - it says where an error was
            _limit(number, value)
        if user is not None:
            stage = "user"
            uid, gid, groups = user
            posix.setgroups(groups)
            posix.setresgid(gid, gid, gid)
            posix.setresuid(uid, uid, uid)
        stage = "cwd"
        posix.chdir(cwd)
        posix.write(report, _READY)
        room = bytes(_ROOM_BYTES)  # freed at once: what execve needs is then there to be had
        del room
        room = bytes(_ROOM_BYTES // 2)
        del room
        for stage, number, value in limits:  # noqa: B007 - it says where an error was
            if number == resource.RLIMIT_AS:
                resource.setrlimit(number, (value, value))
        stage = "exec"
        posix.execve(program, argv, env)
    except OSError as error:
        _report(report, stage, error.errno or 0)
    except (ValueError, OverflowError):  # the resource module: EPERM, a number too large
        _report(report, stage, 1)
    except MemoryError:
        _report(report, stage, 12)


def _read(descriptor: int) -> bytes:
    data = b""
    while chunk := posix.read(descriptor, 1 << 20):
        data += chunk
    return data


def _limit(number: int, value: int) -> None:
    """Set a limit; that of the address space only as far as it has to be done by root."""
    if number != resource.RLIMIT_AS:
        resource.setrlimit(number, (value, value))
        return
    soft, hard = resource.getrlimit(number)
    if hard != resource.RLIM_INFINITY and value > hard:
        resource.setrlimit(number, (soft, value))


def _report(report: int, stage: str, code: int) -> None:
    posix.write(report, b"%s:%d" % (stage.encode(), code))


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
    sys.exit(1)
