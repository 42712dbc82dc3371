"""A crontab of several files is one crontab, and each file keeps its own defaults to itself."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.crontab.loader import drop_in_directory, load_crontab
from crond_py.crontab.model import Pool
from crond_py.errors import CrontabError
from tests.support.crontabs import faults, load

JOB = '[jobs.a]\nschedule = "* * * * *"\ncommand = "true"\n'


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    """Return the path of a crontab that is not there yet."""
    return tmp_path / "crontab.toml"


def other(name: str, *lines: str) -> str:
    """Return a job of another name."""
    return JOB.replace("jobs.a", f"jobs.{name}") + "".join(f"{line}\n" for line in lines)


def test_drop_ins_add_jobs_and_pools_in_the_order_of_their_names(crontab: Path) -> None:
    """What is in crontab.d counts as if it stood in the crontab, and the source tells where."""
    pool = "[pools.p]\nworkers = 3\n"
    loaded = load(crontab, other("z", 'pool = "p"'), b2=other("y"), a1=f"{pool}{other('x')}")
    assert list(loaded.jobs) == ["z", "x", "y"]
    assert loaded.pools["p"] == Pool("p", 3)
    names = ("crontab.toml", "crontab.d/a1.toml", "crontab.d/b2.toml")
    assert loaded.files == tuple(crontab.parent / name for name in names)
    assert loaded.jobs["x"].source == f"{crontab.parent}/crontab.d/a1.toml:3"


def test_the_nearest_file_counts(crontab: Path) -> None:
    """A drop-in's own top and defaults go over those of the crontab, for its own jobs only."""
    top = 'timezone = "UTC"\n[env]\nA = "1"\nB = "1"\n[defaults]\ntimeout = "1s"\npriority = 1\n'
    near = 'timezone = "Asia/Tokyo"\n[env]\nB = "2"\n[defaults]\ntimeout = "2s"\n'
    jobs = load(crontab, top + other("m"), a=near + other("n"), b=other("o")).jobs
    seen = [
        (job.timezone, dict(job.env), job.timeout, job.priority)
        for job in (jobs["m"], jobs["n"], jobs["o"])
    ]
    first = ("UTC", {"A": "1", "B": "1"}, timedelta(seconds=1), 1)
    second = ("Asia/Tokyo", {"A": "1", "B": "2"}, timedelta(seconds=2), 1)
    assert seen == [first, second, first]


def test_a_zone_of_the_defaults_counts_for_the_drop_ins_too(crontab: Path) -> None:
    """A zone in [defaults] goes over that at the top of its file, not over a nearer file's."""
    top = 'timezone = "UTC"\n[defaults]\ntimezone = "Asia/Tokyo"\n'
    jobs = load(crontab, top + other("m"), a=other("n"), b='timezone = "UTC"\n' + other("o")).jobs
    assert [job.timezone for job in jobs.values()] == ["Asia/Tokyo", "Asia/Tokyo", "UTC"]


def test_a_crontab_may_have_all_its_jobs_in_drop_ins(crontab: Path) -> None:
    """The crontab itself may be empty, and so may a drop-in, as long as there is a job."""
    assert list(load(crontab, "", a=other("x"), b="").jobs) == ["x"]


def test_a_name_in_two_files_names_both_places(crontab: Path) -> None:
    """P7: nobody has to look for the other one; and one fault is enough for it."""
    way_out = "(give one of them another name)"
    found = faults(crontab, "\n" + other("x"), a="\n\n" + other("x", 'timeout = "oh"'))
    place = 'jobs.x: the job "x" is also at crontab.toml:2'
    assert found == [f"crontab.d/a.toml:3: {place} {way_out}"]
    pools = "[pools.p]\nworkers = 1\n"
    found = faults(crontab, pools + other("x"), a=other("y"), b="\n" + pools)
    place = 'pools.p: the pool "p" is also at crontab.toml:1'
    assert found == [f"crontab.d/b.toml:2: {place} {way_out}"]


def test_faults_of_all_files_are_told_at_once(crontab: Path) -> None:
    """P7: a file that is not TOML does not hide what is wrong in the others."""
    found = faults(
        crontab,
        other("x", "timeout = 1"),
        a="[jobs.y\n",
        b=other("z", 'pool = "of-a"', "timeout = 2"),
    )
    assert [line.split(": ")[0] for line in found] == [
        "crontab.toml:4",
        "crontab.d/a.toml:1",
        "crontab.d/b.toml:5",  # not line 4: the pool may be in the file that cannot be read
    ]


def test_only_toml_files_are_drop_ins(crontab: Path) -> None:
    """What editors and package managers leave behind is no crontab."""
    directory = drop_in_directory(crontab)
    directory.mkdir()
    for name in ("x.toml~", ".x.toml", "x.toml.bak", "README", ".#x.toml"):
        (directory / name).write_text("not TOML")
    assert list(load(crontab, JOB).jobs) == ["a"]


def test_drop_ins_that_cannot_be_read_are_faults(crontab: Path) -> None:
    """A drop-in that is a directory or leads nowhere is a fault of its own."""
    directory = drop_in_directory(crontab)
    (directory / "a.toml").mkdir(parents=True)
    (directory / "b.toml").symlink_to("nowhere")
    assert [line.partition(" (")[0] for line in faults(crontab, JOB)] == [
        "crontab.d/a.toml: is a directory",
        "crontab.d/b.toml: there is no such file",
    ]


def test_a_file_in_place_of_the_directory_is_a_fault(crontab: Path) -> None:
    """A file where drop-ins would be is not passed over in silence."""
    crontab.write_text(JOB)
    drop_in_directory(crontab).write_text(JOB)
    with pytest.raises(CrontabError, match=r"crontab\.d: the drop-ins cannot be read: Not a dir"):
        load_crontab(crontab)


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("crontab.toml", "crontab.d"),
        ("crontab", "crontab.d"),
        ("a.b.toml", "a.b.d"),
        ("x.d", "x.d.d"),
    ],
)
def test_where_drop_ins_are(name: str, directory: str) -> None:
    """NAME.toml has NAME.d, and any other name has itself with .d after it."""
    assert drop_in_directory(Path("/etc/pycron") / name) == Path("/etc/pycron") / directory
