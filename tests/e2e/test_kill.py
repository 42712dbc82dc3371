"""The daemon is killed at random moments under load, and an outside auditor looks at what is left.

Jobs of all policies, about fifty starts a second. What they wrote about themselves and what the
ledger says is compared by ``tests.support.auditor``, which knows nothing of the code under test.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import select
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from crond_py.clock import SystemClock
from tests.support.auditor import Evidence, audit
from tests.support.daemon import ENDS, PATIENCE_S, Daemon
from tests.support.mixture import Mixture, mix
from tests.support.witness import Word, read_ledger, read_words, to_us, unended, write_word

LONGEST_LIFE_S = 1.8
"""A daemon lives for up to this long; its start takes a part of it, so that is hit, too."""


class Attack:
    """Starts and kills a daemon again and again, and remembers what it was answered."""

    def __init__(self, daemon: Daemon, mixture: Mixture, seed: int) -> None:
        self.daemon = daemon
        self.mixture = mixture
        self.random = random.Random(seed)
        self.ends: list[int] = []
        self.cancelled: set[int] = set()
        self.triggered: set[int] = set()

    def strike(self) -> None:
        """Start the daemon, let it live for a random time, kill it; often jobs die with it.

        Now and then it is told to stop, and perhaps killed before it is through with that.
        """
        # Where the machine is busy, starts take long; now and then one is let come to its end.
        self.daemon.start(None, "--stop-timeout", "300ms", is_up=self.random.random() < 0.4)
        self._let_live(self.random.uniform(0.02, LONGEST_LIFE_S))
        asked = None
        if self.random.random() < 0.4:
            asked = self._ask()
            self._let_live(self.random.uniform(0.1, 1.2))
        if self.random.random() < 0.2:
            self.daemon.signal(signal.SIGTERM)
            self._let_live(self.random.uniform(0, 0.6), may_end=True)
        self.daemon.signal(signal.SIGKILL)
        assert self.daemon.wait_exit() in {-signal.SIGKILL, -signal.SIGTERM, 0}
        self.ends.append(to_us(SystemClock().now()))
        if asked is not None:
            self._hear(*asked)
        share = self.random.choice([0, 0, 0.3, 1])
        for word in unended(read_words(self.daemon.out)):
            _look_at(word, self.daemon.out, is_killed=self.random.random() < share)

    def _let_live(self, seconds: float, *, may_end: bool = False) -> None:
        assert self.daemon.process is not None
        pidfd = os.pidfd_open(self.daemon.pid)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            has_ended = poll.poll(seconds * 1000)
            assert may_end or not has_ended, f"it ended by itself\n{self.daemon.log.text()}"
        finally:
            os.close(pidfd)

    def _ask(self) -> tuple[str, subprocess.Popen[str]]:
        """Begin to cancel a job's runs, or to trigger one; the answer may never come."""
        rule = self.random.choice(self.mixture.rules)
        command = self.random.choice(["cancel", "trigger"])
        more = ["--json"] if command == "cancel" else []
        process = subprocess.Popen(
            [*self.daemon.command, command, rule.job, *more],
            env=self.daemon.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return command, process

    def _hear(self, command: str, process: subprocess.Popen[str]) -> None:
        answer, complaint = process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in complaint
        if process.returncode != 0:
            return
        if command == "trigger":
            self.triggered.add(int(answer))
        else:
            self._note_cancelled(answer)

    def _note_cancelled(self, answer: str) -> None:
        told = json.loads(answer)
        self.cancelled |= {item["run"] for item in told if item["outcome"] == "cancelled"}

    def finish(self) -> Evidence:
        """Let a last daemon go on for a while, end all that is open, and stop it.

        Jobs that are slower than their beat and make up all that they missed have got far behind.
        """
        began = to_us(SystemClock().now())
        log = self.daemon.start()
        log.wait("run succeeded", count=20)
        self.daemon.write(mix(is_enabled=False).text)
        self.daemon.cli("reload")
        runs_of = Counter(active["job"] for active in self.daemon.status()["active"])
        for job in (job for job, number in runs_of.items() if number > 3):
            self._note_cancelled(self.daemon.cli("cancel", job, "--json", check=None).stdout)
        for active in self.daemon.status()["active"]:
            log.wait(ENDS, run=active["run"])
        self.daemon.stop()
        return Evidence(
            rules=self.mixture.rules,
            words=tuple(read_words(self.daemon.out)),
            book=read_ledger(self.daemon.ledger),
            ended_at=tuple(self.ends),
            until=began,
            cancelled=frozenset(self.cancelled),
            triggered=frozenset(self.triggered),
        )


def _look_at(word: Word, out: Path, *, is_killed: bool) -> None:
    """Write down that a job's process is gone, if it is; ``is_killed``: end it, with its group.

    It may have ended without a word because the daemon was just ending it when it was killed.
    """
    with ExitStack() as stack:
        pidfd = _hold(word)
        if pidfd is not None:
            stack.callback(os.close, pidfd)
            if not is_killed:
                return
            with suppress(ProcessLookupError):
                os.killpg(word.pid, signal.SIGKILL)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            assert poll.poll(PATIENCE_S * 1000), f"process {word.pid} lives on"
    write_word(out, replace(word, kind="gone", uptime=SystemClock().monotonic_ns() / 1e9))


def _hold(word: Word) -> int | None:
    """Return a descriptor of the process that has spoken, or None if it is gone."""
    try:
        pidfd = os.pidfd_open(word.pid)
    except ProcessLookupError:
        return None
    with suppress(OSError):
        environment = Path(f"/proc/{word.pid}/environ").read_bytes().split(b"\0")
        if f"PYCRON_RUN_ID={word.tag}".encode() in environment:
            return pidfd
    os.close(pidfd)
    return None


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.long)])
def test_killed_at_random_moments(daemon: Daemon, kills: int) -> None:
    """However often the daemon is killed, each occurrence is dealt with as promised (P1, P2, P5).

    None ran twice under ``on_crash = "lost"``, none is missing, each has one outcome that agrees
    with what the command itself wrote, and no two were alive at once under ``skip`` and ``queue``
    (P3: ``rerun`` is a further attempt of the same run). What a command was told holds, too.
    """
    seed = int(os.environ.get("PYCRON_TEST_SEED", "") or secrets.randbelow(10**9))
    sys.stdout.write(f"PYCRON_TEST_SEED={seed}\n")
    mixture = mix()
    daemon.write(mixture.text)
    attack = Attack(daemon, mixture, seed)
    for _ in range(kills):
        attack.strike()
    evidence = attack.finish()
    _tell(evidence)
    assert evidence.words, "nothing ran, so nothing was shown"
    assert audit(evidence) == []


def _tell(evidence: Evidence) -> None:
    """Say how much was at stake."""
    outcomes = Counter(run.outcome for run in evidence.book.runs)
    begun = sum(word.kind == "begin" for word in evidence.words)
    killed = sum(word.kind == "gone" for word in evidence.words)
    sys.stdout.write(
        f"{len(evidence.ended_at)} ends of the daemon, {begun} processes, "
        f"{killed} of them without an end, "
        f"{len(evidence.cancelled)} runs cancelled, {len(evidence.triggered)} triggered\n"
        f"{dict(outcomes)}\n"
    )
