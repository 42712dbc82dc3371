"""What the benchmark makes of what it has measured, and what it gives the daemons to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crond_py.crontab import load_crontab
from crond_py.timetable import schedule_of
from tests.benchmarks.jobs import FarAway, Job, Minutely, Seconds, Way, due, far_away
from tests.benchmarks.on_time import fitting
from tests.benchmarks.origins import Given, NotObtainedError
from tests.benchmarks.ours import Pycron
from tests.benchmarks.peer import Peer
from tests.benchmarks.peers import ALL
from tests.benchmarks.records import Record, Recorder, read_records
from tests.benchmarks.stamps import Lateness, quantile, read_stamps
from tests.benchmarks.table import render
from tests.benchmarks.tracks import Cycle, Track

# --- lateness -----------------------------------------------------------------------------------


def test_each_start_counts_for_its_instant() -> None:
    """A start belongs to the newest instant before it, also one a moment too early."""
    late = Lateness.of([10.1, 10.3, 19.99, 20.5, 9.0], [10.0, 20.0], size=2)
    assert [[round(value, 3) for value in burst] for burst in late.bursts] == [
        [0.1, 0.3],
        [-0.01, 0.5],
    ]
    assert late.rates() == pytest.approx([2 / 0.3, 2 / 0.5])


def test_a_burst_that_is_not_whole_has_no_rate() -> None:
    """Starts that did not come are told, and do not make the others look fast."""
    late = Lateness.of([10.1, 20.1, 20.2], [10.0, 20.0], size=2)
    assert late.rates() == [None, pytest.approx(2 / 0.2)]
    figures = late.figures()
    assert (figures["starts"], figures["wanted"]) == (3, 4)
    assert figures["last_s"] == pytest.approx(0.2)


def test_no_start_at_all() -> None:
    """A daemon that started nothing has no lateness."""
    assert Lateness.of([], [10.0], size=5).figures() == {"starts": 0, "wanted": 5}


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_quantiles(share: float, expected: int) -> None:
    """A quantile is a value that was measured: the smallest that enough are not above."""
    assert quantile(range(100, 0, -1), share) == expected


def test_stamps_are_told_apart_by_their_labels(tmp_path: Path) -> None:
    """The part before the point is the track; the instant is in nanoseconds."""
    file = tmp_path / "stamps"
    file.write_text("many.1 1500000000\nC-many.0 2000000000\nmany.0 1250000000\n")
    assert read_stamps(file) == {"many": [1.5, 1.25], "C-many": [2.0]}
    assert read_stamps(tmp_path / "none") == {}


# --- what the daemons are given -----------------------------------------------------------------


def test_our_crontab_says_what_is_meant(tmp_path: Path) -> None:
    """The adapter of pycron writes a crontab that is read as the jobs that were asked for."""
    tick, file = Path("/bin/tick"), tmp_path / "stamps"
    when = Seconds((12, 20))
    jobs = [
        *due(2, when, tick, file, label="shell"),
        *due(1, when, tick, file, label="plain", way=Way.PLAIN),
        *due(1, Minutely(), tick, file, label="array", way=Way.ARRAY, user="root", stay_s=5),
        *far_away(1, tick, file),
    ]
    Pycron().write(tmp_path, jobs)
    read = load_crontab(tmp_path / "crontab.toml").jobs
    assert list(read) == ["shell-0", "shell-1", "plain-0", "array-0", "far0"]
    assert read["shell-1"].command == f"/bin/tick {file} shell.1;"
    assert read["plain-0"].command == f"/bin/tick {file} plain.0"
    assert read["array-0"].command == ("/bin/tick", str(file), "array.0", "5")
    assert read["array-0"].user == "root"
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    schedules = [schedule_of(read[name], noon) for name in ("shell-0", "array-0")]
    begins = [schedule.next_after(noon) for schedule in schedules if schedule is not None]
    assert begins == [noon + timedelta(seconds=12), noon + timedelta(minutes=1)]


def test_far_away_is_in_two_months() -> None:
    """A job that must not start while something is measured is not due for weeks."""
    minute, hour, day, month, weekday = Job("far", FarAway(61), ("tick",)).five_fields.split()
    in_sixty_days = datetime.now(UTC) + timedelta(days=60)  # noqa: TID251 - to compare with
    assert (minute, hour, weekday) == ("1", "1", "*")
    assert int(month) == in_sixty_days.month
    assert int(day) == min(in_sixty_days.day, 28)


@pytest.mark.parametrize(
    # fcron's crontab is translated by a program of its own.
    "peer",
    [peer for peer in ALL if peer.name != "fcron"],
    ids=lambda peer: peer.name,
)
def test_adapters_write_every_job(peer: Peer, tmp_path: Path) -> None:
    """What each adapter writes has the command of every job in it, whenever that is due."""
    file = tmp_path / "stamps"
    moments = [Seconds((12, 24)), Seconds((0,))] if peer.has_seconds else [Minutely()]
    jobs = far_away(2, Path("/bin/tick"), file, peer.way)
    for number, when in enumerate(moments):
        label = f"due{number}"
        jobs += due(2, when, Path("/bin/tick"), file, label=label, way=peer.way)
    peer.write(tmp_path, jobs)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    written = "\n".join(path.read_text() for path in files)
    assert [job.argv[2] for job in jobs if job.line not in written] == []


def test_what_no_registry_has_is_looked_for_where_it_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in a directory of $BENCH_PATH is found; else it is said what to do."""
    given = Given(("somecron",))
    monkeypatch.delenv("BENCH_PATH", raising=False)
    with pytest.raises(NotObtainedError, match=r"directory of `somecron` in \$BENCH_PATH"):
        given.obtain()
    program = tmp_path / "somecron"
    program.touch(mode=0o755)
    monkeypatch.setenv("BENCH_PATH", f"/nowhere:{tmp_path}")
    given.obtain()
    assert given.path("somecron") == program


# --- cycles ---


def track(label: str, *seconds: float, program: tuple[str, ...] | None = None) -> Track:
    """Return a track of two jobs."""
    return Track(label, 2, seconds, program=program)


def test_a_cycle_comes_again_within_the_minute() -> None:
    """The daemon's jobs of a track are due in its seconds of each cycle; a program has no jobs."""
    tracks = (track("a", 0), track("c", 4, program=("c",)), track("b", 8, 9))
    jobs = Cycle(20, tracks, rest_s=1).jobs(Path("/bin/tick"), Path("/tmp/stamps"))
    assert {(job.argv[2], job.when) for job in jobs} == {
        (f"{label}.{number}", Seconds(seconds))
        for label, seconds in (("a", (0, 20, 40)), ("b", (8, 9, 28, 29, 48, 49)))
        for number in range(2)
    }


@pytest.mark.parametrize(
    ("slots", "groups"),
    [
        (7, [["shell", "plain", "array", "array-user"]]),
        (4, [["shell", "plain"], ["array", "array-user"]]),
        (3, [["shell"], ["plain", "array"], ["array-user"]]),
    ],
)
def test_kinds_that_do_not_fit_into_a_minute(slots: int, groups: list[list[str]]) -> None:
    """Kinds are measured in several minutes where their slots and those of C are too many."""
    assert fitting(["shell", "plain", "array", "array-user"], slots) == groups


@pytest.mark.parametrize(
    ("shift", "after", "begin"),
    [(0, 100.0, 120), (0, 108.5, 120), (0, 132.1, 180), (7, 100.0, 127), (50, 150.0, 170)],
)
def test_a_cycle_begins_when_its_first_lane_can_come(
    shift: int, after: float, begin: float
) -> None:
    """The first instant of the first track is not before what was asked, and none is lost."""
    cycle = Cycle(60, (track("a", 12), track("b", 30)), rest_s=1, shift_s=shift)
    assert cycle.begin(after) == begin


# --- the table ----------------------------------------------------------------------------------

MACHINE = {
    "pycron": "0.1.0",
    "processors": 2,
    "processor": "Some Processor",
    "system": "Linux 6.1",
    "python": "3.11.7",
    "date": "2026-11-29",
    "busy": 0.125,
}

RECORDS: list[Record] = [
    {"measure": "machine", "who": "here", **MACHINE},
    {"measure": "version", "who": "slow", "version": "1.0"},
    {"measure": "lone", "who": "pycron", "way": "shell", "p50_s": 0.002, "p99_s": 0.004},
    {"measure": "lone", "who": "C", "way": "shell", "p50_s": 0.001, "p99_s": 0.001},
    {"measure": "late", "who": "pycron", "count": 1, "p50_s": 0.003, "p99_s": 0.005},
    {"measure": "late", "who": "slow", "count": 1, "way": "shell", "p50_s": 1.5, "p99_s": 2.5},
    {"measure": "late", "who": "pycron", "count": 500, "last_s": 0.25, "per_s": 2000, "of_C": 0.9},
    {"measure": "late", "who": "pycron", "count": 500, "last_s": 0.35, "per_s": 1500, "of_C": 0.8},
    {"measure": "late", "who": "slow", "count": 500, "starts": 1499, "wanted": 1500},
    {"measure": "kinds", "who": "C-exec", "kind": "C-exec", "per_s": 4000.0, "last_s": 0.125},
    {"measure": "kinds", "who": "pycron", "kind": "array", "per_s": 3600.0, "of_C-exec": 0.9},
    {"measure": "idle", "who": "pycron", "count": 1000, "pss_kb": 16384, "rss_kb": 20480},
    {"measure": "idle", "who": "slow", "count": 1000, "pss_kb": 65536, "threads": 1},
    {
        "measure": "load",
        "who": "pycron",
        "count": 10000,
        "ready_s": 0.8,
        "pss_kb": 40960,
        "cpu_s": 1,
    },
    {"measure": "load", "who": "slow", "count": 10000, "ready_s": 2.0, "pss_kb": 20480, "cpu_s": 3},
    {"measure": "commands", "who": "pycron next", "p50_s": 0.2, "beyond_bare_s": 0.18},
    {
        "measure": "stored",
        "who": "pycron",
        "count": 1_000_000,
        "stored_per_s": 12_345.6,
        "bare_per_s": 45_678.9,
        "pss_kb_before": 15 * 1024,
        "pss_kb": 16 * 1024,
        "peak_kb": 32 * 1024,
        "few_per_s": 2_000.0,
        "many_per_s": 1_900.0,
    },
    {
        "measure": "claims",
        "who": "pycron",
        "few": 10_000,
        "many": 1_000_000,
        "few_s": 0.02,
        "many_s": 0.025,
        "ratio": 1.25,
    },
    {
        "measure": "crowd",
        "who": "pycron",
        "count": 20_000,
        "starts": 5,
        "wanted": 5,
        "p50_s": 0.012,
        "most_s": 0.03,
        "left": 18_000,
        "peak_kb": 64 * 1024,
    },
    {"measure": "left out", "who": "absent", "why": "no registry has it " * 10},
]


CLAIMED = "20.0 and 25.0, 1.25 times"
LONE = "5 of 5 lone tasks of another,"


def row(text: str, heading: str, name: str) -> list[str]:
    """Return the cells of a row of the part of the report with that heading."""
    _, _, part = text.partition(heading)
    line = next(line for line in part.splitlines() if line.startswith(name))
    return line[len(name) :].split()


@pytest.mark.parametrize(
    ("heading", "name", "cells"),
    [
        ("A job alone", "pycron", "2.00 - 4.00"),
        ("A job alone", "C ", "1.00 0.50 1.00"),
        ("Starts", "pycron", "3.00 - 5.00 - - 300 - 1,750 85%"),
        ("Starts", "slow", "1,500 500 2,500 - - - - - -"),
        ("kind of", "array", "- - 3,600 90%"),
        ("Idle", "slow", "- 64.0 4.00 1 - - - -"),
        ("Idle", "With what they share counted whole (RSS in MB, 1,000 jobs):", "pycron 20.0"),
        ("crontab of 10,000", "slow", "2.00 2.50 3.00 3.00 20.0 0.50 - -"),
        ("Commands", "pycron next", "200 180"),
        ("1,000,000 stored", "stored a second:", "12,346; bare inserts: 45,679"),
        ("1,000,000 stored", "PSS in MB:", "15.0 before, 16.0 with them, peak RSS 32.0"),
        ("stored one-off", "ms to claim the next 100 of 10,000 and of 1,000,000:", CLAIMED),
        ("20,000 tasks of one", LONE, "due from 1 s later on, in ms late:"),
        ("20,000 tasks of one", "p50", "12.0, most 30.0; then 18,000 of the crowd left"),
        ("20,000 tasks of one", "peak RSS in MB, until then:", "64.0"),
    ],
)
def test_the_report_has_values_and_ratios(heading: str, name: str, cells: str) -> None:
    """Values stand in the units of their columns, medians over rounds, ratios to pycron's."""
    assert row(render(RECORDS), heading, name) == cells.split()


def test_the_report_says_where_and_what_not() -> None:
    """It names the machine and the versions first, and what was left out last."""
    text = render(RECORDS)
    assert text.startswith("pycron 0.1.0 on 2 x Some Processor, Linux 6.1, Python 3.11.7")
    assert "Others: slow 1.0." in text
    assert "12% busy" in text
    assert "\nslow, 500 at once: 1,499 of 1,500 in time\n" in text
    assert "Left out\nabsent: no registry has it" in text


@pytest.mark.parametrize(
    ("busy", "of_c", "is_doubted"), [(0.0, 1.1, False), (0.2, 1.0, True), (0.0, 1.5, True)]
)
def test_the_report_doubts_itself(busy: float, of_c: float, is_doubted: bool) -> None:
    """Where others had the processors, what was started by two processes looks better than C."""
    burst: Record = {"measure": "late", "who": "pycron", "count": 500, "of_C": of_c}
    text = render([{"measure": "machine", "who": "here", **MACHINE, "busy": busy}, burst])
    assert ("Measure again when it is quiet." in " ".join(text.split())) is is_doubted


def test_the_report_fits_a_terminal() -> None:
    """No line is longer than 80 columns, and none ends with blanks."""
    lines = render(RECORDS).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)


def test_an_empty_report() -> None:
    """Without records there is nothing to tell."""
    assert render([]).strip() == ""


def test_records_are_kept(tmp_path: Path) -> None:
    """From the file of a run the same report can be made again."""
    recorder = Recorder(tmp_path / "out")
    recorder.add("lone", "pycron", way=Way.SHELL, p50_s=0.0021234567, p99_s=None)
    recorder.leave_out("cronie", "no registry has it")
    assert read_records(tmp_path / "out") == recorder.records
    assert render(read_records(tmp_path / "out")) == render(recorder.records)
