"""Following a run that is alive: shows what it prints as it prints it, until it has its outcome.

Nothing is polled: the kernel tells when a file in the job's output directory changes (inotify(7)),
and the daemon, over the control socket, when the run has ended.
"""

from __future__ import annotations

import codecs
import ctypes
import os
import select
from pathlib import Path
from typing import Final

from crond_py.cli import say
from crond_py.control.client import PATIENCE, Conversation
from crond_py.control.protocol import LONGEST_WAIT, WaitRun
from crond_py.errors import DaemonNotRunningError
from crond_py.model import Run
from crond_py.places import Places
from crond_py.printable import printable
from crond_py.runner.output import output_path

_MODIFIED: Final = 0x002
_MOVED_IN: Final = 0x080
_CREATED: Final = 0x100
_CHUNK_BYTES: Final = 1 << 16
_TAIL_BYTES: Final = 1 << 20


class Watch:
    """Becomes readable when something changes in the nearest directory above ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._checked(
            self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), "inotify_init1"
        )
        self._watched: Path | None = None
        self.renew()

    def fileno(self) -> int:
        """Return the descriptor, which is readable once something has changed."""
        return self._descriptor

    def renew(self) -> None:
        """Forget what has happened, and watch a directory that has come into being since."""
        while True:
            try:
                os.read(self._descriptor, _CHUNK_BYTES)
            except BlockingIOError:
                break
        directory = next(parent for parent in self._path.parents if parent.is_dir())
        if directory != self._watched:
            mask = _MODIFIED | _MOVED_IN | _CREATED
            name = os.fsencode(directory)
            self._checked(
                self._libc.inotify_add_watch(self._descriptor, name, mask), str(directory)
            )
            self._watched = directory
            self.renew()  # its child may have come into being before it was watched

    def close(self) -> None:
        """Watch no more."""
        os.close(self._descriptor)

    def _checked(self, result: int, what: str) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), what)
        return result


class _Reading:
    """Reads the attempts of a run one after the other, as far as they have got."""

    def __init__(self, places: Places, run: Run, *, tail: int | None, is_raw: bool) -> None:
        self._places = places
        self._run = run
        self._is_raw = is_raw
        self._number = run.attempts[-1].number if run.attempts else 1
        self._descriptor: int | None = None
        self._tail = tail
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def path(self) -> Path:
        return self._path(self._number)

    def _path(self, number: int) -> Path:
        return output_path(self._places.state_dir, self._run.job, self._run.id, number)

    def catch_up(self) -> None:
        """Write out all that there is by now."""
        while True:
            # Looked for first: once there is a next attempt, this one's output is complete.
            has_next = self._path(self._number + 1).exists()
            self._read_on()
            if not has_next:
                break
            self._go_on_to(self._number + 1)
        say.flush()

    def _read_on(self) -> None:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
            self._skip_to_tail(self._descriptor)
        while data := os.read(self._descriptor, _CHUNK_BYTES):
            if self._is_raw:
                say.write_bytes(data)
            else:
                say.write(printable(self._decoder.decode(data)))

    def _skip_to_tail(self, descriptor: int) -> None:
        """Start with the last lines that were asked for, as far as they are near the end."""
        if self._tail is None:
            return
        size = os.fstat(descriptor).st_size
        begin = max(0, size - _TAIL_BYTES)
        lines = os.pread(descriptor, size - begin, begin).splitlines(keepends=True)
        wanted = lines[len(lines) - self._tail :] if self._tail < len(lines) else lines
        os.lseek(descriptor, size - sum(map(len, wanted)), os.SEEK_SET)

    def _go_on_to(self, number: int) -> None:
        self.close()
        self._number = number
        self._tail = None
        say.out(f"--- run {self._run.id} of {self._run.job}, attempt {number} ---")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def follow(places: Places, run: Run, *, tail: int | None, is_raw: bool) -> None:
    """Write the run's output until it has its outcome, from its present attempt on."""
    reading = _Reading(places, run, tail=tail, is_raw=is_raw)
    try:
        if run.outcome is None:
            _follow_daemon(places, run, reading)
        reading.catch_up()
    finally:
        reading.close()


def _follow_daemon(places: Places, run: Run, reading: _Reading) -> None:
    """Write what comes until the daemon says that the run has ended, or is gone itself."""
    watch = Watch(reading.path)
    try:
        with Conversation(places.socket) as conversation:
            request = WaitRun(run.id, LONGEST_WAIT)
            conversation.send(request)
            poll = select.poll()
            poll.register(watch, select.POLLIN)
            poll.register(conversation, select.POLLIN)
            while True:
                reading.catch_up()
                ready = {descriptor for descriptor, _ in poll.poll()}
                if conversation.fileno() in ready:
                    if conversation.receive(request, PATIENCE).run is not None:
                        return
                    conversation.send(request)
                if watch.fileno() in ready:
                    watch.renew()
    except DaemonNotRunningError:
        say.note("no daemon is running; this is what there is")
    finally:
        watch.close()
