"""The report: records made into one text of at most 80 columns.

A column headed ``x`` is the one before it divided by pycron's: more than 1 is more than pycron
takes, or later than pycron is. Where something was measured several times, the median stands.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from statistics import median

from tests.benchmarks.layout import Column, Value, grid, mb, ms, number, percent, whole
from tests.benchmarks.records import Record

OURS = "pycron"
WIDTH = 80

MOST_BUSY = 0.1
MOST_OF_C = 1.25
"""Beyond these, figures are those of a machine that others used, too."""

Of = Callable[[str], Value]
"""A value by the name of who was measured."""


class Figures:
    """The records, to be asked for one value."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)

    def get(self, measure: str, who: str, key: str, **match: object) -> Value:
        """Return the median of a value of all records that match, None where there is none."""
        values = [
            record[key]
            for record in self.records
            if record["measure"] == measure
            and record["who"] == who
            and all(record.get(name) == value for name, value in match.items())
            and record.get(key) is not None
        ]
        return median(values) if values else None

    def those_of(self, *measures: str) -> list[str]:
        """Return who was measured, in the order of the records, ours first."""
        who = (record["who"] for record in self.records if record["measure"] in measures)
        return sorted(dict.fromkeys(who), key=lambda name: name != OURS)


def beside_ours(value: Of) -> Of:
    """Return what says how many times ours a value is."""

    def ratio(name: str) -> Value:
        theirs, ours = value(name), value(OURS)
        return None if theirs is None or not ours or name == OURS else theirs / ours

    return ratio


# --- the parts of the report --------------------------------------------------------------------


def render(records: Iterable[Record]) -> str:
    """Return the report."""
    figures = Figures(records)
    parts = [
        _machine,
        _lone,
        _starts,
        _kinds,
        _memory,
        _loads,
        _stored,
        _crowd,
        _commands,
        _left_out,
    ]
    blocks = [part(figures) for part in parts]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _machine(figures: Figures) -> list[str]:
    found = [record for record in figures.records if record["measure"] == "machine"]
    if not found:
        return []
    first = found[0]
    words = (
        f"pycron {first['pycron']} on {first['processors']} x {first['processor']}, "
        f"{first['system']}, Python {first['python']}, {first['date']}. "
        f"Others kept the processors {first['busy']:.0%} busy when it began."
    )
    note = (
        "x: how many times pycron's. C: posix_spawn in a loop, which took turns. All give their "
        f"commands to a shell{_without_shell(figures)}."
    )
    versions = [r for r in figures.records if r["measure"] == "version"]
    others = ", ".join(f"{r['who']} {r['version']}" for r in versions)
    texts = [words, note] + ([f"Others: {others}."] if others else []) + _doubts(figures)
    return [line for text in texts for line in textwrap.wrap(text, WIDTH)]


def _doubts(figures: Figures) -> list[str]:
    """Return what speaks against the figures, if anything does."""
    ratios = (
        value
        for record in figures.records
        for key, value in record.items()
        if key.startswith("of_C") and value is not None
    )
    is_busy = any(record.get("busy", 0) > MOST_BUSY for record in figures.records)
    if not is_busy and max(ratios, default=0) <= MOST_OF_C:
        return []
    doubt = (
        "Others had a part of the processors: pycron starts a burst in up to two processes, and "
        "those get more of such a machine than the one of C. Measure again when it is quiet."
    )
    return [doubt]


def _without_shell(figures: Figures) -> str:
    late = [record for record in figures.records if record["measure"] == "late"]
    names = dict.fromkeys(r["who"] for r in late if r.get("way", "shell") != "shell")
    return f" but {', '.join(names)}" if names else ""


def _lone(figures: Figures) -> list[str]:
    names = figures.those_of("lone")
    if not names:
        return []

    def lone(key: str) -> Of:
        return lambda name: figures.get("lone", name, key, way="shell")

    columns = [
        Column("late", "p50", 8, lone("p50_s"), ms),
        Column("", "x", 7, beside_ours(lone("p50_s")), number),
        Column("", "p99", 8, lone("p99_s"), ms),
    ]
    return ["A job alone, in turn with C and bare Python, in ms", *grid(names, columns, 14)]


def _starts(figures: Figures) -> list[str]:
    def late(key: str, count: int) -> Of:
        return lambda name: figures.get("late", name, key, count=count)

    names = figures.those_of("late")
    if not names:
        return []
    p50, few, many = late("p50_s", 1), late("last_s", 50), late("last_s", 500)
    columns = [
        Column("lone", "p50", 8, p50, ms),
        Column("job", "x", 7, beside_ours(p50), number),
        Column("", "p99", 8, late("p99_s", 1), ms),
        Column("50,", "last", 8, few, ms),
        Column("", "x", 7, beside_ours(few), number),
        Column("500,", "last", 8, many, ms),
        Column("", "x", 6, beside_ours(many), number),
        Column("starts", "a s", 7, late("per_s", 500), whole),
        Column("", "of C", 6, late("of_C", 500), percent),
    ]
    return [
        "Starts, of daemons with many jobs: how late, in ms",
        *grid(names, columns, 14),
        *_not_started(figures),
    ]


def _not_started(figures: Figures) -> list[str]:
    lines = []
    for record in figures.records:
        if record["measure"] == "late" and record.get("starts") != record.get("wanted"):
            started = f"{record['starts']:,} of {record['wanted']:,}"
            lines.append(f"{record['who']}, {record['count']} at once: {started} in time")
    return lines


def _kinds(figures: Figures) -> list[str]:
    names = [r["kind"] for r in figures.records if r["measure"] == "kinds"]
    rows = list(dict.fromkeys(names))
    if not rows:
        return []

    def value(key: str) -> Of:
        def of(kind: str) -> Value:
            who = kind if kind.startswith("C-") else OURS
            return figures.get("kinds", who, key, kind=kind)

        return of

    def of_c(kind: str) -> Value:
        beside = value("of_C-shell")(kind)
        return value("of_C-exec")(kind) if beside is None else beside

    columns = [
        Column("first", "ms", 10, value("first_s"), ms),
        Column("last", "ms", 10, value("last_s"), ms),
        Column("starts", "a second", 10, value("per_s"), whole),
        Column("", "of C", 10, of_c, percent),
    ]
    return ["pycron, 500 at once, by kind of command", *grid(rows, columns, 14)]


def _memory(figures: Figures) -> list[str]:
    names = figures.those_of("idle", "running")
    if not names:
        return []

    def idle(key: str, count: int = 1000) -> Of:
        return lambda name: figures.get("idle", name, key, count=count)

    def a_job(name: str) -> Value:
        ways = ("shell", "plain string")
        found = (figures.get("running", name, "kb_a_job", way=way) for way in ways)
        return next((value for value in found if value is not None), None)

    columns = [
        Column("10", "jobs", 7, idle("pss_kb", 10), mb),
        Column("1,000", "jobs", 7, idle("pss_kb"), mb),
        Column("", "x", 7, beside_ours(idle("pss_kb")), number),
        Column("threads", "", 9, idle("threads"), whole),
        Column("CPU ms", "a min", 8, idle("cpu_s_a_minute"), ms),
        Column("wake-ups", "a min", 9, idle("switches_a_minute"), whole),
        Column("KB a run-", "ning job", 10, a_job, number),
        Column("", "x", 6, beside_ours(a_job), number),
    ]
    lines = [
        "Idle (PSS in MB, all at once), and what a running job adds",
        *grid(names, columns, 14),
        *_resident(figures),
    ]
    array = figures.get("running", OURS, "kb_a_job", way="array")
    threads = figures.get("running", OURS, "threads_more", way="array")
    if array is not None:
        lines.append(
            f"pycron's own jobs without a shell: {number(array)} KB and "
            f"{number((threads or 0) / 200)} threads for each that runs"
        )
    return lines


def _resident(figures: Figures) -> list[str]:
    """Return what each would take that shares nothing with the others, at most."""
    sizes = [
        f"{name} {mb(size)}"
        for name in figures.those_of("idle")
        if (size := figures.get("idle", name, "rss_kb", count=1000)) is not None
    ]
    if not sizes:
        return []
    text = f"With what they share counted whole (RSS in MB, 1,000 jobs): {', '.join(sizes)}"
    return textwrap.wrap(text, WIDTH, subsequent_indent="    ")


def _loads(figures: Figures) -> list[str]:
    counts = sorted({r["count"] for r in figures.records if r["measure"] == "load"})
    blocks = ["\n".join(_load_of(figures, count)) for count in counts]
    return ["\n\n".join(blocks)] if blocks else []


def _load_of(figures: Figures, count: int) -> list[str]:
    def load(key: str) -> Of:
        return lambda name: figures.get("load", name, key, count=count)

    columns = [
        Column("ready", "s", 8, load("ready_s"), number),
        Column("", "x", 8, beside_ours(load("ready_s")), number),
        Column("CPU", "s", 8, load("cpu_s"), number),
        Column("", "x", 8, beside_ours(load("cpu_s")), number),
        Column("then", "MB", 8, load("pss_kb"), mb),
        Column("", "x", 8, beside_ours(load("pss_kb")), number),
        Column("peak", "MB", 8, load("peak_kb"), mb),
        Column("", "x", 8, beside_ours(load("peak_kb")), number),
    ]
    names = [name for name in figures.those_of("load") if load("pss_kb")(name) is not None]
    return [f"A crontab of {count:,} jobs", *grid(names, columns, 14)]


def _commands(figures: Figures) -> list[str]:
    names = figures.those_of("commands")
    if not names:
        return []

    def command(key: str) -> Of:
        return lambda name: figures.get("commands", name, key)

    columns = [
        Column("", "ms", 8, command("p50_s"), ms),
        Column("beyond", "bare", 8, command("beyond_bare_s"), ms),
    ]
    return ["Commands, from start to end", *grid(names, columns, 18)]


def _stored(figures: Figures) -> list[str]:
    def of(key: str) -> Value:
        return figures.get("stored", OURS, key)

    count = of("count")
    if count is None:
        return _claims(figures)
    few, many = whole(of("few_per_s")), whole(of("many_per_s"))
    sizes = [mb(of(key)) for key in ("pss_kb_before", "pss_kb", "peak_kb")]
    return [
        f"{whole(count)} stored one-off tasks",
        f"stored a second: {whole(of('stored_per_s'))}; bare inserts: {whole(of('bare_per_s'))}",
        "PSS in MB: {} before, {} with them, peak RSS {}".format(*sizes),
        f"500 due at once, starts a second: {few} before, {many} with them",
        *_claims(figures),
    ]


def _claims(figures: Figures) -> list[str]:
    def of(key: str) -> Value:
        return figures.get("claims", OURS, key)

    if of("ratio") is None:
        return []
    sizes, times = ([of(f"{size}{unit}") for size in ("few", "many")] for unit in ("", "_s"))
    return [
        "ms to claim the next 100 of {} and of {}: ".format(*map(whole, sizes))
        + "{} and {}, {} times".format(*map(ms, times), number(of("ratio")))
    ]


def _crowd(figures: Figures) -> list[str]:
    def of(key: str) -> Value:
        return figures.get("crowd", OURS, key)

    count = of("count")
    if count is None:
        return []
    left = whole(of("left"))
    lone = f"{whole(of('starts'))} of {whole(of('wanted'))}"
    return [
        f"{whole(count)} tasks of one group due at once, 4 workers",
        f"{lone} lone tasks of another, due from 1 s later on, in ms late:",
        f"p50 {ms(of('p50_s'))}, most {ms(of('most_s'))}; then {left} of the crowd left",
        f"peak RSS in MB, until then: {mb(of('peak_kb'))}",
    ]


def _left_out(figures: Figures) -> list[str]:
    found = [r for r in figures.records if r["measure"] == "left out"]
    if not found:
        return []
    lines = ["Left out"]
    for record in found:
        text = f"{record['who']}: {record['why']}"
        lines += textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return lines
