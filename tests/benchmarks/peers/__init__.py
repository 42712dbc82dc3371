"""The other daemons, one small adapter each; a new one goes into a module here and into ``ALL``."""

from __future__ import annotations

from tests.benchmarks.peer import Peer
from tests.benchmarks.peers.classic import Bcron, Busybox, Cron, Cronie, Fcron, Mcron
from tests.benchmarks.peers.containers import Jobber, Supercronic
from tests.benchmarks.peers.libraries import ApScheduler3, ApScheduler4, Croner, NodeCron
from tests.benchmarks.peers.python import Pycroner, Pytocron, Yacron

ALL: tuple[Peer, ...] = (
    Cron(),
    Cronie(),
    Bcron(),
    Busybox(),
    Fcron(),
    Mcron(),
    Supercronic(),
    Jobber(),
    Yacron(),
    Pycroner(),
    Pytocron(),
    ApScheduler3(),
    ApScheduler4(),
    Croner(),
    NodeCron(),
)

UNUSUAL = ("pytocron", "APScheduler 4", "croner", "jobber")
"""Left out unless asked for: an alpha, the slowest, and one library of Node is enough."""

USUAL: tuple[Peer, ...] = tuple(peer for peer in ALL if peer.name not in UNUSUAL)
