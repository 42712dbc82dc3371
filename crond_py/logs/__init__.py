"""The daemon's own log.

Who logs calls the standard library's ``logging`` with a short message and, where there is more to
say, ``extra={"fields": {...}}``. Both become one line (``lines``) that a thread of its own writes
(``writer``), so that a log that cannot be written holds up nobody. Which events are worth a line
is decided where they happen.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

from crond_py.descriptors import occupy_standard_descriptors
from crond_py.logs.lines import JsonFormatter, LogFormatter, TextFormatter
from crond_py.logs.writer import LogWriter, Outlet
from crond_py.ports import PrintedLines

FORMATS: Final = ("text", "json")

__all__ = ["FORMATS", "Log", "configure_logging"]

log = logging.getLogger("pycron.log")


def configure_logging(
    log_format: str, *, stream: TextIO | None, file: Path | None = None, level: int = logging.INFO
) -> Log:
    """Send what the whole process logs to ``file`` or else to ``stream``, from now on.

    ``log_format`` is one of FORMATS. A stream that is None was closed when the process began, and
    the log goes nowhere. Warnings and exceptions that nobody caught are logged as well. Starts a
    thread, so a daemon detaches first. A file that was moved away by a rotation is followed by a
    new one of its name. Raises PycronError where the file cannot be opened.
    """
    occupy_standard_descriptors()
    outlet = Outlet.to_stream(stream) if file is None else Outlet.to_file(file)
    formatter: LogFormatter
    if log_format == "json":
        formatter = JsonFormatter()
    else:
        formatter = TextFormatter(for_journal=outlet.is_journal)
    writer = LogWriter(outlet, formatter)
    return Log(writer, formatter, level)


class Log:
    """The log in force, until it is closed. Made by ``configure_logging``.

    It is a ``ports.LineSink``: what jobs print can be passed on to it.
    """

    def __init__(self, writer: LogWriter, formatter: LogFormatter, level: int) -> None:
        self._writer = writer
        self._formatter = formatter
        self._handler = handler = _Handler(writer, formatter)
        self._hooks = (sys.excepthook, threading.excepthook)
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(level)
        logging.captureWarnings(capture=True)
        # What Python would print on standard error might have to wait for a reader there.
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_in_thread

    def offer(self, printed: PrintedLines, on_room: Callable[[], None]) -> int:
        """See ports.LineSink: all of the lines are taken, or none."""
        record = logging.LogRecord("pycron.output", logging.INFO, "", 0, "output", None, None)
        key = printed.key
        record.fields = {"job": printed.job, "run": key.run_id, "attempt": key.number}
        text = self._formatter.format_printed(record, printed.lines)
        number = len(printed.lines)
        return number if self._writer.offer(text, number, on_room) else 0

    def close(self, timeout: timedelta) -> bool:
        """Write what waits, for at most ``timeout``; False if not all of it could be. Idempotent.

        Nothing is logged by this log any more.
        """
        root = logging.getLogger()
        if self._handler in root.handlers:
            root.removeHandler(self._handler)
            logging.captureWarnings(capture=False)
            sys.excepthook, threading.excepthook = self._hooks
        return self._writer.close(timeout)


def _log_uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    log.critical("pycron ends by a fault of its own", exc_info=(kind, error, traceback))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is SystemExit or args.exc_value is None:
        return
    name = args.thread.name if args.thread is not None else None
    log.critical(
        "a thread ends by a fault of its own",
        exc_info=(args.exc_type, args.exc_value, args.exc_traceback),
        extra={"fields": {"thread": name}},
    )


class _Handler(logging.Handler):
    """Gives each record's line to the writer."""

    def __init__(self, writer: LogWriter, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Put the record's line on the queue. Never raises: whoever logs may be all that is left.

        A thread that tells of a fault it has survived would end by telling it.
        """
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - by logging's contract no record hurts who wrote it
            self.handleError(record)
        else:
            self._writer.put(line)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Log that a record could not be made into a line, and where it came from."""
        with suppress(Exception):  # the same shortage may meet this line
            substitute = logging.LogRecord(
                record.name, logging.ERROR, record.pathname, record.lineno,
                "log record cannot be formatted: %s", (f"{record.msg!r}",), sys.exc_info(),
            )  # fmt: skip
            self._writer.put(self.format(substitute))
