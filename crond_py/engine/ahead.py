"""How long before its instant an occurrence is claimed, and looked at again if it is not yet free.

Of few, so long that the disk does not delay the start; of many of one instant, so long that all are
claimed and made ready by then. A daemon that is killed meanwhile has claimed what it has not
started; of few nobody can tell by then, so it is no longer than it has to be.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

AHEAD: Final = timedelta(milliseconds=10)
"""How long before its instant an occurrence is claimed of which there are not many."""

LEADS: Final = (
    (256, timedelta(milliseconds=700)),
    (24, timedelta(milliseconds=250)),
    (0, AHEAD),
)
"""How many are due at an instant, at least, and how long before it they are claimed then.

Most jobs are due at whole seconds, so that is not when to be busy with those of the next one.
"""

FARTHEST_AHEAD: Final = LEADS[0][1]

EARLY: Final = timedelta(milliseconds=2)
"""A timer that fires earlier than this was set by another reading of the clock."""

LONGEST_AHEAD: Final = FARTHEST_AHEAD + timedelta(milliseconds=10)
"""A claim is never made longer before its instant than this; more is a clock that was set back."""


def is_held(due: datetime, begun_at: datetime) -> bool:
    """Tell whether an attempt has begun long before its instant, so that its start is held for it.

    What is claimed ten milliseconds ahead is not: no daemon is there again within these.
    """
    return AHEAD + EARLY < due - begun_at <= LONGEST_AHEAD


def lead_of_next_look(remaining: timedelta) -> timedelta:
    """Return how long before its instant an occurrence is looked at next that is ``remaining`` off.

    The last time is at the instant itself.
    """
    return next((lead for _, lead in LEADS if lead + EARLY < remaining), timedelta(0))
