"""What a line of the log looks like: for people (``text``) or for programs (``json``).

Nothing in a message or a field can begin another line or drive a terminal (P9), and each is cut
at a length that keeps the queue of lines small. How a line gets out is ``writer``'s business.

What jobs print can be among the lines. It cannot pass for one of the daemon's own: for people it
comes after the fields, behind a bar, on a line of the level OUTPUT; for programs it is the field
``line`` of the event ``output``.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType

from crond_py.printable import printable, printable_line

_LONGEST_TEXT = 8192  # characters of a message or field
_LONGEST_TRACEBACK = 32768  # its end is what matters
_CUT = "...[cut]"
_NO_WORD = re.compile(r'[ "=\\]')

# The priorities of sd-daemon(3), which are those of syslog(3), by the levels of logging.
_PRIORITIES = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
    (logging.NOTSET, 7),
)


class LogFormatter(logging.Formatter):
    """A formatter that can also format what jobs print."""

    def format_printed(self, record: logging.LogRecord, printed: Sequence[str]) -> str:
        """Return a line for each line that was printed; the record has their instant and fields."""
        raise NotImplementedError


class TextFormatter(LogFormatter):
    """Lines for people: ``2026-11-29 17:00:01.003+01:00 INFO    run started  job=backup run=12``.

    Instants are shown in the system's zone. A traceback follows on lines that begin with a bar.
    For the journal, which keeps time and priority itself, a line begins with ``<6>`` instead.
    """

    def __init__(self, *, for_journal: bool = False) -> None:
        super().__init__()
        self._for_journal = for_journal

    def format(self, record: logging.LogRecord) -> str:
        """Return the line or, with a traceback, the lines, without a newline at the end."""
        text = "  ".join(filter(None, (printable_line(_message_of(record)), _words_of(record))))
        if not self._for_journal:
            text = f"{_local_text(record)} {record.levelname:<7} {text}"
        lines = [text, *(f"    | {line}" for line in _traceback_of(record))]
        if self._for_journal:
            prefix = f"<{_priority_of(record)}>"
            lines = [prefix + line for line in lines]
        return "\n".join(lines)

    def format_printed(self, record: logging.LogRecord, printed: Sequence[str]) -> str:
        """Return ``2026-11-29 17:00:01.003+01:00 OUTPUT  job=backup run=12 attempt=1 | text``."""
        before = f"<{_priority_of(record)}>"
        if not self._for_journal:
            before = f"{_local_text(record)} {'OUTPUT':<7} "
        before += f"{_words_of(record)} | "
        return "\n".join([before + printable_line(text) for text in printed])


class JsonFormatter(LogFormatter):
    """Lines for programs: an object each, with ``time`` (UTC), ``level``, ``event`` and the fields.

    ``exception`` is a traceback. A field that has the name of one of these keeps out of its way
    by an underscore at its end.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a newline at the end."""
        line: dict[str, object] = {
            "time": _utc_text(_instant_of(record)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _message_of(record),
        }
        traceback = _traceback_of(record)
        if traceback:
            line["exception"] = "\n".join(traceback)
        line.update({(f"{k}_" if k in line else k): v for k, v in _fields_of(record).items()})
        return _json_text({key: _json_value(value) for key, value in line.items()})

    def format_printed(self, record: logging.LogRecord, printed: Sequence[str]) -> str:
        """Return an object for each line, with the text as ``line``."""
        before = self.format(record).removesuffix("}")
        return "\n".join([f'{before}, "line": {_json_text(text)}}}' for text in printed])


def _json_text(value: object) -> str:
    return json.dumps(value).replace("\x7f", "\\u007f")


def _local_text(record: logging.LogRecord) -> str:
    return _instant_of(record).astimezone().isoformat(sep=" ", timespec="milliseconds")


def _instant_of(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _message_of(record: logging.LogRecord) -> str:
    return _cut(record.getMessage())


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields that say something."""
    fields = getattr(record, "fields", None) or {}
    return {key: value for key, value in fields.items() if value is not None}


def _words_of(record: logging.LogRecord) -> str:
    """Return the fields as words."""
    return " ".join(f"{key}={_text_value(value)}" for key, value in _fields_of(record).items())


def _traceback_of(record: logging.LogRecord) -> list[str]:
    if not (record.exc_info and record.exc_info[0]):
        return []
    try:
        text = logging.Formatter().formatException(record.exc_info)
    except Exception:  # noqa: BLE001 - what it needs is read when it is first used, see ``lean``
        text = _bare_traceback(*record.exc_info)
    return printable(text[-_LONGEST_TRACEBACK:]).replace("\t", "\\t").split("\n")


def _bare_traceback(
    kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
) -> str:
    """Return a traceback without the lines of the source, for which no file has to be opened.

    That cannot be done where no descriptor is left, or Python's own files have been replaced.
    """
    lines = ["Traceback (most recent call last), without its source:"]
    while traceback is not None:
        code = traceback.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {traceback.tb_lineno}, in {code.co_name}')
        traceback = traceback.tb_next
    name = "None" if kind is None else kind.__qualname__
    try:
        lines.append(f"{name}: {error}")
    except Exception:  # noqa: BLE001 - the exception's own method
        lines.append(name)
    return "\n".join(lines)


def _priority_of(record: logging.LogRecord) -> int:
    return next(priority for level, priority in _PRIORITIES if record.levelno >= level)


def _text_value(value: object) -> str:
    """Return a field's value as one word, in double quotes where it would not look like one."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone().isoformat()
    if isinstance(value, timedelta):
        # As the number in the JSON form, so that both can be searched alike.
        return f"{value.total_seconds():.3f}".rstrip("0").rstrip(".") + "s"
    text = _cut(_plain(value))
    if text and not _NO_WORD.search(text):
        return printable_line(text)
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable_line(quoted)}"'


def _json_value(value: object) -> object:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return _utc_text(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_value(each) for each in value]
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _cut(_plain(value))


def _plain(value: object) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return str(value)


def _utc_text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + _CUT
