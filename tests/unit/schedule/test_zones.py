"""Zone data: every change of every zone is found, wrong names are refused, and updates taken up."""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo, available_timezones

import pytest

from crond_py.errors import ScheduleError
from crond_py.schedule import clear_zone_cache, parse_schedule, system_timezone
from crond_py.schedule.zones import Pass, zone_of

YEAR_2100 = 4102444800


def zone_file(name: str) -> bytes:
    """Return the compiled zone that zoneinfo reads: the system's, or that of tzdata."""
    for place in TZPATH:
        path = Path(place, name)
        if path.is_file():
            return path.read_bytes()
    *folders, base = name.split("/")
    return (resources.files(".".join(["tzdata.zoneinfo", *folders])) / base).read_bytes()


def changes_in_file(data: bytes) -> list[tuple[int, int, int]]:
    """Return the changes of offset that a TZif file lists, by RFC 9636: at, before and after."""
    counts = struct.unpack(">6l", data[20:44])  # of the first block, which has 32-bit times
    place = 44 + counts[3] * 5 + counts[4] * 6 + counts[5] + counts[2] * 8 + counts[1] + counts[0]
    _, _, _, times, types, _ = struct.unpack(">6l", data[place + 20 : place + 44])
    place += 44
    instants = struct.unpack(f">{times}q", data[place : place + 8 * times])
    indexes = data[place + 8 * times : place + 9 * times]
    place += 9 * times
    offsets = [
        struct.unpack(">l", data[at : at + 4])[0] for at in range(place, place + 6 * types, 6)
    ]
    found, before = [], offsets[0]
    for instant, index in zip(instants, indexes, strict=True):
        if offsets[index] != before:
            found.append((instant, before, offsets[index]))
        before = offsets[index]
    return found


NAMES = sorted(available_timezones() - {"localtime", "posixrules"})
REMARKABLE = {
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Boa_Vista",
    "America/St_Johns",
    "Antarctica/Casey",
    "Asia/Gaza",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kwajalein",
}


def check_changes(name: str) -> None:
    """Compare the changes that are found in a zone with those that its file lists."""
    listed = changes_in_file(zone_file(name))
    if listed:
        first, last = listed[0][0], listed[-1][0]
        found = [tuple(change) for change in zone_of(name).changes(first, last + 1)]
        assert found == listed, name
    clear_zone_cache()  # all of them at once would take much memory


@pytest.mark.parametrize("name", sorted(REMARKABLE | set(NAMES[::30])))
def test_every_change_of_a_zone(name: str) -> None:
    """P1: the changes that were searched for are those that the zone file lists, to the second."""
    check_changes(name)


@pytest.mark.long
def test_every_change_of_every_zone() -> None:
    """P1: the same, for every zone there is."""
    for name in NAMES:
        check_changes(name)


def test_no_two_changes_are_close() -> None:
    """The search looks each day and a half; changes that undo each other must be further apart."""
    step = 1 << 17
    for name in NAMES:
        for early, late in pairwise(changes_in_file(zone_file(name))):
            assert late[0] - early[0] > 2 * step, name


@pytest.mark.parametrize(
    "name",
    [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Gaza",
        "Pacific/Apia",
        "UTC",
    ],
)
def test_pieces_fit_together(name: str) -> None:
    """P1: pieces follow one another without a hole or an overlap, from 1850 to 2100."""
    start = -3786825600
    pieces = list(zone_of(name).pieces(start, YEAR_2100))
    assert pieces[0].start <= start
    assert pieces[-1].end >= YEAR_2100
    info = ZoneInfo(name)
    for early, late in pairwise(pieces):
        assert early.end == late.start
        assert early.start < early.end
    for piece in pieces:
        for second in (piece.start, piece.end - 1):
            offset = datetime.fromtimestamp(second, info).utcoffset()
            assert offset is not None
            assert offset.total_seconds() == piece.offset
        # datetime's own fold bit says the same about the second pass, small changes given.
        if piece.turn is not Pass.ONLY:
            fold = datetime.fromtimestamp(piece.start, info).fold
            assert fold == (piece.turn is Pass.SECOND)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("EUROPE/BERLIN", "Europe/Berlin"),
        (" Europe/Berlin ", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("America/NewYork", "America/New_York"),
        ("Amerika/New_York", "America/New_York"),
        ("Asia/Calcuta", "Asia/Calcutta"),
        ("utc", "UTC"),
    ],
)
def test_a_near_name_is_suggested(name: str, near: str) -> None:
    """P7: a zone that is not there is refused, with the one that was probably meant."""
    with pytest.raises(ScheduleError, match=f"did you mean {near}") as caught:
        parse_schedule("0 0 * * *", name)
    assert caught.value.field == "timezone"
    assert "Europe/Berlin" in caught.value.allowed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, "an abbreviation is no zone, write a place, such as Europe/Berlin")
          for name in ("CEST", "PST", "EDT", "IST", "cest")),
        ("GMT+2", "or Etc/GMT-2 for the fixed time 2 hours ahead of UTC"),
        ("UTC+1", "or Etc/GMT-1 for the fixed time 1 hour ahead of UTC"),
        ("UTC-05:00", "or Etc/GMT+5 for the fixed time 5 hours behind UTC"),
        ("+14", "or Etc/GMT-14 for the fixed time 14 hours ahead of UTC"),
        ("-12:00", "or Etc/GMT+12 for the fixed time 12 hours behind UTC"),
        ("-13", "no zone has just this offset, write a place"),
        ("+05:30", "no zone has just this offset, write a place"),
        ("UTC+0", "; write UTC"),
        ("Z", "; write UTC"),
        ("etc/gmt-2", "did you mean Etc/GMT-2"),
        ("CET-1CEST", "write a place"),
    ],
)  # fmt: skip
def test_what_stands_for_no_place_is_told_with_what_does(name: str, words: str) -> None:
    """P7: never another abbreviation; the signs of Etc are those of POSIX, +N is behind UTC."""
    with pytest.raises(ScheduleError, match=re.escape(words)):
        parse_schedule("0 0 * * *", name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "/",
        "Mars/Phobos",
        "UTC+99:99",
        "+02:00",
        "CEST-2",
        "Europe",
        "Europe/",
        "/Europe/Berlin",
        "Europe//Berlin",
        "./UTC",
        "../UTC",
        "Europe/../UTC",
        "/etc/localtime",
        "/etc/passwd",
        "../../../etc/passwd",
        "zone.tab",
        "tzdata.zi",
        "leapseconds",
        "localtime",
        "posixrules",
        "right/Europe/Berlin",
        "UTC\0",
        "UTC\n",
        "U\u0422C",
        "\ud800",
        "x" * 300,
        "x" * 100_000,
        "a/" * 2000,
    ],
)
def test_no_zone(name: str) -> None:
    """P7: what names no zone is refused whatever it is; so is the host's own under another name."""
    with pytest.raises(ScheduleError) as caught:
        parse_schedule("0 0 * * *", name)
    assert caught.value.field == "timezone"
    assert caught.value.allowed.startswith("an IANA name")
    assert len(str(caught.value)) < 200
    assert str(caught.value).isprintable()


def test_a_reload_takes_up_new_zone_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the caches were cleared, the same expression follows the zone file as it is then."""
    import zoneinfo

    zone = tmp_path / "Test" / "Zone"
    zone.parent.mkdir()
    zone.write_bytes(zone_file("Asia/Tokyo"))
    before = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath([str(tmp_path), *before])
        start = datetime(2026, 6, 1, tzinfo=UTC)
        old = parse_schedule("0 12 * * *", "Test/Zone")
        assert old.next_after(start) == datetime(2026, 6, 1, 3, tzinfo=UTC)
        zone.write_bytes(zone_file("Asia/Kolkata"))
        assert parse_schedule("0 12 * * *", "Test/Zone").next_after(start) == old.next_after(start)
        clear_zone_cache()
        new = parse_schedule("0 12 * * *", "Test/Zone")
        assert new.next_after(start) == datetime(2026, 6, 1, 6, 30, tzinfo=UTC)
        assert old.next_after(start) == datetime(2026, 6, 1, 3, tzinfo=UTC)
        zone.unlink()
        clear_zone_cache()
        with pytest.raises(ScheduleError):
            parse_schedule("0 12 * * *", "Test/Zone")
    finally:
        zoneinfo.reset_tzpath(before)
        clear_zone_cache()


def etc(path: Path, *, link: str | None = None, timezone: str | None = None) -> Path:
    """Return a directory like /etc, with a link localtime and a file timezone where given."""
    if link is not None:
        (path / "localtime").symlink_to(link)
    if timezone is not None:
        (path / "timezone").write_text(timezone, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("variable", "link", "timezone", "expected"),
    [
        ("Europe/London", "/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo", "Europe/London"),
        (":Europe/London", "/usr/share/zoneinfo/Asia/Tokyo", None, "Europe/London"),
        ("/usr/share/zoneinfo/Europe/London", None, None, "Europe/London"),
        (":/usr/share/zoneinfo/posix/Europe/London", None, None, "Europe/London"),
        ("UTC", "/usr/share/zoneinfo/Asia/Tokyo", None, "UTC"),
        ("", "/usr/share/zoneinfo/Asia/Tokyo", None, "UTC"),
        (":", "/usr/share/zoneinfo/Asia/Tokyo", None, "UTC"),
        # A variable that names no zone leaves it to the host's files.
        ("CET-1CEST,M3.5.0,M10.5.0/3", "/usr/share/zoneinfo/Asia/Tokyo", None, "Asia/Tokyo"),
        (":/etc/localtime", "/usr/share/zoneinfo/Asia/Tokyo", None, "Asia/Tokyo"),
        ("Mars/Phobos", None, None, "UTC"),
        (None, "/usr/share/zoneinfo/Asia/Tokyo", "Europe/London", "Asia/Tokyo"),
        (None, "../usr/share/zoneinfo/Asia/Tokyo", None, "Asia/Tokyo"),
        (None, "/usr/share/zoneinfo/Etc/UTC", None, "Etc/UTC"),
        (None, "/usr/share/zoneinfo/No/Where", "Asia/Tokyo\n", "Asia/Tokyo"),
        (None, "/somewhere/else", "Asia/Tokyo\n", "Asia/Tokyo"),
        (None, None, "Asia/Tokyo\n", "Asia/Tokyo"),
        (None, None, "\n", "UTC"),
        (None, None, "Mars/Phobos", "UTC"),
        (None, None, None, "UTC"),
    ],
)
def test_the_hosts_zone(
    tmp_path: Path, variable: str | None, link: str | None, timezone: str | None, expected: str
) -> None:
    """The zone of a job that names none: TZ, then /etc/localtime, then /etc/timezone, then UTC."""
    environment = {} if variable is None else {"TZ": variable}
    assert system_timezone(environment, etc(tmp_path, link=link, timezone=timezone)) == expected


def test_a_link_to_a_link(tmp_path: Path) -> None:
    """The link's own name counts, not what another link in the database leads on to."""
    (tmp_path / "zoneinfo").mkdir()
    (tmp_path / "zoneinfo" / "GMT").symlink_to("Etc-GMT")
    (tmp_path / "alternatives").symlink_to(tmp_path / "zoneinfo" / "GMT")
    assert system_timezone({}, etc(tmp_path, link="alternatives")) == "GMT"


def test_a_localtime_that_is_no_link(tmp_path: Path) -> None:
    """A copy of a zone file has no name; a timezone file that is no text has none either."""
    (tmp_path / "localtime").write_bytes(zone_file("Asia/Tokyo"))
    (tmp_path / "timezone").write_bytes(b"\xff\xfe")
    assert system_timezone({}, tmp_path) == "UTC"


def test_links_in_a_ring(tmp_path: Path) -> None:
    """Links that lead nowhere end the search."""
    (tmp_path / "localtime").symlink_to("localtime")
    assert system_timezone({}, tmp_path) == "UTC"


def test_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked without arguments, it is the process's own variable that counts, as it is now."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    assert system_timezone() == "Asia/Kathmandu"
    monkeypatch.setenv("TZ", "Europe/London")
    assert system_timezone() == "Europe/London"
