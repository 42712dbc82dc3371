"""What a job or a task says that comes to nothing: keys without an effect, groups almost known.

It is good all the same; whoever wrote it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from crond_py.crontab.faults import nearest
from crond_py.model import Missed, Overlap

# Each key, the one that it depends on, and the values of that with which it has an effect.
_DEPENDS: Final = (
    ("queue_limit", "overlap", (Overlap.QUEUE,)),
    ("max_running", "overlap", (Overlap.ALLOW,)),
    ("missed_limit", "missed", (Missed.ALL,)),
    ("missed_within", "missed", (Missed.ONCE, Missed.ALL)),
)


def keys_without_effect(
    is_said: Callable[[str], bool], value_of: Callable[[str], object]
) -> Iterator[tuple[str, str]]:
    """Yield each key that ``is_said`` and has no effect, and why, by the value of another one."""
    for key, other, needed in _DEPENDS:
        if is_said(key) and value_of(other) not in needed:
            words = " or ".join(f'{other} = "{word}"' for word in needed)
            yield key, f"has no effect without {words}"


def fault_of_group(group: str, known: Collection[str]) -> str:
    """Say of a group without a table that its name is almost one of those which have one, or ""."""
    if group in known or not (likely := nearest(group, known)):
        return ""
    return f"has no table [groups.{group}], and so weight 1; {likely}"
