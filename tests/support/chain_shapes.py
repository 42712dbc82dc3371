"""A chain of three and a diamond, and what becomes of all their jobs by what becomes of some.

It is worked out from what pycron.toml(5) says of ``after``, and knows nothing of the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHAPES: dict[str, dict[str, tuple[str, ...]]] = {
    "chain": {"first": (), "second": ("first",), "third": ("second",)},
    "diamond": {"head": (), "left": ("head",), "right": ("head",), "end": ("left", "right")},
}
"""Of each job, which ones must have succeeded."""

PLACES = [(shape, place) for shape, jobs in SHAPES.items() for place in jobs]

FAILURES = {"failed", "timed_out", "lost"}


@dataclass(frozen=True)
class End:
    """How a run ends, why, and after how many attempts."""

    outcome: str
    reason: str = ""
    attempts: int = 1


OK = End("succeeded")


def expected(shape: str, place: str, ends: Mapping[str, End]) -> dict[str, list[End]]:
    """Return how each job may end, by how some do that have begun; all others succeed.

    Beside the shape's own jobs there is ``alarm``, which waits for a place to fail, and ``clean``,
    which waits for whatever becomes of it.
    """
    became: dict[str, list[End]] = {}
    for job, upstreams in SHAPES[shape].items():
        bad = [above for above in upstreams if became[above][0].outcome != "succeeded"]
        # Of two that end at one instant either may be named.
        skipped = [_skipped("upstream_failed", above, became[above][0]) for above in bad]
        became[job] = skipped or [ends.get(job, OK)]
    end = became[place][0]
    alarm = ends.get("alarm", OK)
    is_failure = end.outcome in FAILURES
    became["alarm"] = [alarm if is_failure else _skipped("upstream_not_failed", place, end)]
    became["clean"] = [ends.get("clean", OK)]
    return became


def _skipped(code: str, upstream: str, end: End) -> End:
    verb = "has" if end.outcome in {"succeeded", "failed", "timed_out"} else "was"
    return End("skipped", f"{code}: {upstream} {verb} {end.outcome.replace('_', ' ')}", 0)
