"""What people write for a time that pycron does not read so, and what to write for it here.

Nothing of that is taken for what it seems to mean: it is told. Here are only the words; where they
stand on a command line is for ``when`` to see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from crond_py.errors import ScheduleError
from crond_py.schedule import parse_duration
from crond_py.schedule.zones import find_zone


def _words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UNITS: Final = {
    name: unit
    for unit, names in (
        ("s", _words_of("s sec secs second seconds")),
        ("m", _words_of("m min mins minute minutes")),
        ("h", _words_of("h hr hrs hour hours")),
        ("d", _words_of("d day days")),
        ("w", _words_of("w week weeks")),
    )
    for name in names
}
_CLOCKS: Final = {"noon": "12:00", "midday": "12:00", "midnight": "00:00", "teatime": "16:00"}
_INTERVALS: Final = {"hourly": "1h", "daily": "1d", "weekly": "1w"}
_WEEKDAYS: Final = _words_of(
    "mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday thursday friday saturday"
    " sunday weekday weekdays weekend weekends"
)
_MONTHS: Final = _words_of(
    "jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july"
    " august september october november december"
)
_JOINTS: Final = _words_of(
    "+ a.m. am p.m. pm o'clock o\u2019clock oclock uhr sharp after ago and at before daily every"
    " evening for forever from hourly in later morning next now on since starting this till today"
    " tomorrow tonight until weekly yesterday month months year years"
)
# In the letters of a program's name none of which there is a program; in capitals, these too.
_ZONES: Final = _words_of(
    "acdt acst aedt aest akdt akst awst bst cdt cest cet cst edt eest eet est gmt hkt hst ist jst"
    " kst mdt msk mst ndt nst nzdt nzst pdt pst sast sgt uct utc wet wib wita z zulu"
)
_ZONES_IN_CAPITALS: Final = _words_of("ADT AST CAT EAT PKT SST WAT WEST")
_ZONES_THAT_ARE_NONE: Final = _words_of("Factory posixrules localtime")
_IDLE_IN_MOMENT: Final = _words_of("sharp uhr oclock o'clock o\u2019clock")
_IDLE_IN_SPAN: Final = _words_of("later")
_IDLE_IN_INTERVAL: Final = _words_of("forever")
_ONE: Final = _words_of("a an one")
_SHORT_UNITS: Final = frozenset("smhdw")  # w(1) is a program

_NUMBERS: Final = re.compile(r"[+]?[0-9][0-9.,:/-]*|[+].*")
_WITH_UNIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-z]*)")
_WITH_HALF: Final = re.compile(r"([0-9]{1,2})(?:[:.]([0-9]{2}))?([ap])\.?m\.?")
_HOUR: Final = re.compile(r"([0-9]{1,2})(?:[:.h]?([0-5][0-9]))?")
_FROM_UTC: Final = re.compile(r"(?:utc|gmt|z)[+-][0-9]{1,2}(?::?[0-9]{2})?")
_ORDINAL: Final = re.compile(r"[0-9]{1,2}(st|nd|rd|th)")
_ISO_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}t.*")
_YEAR_FIRST: Final = re.compile(r"([0-9]{4})([./]?)([0-9]{2})\2([0-9]{2})")
_DAY_FIRST: Final = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
_LIKE_DATE: Final = re.compile(r"[0-9]+([./-])[0-9]+(?:\1[0-9]*)?")

_ANY_DATE: Final = 'write the date as in "2026-12-24"'
_ANY_SPAN: Final = 'write the length of time as in "1h 30m"'


def looks_like_time(word: str) -> bool:
    """Tell whether a word is one that people write in a time, and hardly as a program's name."""
    text = word.casefold()
    return (
        text in _JOINTS
        or text in _CLOCKS
        or text in _WEEKDAYS
        or text in _MONTHS
        or (text in _UNITS and text not in _SHORT_UNITS)
        or any(form.fullmatch(text) for form in (_NUMBERS, _WITH_HALF, _ORDINAL, _ISO_TIME))
        or bool(_span_at([word], 0))
        or bool(_zone_meant(word))
    )


def meant_moment(words: Sequence[str], place: int) -> str:
    """Return what to do for the word at a place, where a time of the clock is said, or ""."""
    return next(filter(None, _of_moment(words, place)), "")


def meant_span(words: Sequence[str], place: int, *, is_repeated: bool) -> str:
    """Return what to do for the word at a place, where a length of time is said, or ""."""
    return next(_of_span(words, place, is_repeated=is_repeated), "")


def _of_span(words: Sequence[str], place: int, *, is_repeated: bool) -> Iterator[str]:
    text, after = _word(words, place), _word(words, place + 1)
    if _is_span(words[place]):
        yield "the larger unit stands first, and each once"
    if written := _span_at(words, place) or (is_repeated and _INTERVALS.get(text)):
        is_whole = written != _ANY_SPAN and _is_span(written.replace(" ", ""))
        yield f'write "{written}"' if is_whole else _ANY_SPAN
    if text in (_IDLE_IN_INTERVAL if is_repeated else _IDLE_IN_SPAN):
        yield f'leave "{text}" out'
    if text == "and":
        yield 'leave "and" out' if _span_at(words, place + 1) and after not in _ONE else _ANY_SPAN
    if re.fullmatch("[0-9]+", text):
        if place:  # one alone is told by who reads it
            yield f"say its unit, as in {text}s or {text}m"
    elif is_repeated and looks_like_time(words[place]):
        yield (
            "it counts from now, and -s offset=... says how long it is to the first run; "
            "what goes by the clock is a job in the crontab"
        )
    elif (text, after) == ("from", "now"):
        yield 'leave "from now" out'
    elif looks_like_time(words[place]):
        yield "for a time of the clock: pycron at 18:00"


def _of_moment(words: Sequence[str], place: int) -> Iterator[str]:
    text, before, after = (_word(words, place + step) for step in (0, -1, 1))
    if text in {"at", "on"}:
        yield f'leave "{text}" out'
    for written, number in ((text, 1), (text + after, 2), (before + text, 1)):
        if found := _WITH_HALF.fullmatch(written):
            yield _clock(_clock_of(found), words, place + number)
    yield _clock(_CLOCKS.get(text, ""), words, place + 1)
    from_now = _from_now(words, place)
    if (found := re.fullmatch("([0-9]{1,2})h", text)) and int(found[1]) < 24:  # noqa: PLR2004
        yield f"{_clock(f'{int(found[1]):02}:00', words, place + 1)}; {from_now}"
    yield from_now
    yield _date_of(text)
    if text in _WEEKDAYS or "next" in {text, before}:
        yield f"for that day {_ANY_DATE}"
    # Behind another word a month is what a program is given: report.sh march
    is_day = _ORDINAL.fullmatch(text) or (after in _MONTHS and re.fullmatch("[0-9]{1,2}[.]?", text))
    if is_day or text in _MONTHS:
        yield _ANY_DATE
    if zone := _zone_meant(words[place]):
        yield f"for the zone: {zone}"
    if text in _IDLE_IN_MOMENT:
        yield f'leave "{words[place]}" out'
    if (found := _HOUR.fullmatch(text)) and int(found[1]) < 24 and ":" not in text:  # noqa: PLR2004
        yield _clock(f"{int(found[1]):02}:{found[2] or '00'}", words, place + 1)


def _from_now(words: Sequence[str], place: int) -> str:
    """Return what to do where a length of time is added."""
    text = _word(words, place)
    if text.startswith("now+"):
        words, place, text = [text[3:], *words[place + 1 :]], 0, text[3:]
    bare = text.removeprefix("+")
    span = _span_at(words, place + (text in {"+", "in"})) or (bare if _is_span(bare) else "")
    if span == _ANY_SPAN:
        return f"for a time from now: pycron in, and {span}"
    if not span and re.fullmatch("[+][0-9]{2}:?[0-9]{2}", text):
        return 'an offset stands behind the date and time, as in "2026-12-24T18:00+01:00"'
    span = span or ("1h" if text.startswith("+") else "")
    return f"for a time from now: pycron in {span}" if span else ""


def _word(words: Sequence[str], place: int) -> str:
    return words[place].casefold() if 0 <= place < len(words) else ""


def _clock(clock: str, words: Sequence[str], place: int) -> str:
    """Return how to write a time of the clock, with what is said of the day or zone behind it."""
    if not clock:
        return ""
    following = _word(words, place)
    if following in {"today", "tomorrow"} or re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", following):
        return f'write "{clock} {following}"'
    meant = meant_moment(words, place) if following and looks_like_time(words[place]) else ""
    return f'write "{clock}"' + (f"; {meant}" if meant else "")


def _clock_of(found: re.Match[str]) -> str:
    hour, minute = int(found[1]), int(found[2] or 0)
    if not (1 <= hour <= 12 and minute < 60):  # noqa: PLR2004 - the hours of such a clock
        return ""
    return f"{hour % 12 + 12 * (found[3] == 'p'):02}:{minute:02}"


def _date_of(text: str) -> str:
    """Return how to write a date that is written otherwise."""
    if found := _YEAR_FIRST.fullmatch(text):
        parts = found[1], found[3], found[4]
    elif found := _DAY_FIRST.fullmatch(text):
        parts = found[3], found[2], found[1]
    else:
        return _ANY_DATE if _LIKE_DATE.fullmatch(text) and not _HOUR.fullmatch(text) else ""
    try:
        return f'write "{date(*map(int, parts)).isoformat()}"'
    except ValueError:
        return _ANY_DATE


def _span_at(words: Sequence[str], place: int) -> str:
    """Return as pycron writes it the length of time that a person's words say from a place on.

    All of them that belong to it, for what is left out of an answer is lost: where more follows
    that is not read, the answer is only in which form to write it. "" where there is none.
    """
    parts: list[str] = []
    while found := _part_at(words, place, is_first=not parts):
        parts.append(found[0])
        place += found[1]
        if _word(words, place) == "and" and _part_at(words, place + 1, is_first=False):
            place += 1
    rest = _word(words, place)
    is_more = rest in {"and", "half"} or re.fullmatch("[0-9]+", rest)
    return _ANY_SPAN if parts and is_more else " ".join(parts)


def _part_at(words: Sequence[str], place: int, *, is_first: bool) -> tuple[str, int] | None:
    """Return a number with its unit, as pycron writes it, and of how many words it was."""
    text, after = _word(words, place).removeprefix("+"), _word(words, place + 1)
    if _is_span(text):
        return text, 1
    if text in _ONE and after in _UNITS and after not in _SHORT_UNITS:
        return f"1{_UNITS[after]}", 2
    is_bare = text in _UNITS and text not in _SHORT_UNITS and not text.endswith("s")
    if is_first and is_bare:
        return f"1{_UNITS[text]}", 1
    found = _WITH_UNIT.fullmatch(text)
    if found is None or (found[2] or after) not in _UNITS:
        return None
    return f"{found[1]}{_UNITS[found[2] or after]}", 1 if found[2] else 2


def _is_span(text: str) -> bool:
    try:
        parse_duration(text)
    except ScheduleError:
        return False
    return True


def _zone_meant(word: str) -> str:
    """Return how to give the zone that a word names, in whichever letters, or ""."""
    text = word.casefold()
    if _FROM_UTC.fullmatch(text):
        return 'behind the date and time, as in "2026-12-24T18:00+01:00"'
    if text in {"z", "zulu", "uct", "utc", "gmt"}:
        return "--tz UTC"
    if re.fullmatch("[a-z]+(?:[/_+-][a-z0-9]+)*", text):
        for name in dict.fromkeys((word, word.title(), word.upper())):
            if name not in _ZONES_THAT_ARE_NONE and find_zone(name) is not None:
                return f"--tz {name}"
    is_abbreviation = text in _ZONES or word in _ZONES_IN_CAPITALS
    return "--tz with the name of a place, as in --tz Europe/Berlin" if is_abbreviation else ""
