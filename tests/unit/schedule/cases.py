"""What the property tests of schedules draw from: expressions, and places where clocks change."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from crond_py.model import DstFold, DstGap
from tests.unit.schedule.walker import utc

# A zone and an instant near which its clocks change, or nothing happens; what is special about it.
CHANGES = [
    ("UTC", "2024-02-28T12:00Z"),
    ("Asia/Kolkata", "2024-12-31T18:00Z"),
    ("Asia/Kathmandu", "1985-12-31T18:30Z"),  # a quarter of an hour forward for good
    ("America/New_York", "2024-03-10T07:00Z"),
    ("America/New_York", "2024-11-03T06:00Z"),
    ("America/New_York", "2037-11-01T06:00Z"),
    ("America/New_York", "2051-03-12T07:00Z"),
    ("America/New_York", "1974-01-06T07:00Z"),  # the energy crisis
    ("Europe/Berlin", "2025-03-30T01:00Z"),
    ("Europe/Berlin", "2025-10-26T01:00Z"),
    ("Europe/Berlin", "2096-03-25T01:00Z"),
    ("Europe/London", "2024-03-31T01:00Z"),
    ("Europe/London", "2024-10-27T01:00Z"),
    ("Europe/Dublin", "2024-10-27T01:00Z"),  # summer is the standard time
    ("Europe/Lisbon", "1992-09-27T01:00Z"),  # another zone in place of going back
    ("Europe/Moscow", "2011-03-26T23:00Z"),
    ("Europe/Moscow", "2014-10-25T22:00Z"),
    ("Europe/Istanbul", "2016-03-27T01:00Z"),
    ("Europe/Volgograd", "2020-12-26T23:00Z"),
    ("Australia/Lord_Howe", "2024-04-06T15:00Z"),  # half an hour
    ("Australia/Lord_Howe", "2024-10-05T15:30Z"),
    ("Australia/Sydney", "2024-10-05T16:00Z"),
    ("Antarctica/Troll", "2024-03-31T01:00Z"),  # two hours
    ("Antarctica/Troll", "2024-10-27T01:00Z"),
    ("Antarctica/Casey", "2009-10-17T18:00Z"),  # three hours, which is too much
    ("Antarctica/Casey", "2010-03-04T15:00Z"),
    ("Antarctica/Vostok", "2023-12-17T19:00Z"),
    ("Antarctica/Davis", "2010-03-10T20:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00Z"),  # a day is dropped
    ("Pacific/Kiritimati", "1994-12-31T10:00Z"),
    ("Pacific/Kwajalein", "1993-08-21T12:00Z"),
    ("Pacific/Chatham", "2024-04-06T14:00Z"),  # at a quarter to
    ("Pacific/Chatham", "2024-09-28T14:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00Z"),  # midnight
    ("America/Sao_Paulo", "2018-02-18T02:00Z"),
    ("America/Havana", "2024-03-10T05:00Z"),
    ("America/Havana", "2024-11-03T05:00Z"),
    ("America/Santiago", "2024-09-08T04:00Z"),
    ("America/Asuncion", "2024-10-06T04:00Z"),
    ("America/Nuuk", "2024-03-31T01:00Z"),
    ("America/Scoresbysund", "2024-03-31T01:00Z"),
    ("Africa/Cairo", "2024-04-25T22:00Z"),
    ("Africa/Cairo", "2024-10-31T21:00Z"),
    ("Africa/Cairo", "2010-08-10T21:00Z"),  # four changes in a year
    ("Africa/Casablanca", "2024-03-10T02:00Z"),
    ("Africa/Casablanca", "2024-04-14T02:00Z"),
    ("Africa/Juba", "2021-01-31T21:00Z"),
    ("Asia/Beirut", "2024-03-30T22:00Z"),
    ("Asia/Gaza", "2024-04-19T23:00Z"),
    ("Asia/Tehran", "2022-03-21T20:30Z"),
    ("Asia/Tehran", "2022-09-21T19:30Z"),
    ("Asia/Pyongyang", "2015-08-14T15:00Z"),
    ("Asia/Pyongyang", "2018-05-04T15:00Z"),
    ("Asia/Singapore", "1981-12-31T16:00Z"),
    ("America/Caracas", "2007-12-09T07:00Z"),
    ("America/Caracas", "2016-05-01T07:00Z"),
    ("America/St_Johns", "2010-03-14T03:31Z"),  # a minute past midnight
    ("America/St_Johns", "2010-11-07T02:31Z"),
    ("America/St_Johns", "1988-04-03T03:31Z"),  # two hours
    ("America/St_Johns", "1988-10-30T01:31Z"),
    ("America/Santiago", "1973-03-11T03:00Z"),  # near a seam of the survey of zones
    ("Australia/Adelaide", "2016-04-02T16:30Z"),
    ("Europe/Berlin", "2020-03-29T01:00Z"),
]

DAY = timedelta(days=1)
MONTHS = ["JAN", "Feb", "mar", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "mon", "Tue", "WED", "THU", "FRI", "SAT"]


def items(low: int, high: int, usual: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    """Return one item of a list: a number, a range, a star, with or without a step."""
    any_number = usual | st.integers(low, high)
    ranges = st.tuples(any_number, any_number).map(sorted).map(lambda ends: f"{ends[0]}-{ends[1]}")
    steps = st.integers(1, high + 3) | st.sampled_from([2, 3, 5, 7, 15])
    number = any_number.map(str)
    stepped = st.tuples(st.just("*") | ranges | number, steps).map(
        lambda pair: f"{pair[0]}/{pair[1]}"
    )
    return number | number | ranges | stepped


def field(low: int, high: int, usual: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    """Return a whole field: a star, an item, or a list of some with perhaps a star among them."""
    some = items(low, high, usual)
    lists = st.lists(some | st.just("*"), min_size=2, max_size=4).map(",".join)
    return st.just("*") | some | some | some | lists


def mostly(star: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return a field that is a star twice in three times, so that something is due at all."""
    return st.just("*") | st.just("*") | star


MINUTE_FIELD = field(0, 59, st.sampled_from([0, 1, 15, 30, 45, 59]))
HOUR_FIELD = field(0, 23, st.sampled_from([0, 1, 1, 2, 2, 3, 22, 23]))
DATE_FIELD = mostly(field(1, 31, st.integers(28, 31)) | st.sampled_from(["L", "30,L", "13,L"]))
MONTH_FIELD = mostly(field(1, 12, st.integers(1, 12)) | st.sampled_from(MONTHS))
WEEKDAY_FIELD = mostly(
    field(0, 7, st.sampled_from([0, 6, 7]))
    | st.sampled_from(WEEKDAYS)
    | st.tuples(st.integers(0, 7), st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}")
    | st.tuples(st.sampled_from(WEEKDAYS), st.integers(1, 5)).map(lambda p: f"{p[0]}#{p[1]}")
    | st.integers(0, 7).map(lambda number: f"{number}L")
    | st.integers(0, 7).map(lambda number: f"L{number},3")
)
SECOND_FIELD = st.just("") | st.just("") | field(0, 59, st.just(0)).map(lambda text: f"{text} ")
EXPRESSIONS = st.tuples(
    SECOND_FIELD, MINUTE_FIELD, HOUR_FIELD, DATE_FIELD, MONTH_FIELD, WEEKDAY_FIELD
).map(lambda fields: fields[0] + " ".join(fields[1:]))
FREQUENT = st.tuples(MINUTE_FIELD, HOUR_FIELD).map(lambda fields: " ".join([*fields, "* * *"]))
PLACES = st.sampled_from(CHANGES)
GAPS = st.sampled_from(DstGap)
FOLDS = st.sampled_from(DstFold)
OFFSETS = st.integers(-2 * 86400, 2 * 86400)

relaxed = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def around(place: tuple[str, str]) -> tuple[datetime, datetime]:
    """Return the stretch that is walked: a day and a half on each side of the change."""
    change = utc(place[1])
    return change - 1.5 * DAY, change + 1.5 * DAY
