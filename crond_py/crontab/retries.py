"""When a job is tried again: what it says of that itself, what it inherits, what cannot be.

How the keys are read by themselves is in ``tables`` and ``outcome_values``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crond_py.crontab.faults import Refused
from crond_py.crontab.fields import Refuse
from crond_py.crontab.source import Table
from crond_py.model import Failure, Retry


def retry_of(values: Mapping[str, Any], refuse: Refuse) -> Retry:
    """Return the model of a ``retry`` table. A ceiling that is not given is no lower than delay."""
    retry = Retry(**values)
    if retry.delay <= retry.max_delay:
        return retry
    if "max_delay" in values:
        refuse(("retry",), Refused("has a max_delay that is shorter than its delay"))
    return Retry(**{**values, "max_delay": retry.delay})


def own_retry(
    table: Table,
    own: Mapping[str, Any],
    inherited: Retry,
    inherited_values: Mapping[str, Any],
    refuse: Refuse,
) -> Retry:
    """Return how a job is tried again: its own keys go over those of the defaults, one by one.

    ``own`` holds what of its ``table`` is good.
    """
    if "retry" in own:
        values = {**inherited_values, **own["retry"]}
        retry = retry_of(values, refuse)
        if "attempts" not in values:
            refuse(("retry",), Refused("does not say how often", "add attempts = 3"))
            return retry
    elif "retry" in table:
        return inherited
    else:
        retry = inherited
    if "retry_on" in own and retry.attempts == 1:
        refuse(
            ("retry_on",),
            Refused("has no meaning: the job is tried once", "add retry = { attempts = 3 }"),
        )
    return retry


def refuse_retry_of_success(
    said: Mapping[str, Any], values: Mapping[str, Any], refuse: Refuse
) -> None:
    """Refuse an exit status that both counts as success and is to be tried again.

    ``said`` is what a table says itself; ``values`` has what it inherits, too.
    """
    if not (said.keys() & {"retry_on", "success_codes"}) or values["retry_on"] is None:
        return
    both = sorted(
        code
        for code in values["retry_on"] & values["success_codes"]
        if not isinstance(code, Failure)
    )
    if not both:
        return
    statuses = ", ".join(map(str, both))
    if "retry_on" in said:
        message = f"has {statuses}, which counts as success"
        refuse(("retry_on",), Refused(message, "take it out, or out of success_codes"))
    else:
        message = f"has {statuses}, which is in retry_on of the defaults"
        refuse(("success_codes",), Refused(message, "take it out of one of them"))
