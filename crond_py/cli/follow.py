"""Following a run that is alive: shows what it prints as it prints it, until it has its outcome.

Nothing is polled: the kernel tells when a file in the job's output directory changes (inotify(7)),
and the daemon, over the control socket, when the run has ended. A daemon that goes away is waited
for: the kernel tells when something happens in its state directory, too.
"""

from __future__ import annotations

import codecs
import os
import select
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final

from crond_py.cli import say
from crond_py.cli.ledgers import reading
from crond_py.control.client import PATIENCE, Conversation
from crond_py.control.protocol import LONGEST_WAIT, WaitRun
from crond_py.control.waiting import Pauses
from crond_py.errors import CrowdedError, DaemonNotRunningError, PycronError
from crond_py.model import Run
from crond_py.places import Places
from crond_py.printable import printable
from crond_py.runner import inotify
from crond_py.runner.inotify import Inotify
from crond_py.runner.output import Reading, find_last_lines, next_attempt, open_to_read, output_path

_COME: Final = inotify.CREATED | inotify.MOVED_IN | inotify.MODIFIED


class Watch:
    """Becomes readable when something changes in the nearest directory above ``path``."""

    def __init__(self, path: Path, mask: int = _COME) -> None:
        self._path = path
        self._mask = mask
        self._inotify = Inotify()
        self._watched: Path | None = None
        self.renew()

    def fileno(self) -> int:
        """Return the descriptor, which is readable once something has changed."""
        return self._inotify.fileno()

    def renew(self) -> None:
        """Forget what has happened, and watch a directory that has come into being since."""
        for _ in self._inotify.events():
            pass
        directory = next(parent for parent in self._path.parents if parent.is_dir())
        if directory != self._watched:
            self._inotify.add(directory, self._mask)
            self._watched = directory
            self.renew()  # its child may have come into being before it was watched

    def close(self) -> None:
        """Watch no more."""
        self._inotify.close()


class _Attempts:
    """Reads the attempts of a run one after the other, as far as they have got.

    A file that is replaced by a shorter one (its run has ended, and its middle was left out) is
    read to its end: it is complete, and what replaces it has nothing that is new.
    """

    def __init__(self, places: Places, run: Run, *, tail: int | None, is_raw: bool) -> None:
        self._places = places
        self._run = run
        self._is_raw = is_raw
        self._number = run.attempts[-1].number if run.attempts else 1
        self._descriptor: int | None = None
        self._reading = Reading(-1)
        self._tail = tail
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_line_begun = False

    @property
    def path(self) -> Path:
        """Where the output of the present attempt is, or is going to be."""
        return output_path(self._places.state_dir, self._run.job, self._run.id, self._number)

    def catch_up(self) -> None:
        """Write out all that there is by now."""
        while True:
            # Looked for first: once there is a next attempt, this one's output is complete.
            number = self._next()
            self._read_on()
            if number is None:
                break
            self._go_on_to(number)
        say.flush()

    def _next(self) -> int | None:
        try:
            return next_attempt(self.path)
        except OSError as error:
            raise PycronError(f"{self.path.parent} cannot be read: {error.strerror}") from None

    def _read_on(self) -> None:
        if self._descriptor is None and not self._is_opened():
            return
        while data := self._reading.read():
            self._write(data)

    def _is_opened(self) -> bool:
        try:
            self._descriptor = open_to_read(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise PycronError(f"{self.path} cannot be read: {error.strerror}") from None
        begin = 0
        if self._tail is not None:
            size = os.fstat(self._descriptor).st_size
            begin = find_last_lines(self._descriptor, size, self._tail)
        self._reading = Reading(self._descriptor, begin)
        return True

    def _write(self, data: bytes) -> None:
        self._is_line_begun = not data.endswith(b"\n")
        if self._is_raw:
            say.write_bytes(data)
        else:
            say.write(printable(self._decoder.decode(data)))

    def _go_on_to(self, number: int) -> None:
        self.close()
        self._number = number
        self._tail = None
        say.out(f"--- run {self._run.id} of {self._run.job}, attempt {number} ---")

    def end(self) -> None:
        """Write out what there is, and the newline that the last line may lack."""
        self.catch_up()
        self.close()
        say.flush()

    def close(self) -> None:
        """Let go of the present attempt's file, and end its last line."""
        if self._descriptor is None:
            return
        os.close(self._descriptor)
        self._descriptor = None
        if not self._is_raw:
            say.write(printable(self._decoder.decode(b"", final=True)))
            if self._is_line_begun:
                say.write("\n")
        self._is_line_begun = False


def follow(places: Places, run: Run, *, tail: int | None, is_raw: bool) -> None:
    """Write the run's output until it has its outcome, from its present attempt on."""
    attempts = _Attempts(places, run, tail=tail, is_raw=is_raw)
    with ExitStack() as stack:
        stack.callback(attempts.end)
        if run.outcome is not None:
            return
        watch = stack.enter_context(closing(Watch(attempts.path)))
        try:
            conversation = Conversation(places.socket)
        except DaemonNotRunningError:
            attempts.catch_up()
            say.note("no daemon is running; this is what there is")
            return
        while not _has_ended(run, conversation, watch, attempts):
            if _has_outcome(places, run):
                return
            say.note("the daemon is gone; waiting for the next one (Ctrl-C to leave)")
            conversation = _next_daemon(places, watch, attempts)


def _has_ended(run: Run, conversation: Conversation, watch: Watch, attempts: _Attempts) -> bool:
    """Write what comes until the daemon says that the run has ended; False if it goes away."""
    request = WaitRun(run.id, LONGEST_WAIT)
    pauses = Pauses()
    is_hung_up = False
    with conversation, suppress(DaemonNotRunningError):
        conversation.send(request)
        while True:
            attempts.catch_up()
            ready = _wait(watch, conversation)
            if conversation.fileno() in ready:
                try:
                    ended = conversation.receive(request, PATIENCE).run
                    is_hung_up = False
                except CrowdedError:
                    pauses.wait()
                    ended = None
                except DaemonNotRunningError:
                    # It hangs up on who has not asked again in time, as we could not while we were
                    # stopped, or nobody read what we write.
                    if is_hung_up:
                        return False
                    is_hung_up, ended = True, None
                if ended is not None:
                    return True
                conversation.send(request)
            if watch.fileno() in ready:
                watch.renew()
    return False


def _has_outcome(places: Places, run: Run) -> bool:
    """Whether the run has its outcome in the ledger: its daemon has ended it before it went."""
    with reading(places) as ledger:
        found = ledger.run(run.id) if ledger is not None else None
    return found is not None and found.outcome is not None


def _next_daemon(places: Places, watch: Watch, attempts: _Attempts) -> Conversation:
    """Write what comes until another daemon listens."""
    # Between making its socket and listening on it nothing can be heard of a daemon; but what it
    # writes into the ledger later on, the end of our run at the latest, is.
    mask = _COME | inotify.ATTRIBUTES_CHANGED
    with closing(Watch(places.socket, mask)) as state_watch:
        while True:
            try:
                return Conversation(places.socket)
            except DaemonNotRunningError:
                attempts.catch_up()
            ready = _wait(watch, state_watch)
            for one in (watch, state_watch):
                if one.fileno() in ready:
                    one.renew()


def _wait(*sources: Watch | Conversation) -> set[int]:
    """Wait until one of them is readable; return the descriptors of those that are."""
    poll = select.poll()
    for source in sources:
        poll.register(source, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll()}
