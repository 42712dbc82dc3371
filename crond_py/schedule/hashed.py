"""What ``H`` stands for: numbers that differ from job to job and never change for one.

This is the only importer of croniter. Its hashing and stepping are used as they are; its reading
of expressions and its walk from instant to instant are not, because they differ from Debian's
cron in many places (a range of one value, a star with a step in a day field, both kinds of clock
change, dates that never come). It is imported when the first ``H`` is met and not before: that
takes longer than all the rest of a small crontab.
"""

from __future__ import annotations

from typing import Final

_SLOT: Final = "{} * * * *"


def hashed_values(
    field: str, low: int, high: int, step: int | None, hash_key: str
) -> tuple[int, ...]:
    """Return the number from ``low`` to ``high`` that ``hash_key`` stands for in that field.

    With ``step``, every step-th number from a hashed beginning that is less than a step from
    ``low``. The numbers depend on nothing but the arguments.
    """
    if step == 1:
        return tuple(range(low, high + 1))
    from croniter import croniter  # noqa: PLC0415 - see above

    stride = "" if step is None else f"/{step}"
    # The minute field serves for all: it takes any of the ranges that others have. The field's
    # name goes into the hash, or a minute and an hour would depend on each other.
    expression = _SLOT.format(f"H({low}-{high}){stride}")
    key = f"{hash_key}\0{field}".encode("utf-8", "surrogatepass")
    return tuple(int(number) for number in croniter.expand(expression, hash_id=key)[0][0])
