"""Where pycron keeps its things unless it is told otherwise. Makes and opens nothing.

The superuser's daemon is the system's: ``/etc/pycron/crontab.toml`` and ``/var/lib/pycron``.
Everybody else's are where the XDG Base Directory Specification puts configuration and state.
The environment (PYCRON_CRONTAB, PYCRON_STATE_DIR) goes before that, an option before both.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from crond_py.dataclass import dataclass
from crond_py.errors import UsageError

CRONTAB_VARIABLE = "PYCRON_CRONTAB"
STATE_DIR_VARIABLE = "PYCRON_STATE_DIR"

_SYSTEM_CRONTAB = Path("/etc/pycron/crontab.toml")
_SYSTEM_STATE_DIR = Path("/var/lib/pycron")


def control_socket(state_dir: Path) -> Path:
    """Return where the daemon on this state directory listens."""
    return state_dir / "control.sock"


def ledger_file(state_dir: Path) -> Path:
    """Return where the ledger of this state directory is."""
    return state_dir / "ledger.sqlite"


def way_in(state_dir: Path) -> str:
    """Say to who may not use what is in a state directory what would let them."""
    try:
        uid = state_dir.stat().st_uid
    except OSError:
        return "be its owner or root for that, or name another --state-dir"
    if uid == os.geteuid():
        return f"look at the rights of {state_dir} and of what is in it"
    who = "root" if uid == 0 else f"{_user_name(uid)} or root"
    return f"be {who} for that, or name another --state-dir"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


@dataclass(frozen=True, slots=True)
class Places:
    """The crontab, and the directory that everything pycron writes is in. Absolute paths."""

    crontab: Path
    state_dir: Path

    @property
    def socket(self) -> Path:
        """The control socket of the daemon on this state directory."""
        return control_socket(self.state_dir)

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return ledger_file(self.state_dir)

    @property
    def let_go(self) -> Path:
        """The note of which starts have been let go."""
        return self.state_dir / "let-go"


def find_places(
    *,
    crontab: Path | None = None,
    state_dir: Path | None = None,
    environ: Mapping[str, str] | None = None,
    uid: int | None = None,
) -> Places:
    """Return the places for ``uid``: as given, else as the environment says, else the usual ones.

    A relative path is one below the current directory. Raises UsageError where a usual place is
    needed and the user has no home directory.
    """
    environ = os.environ if environ is None else environ
    uid = os.geteuid() if uid is None else uid
    crontab = crontab or _from_environ(environ, CRONTAB_VARIABLE)
    state_dir = state_dir or _from_environ(environ, STATE_DIR_VARIABLE)
    if crontab is None:
        crontab = (
            _SYSTEM_CRONTAB
            if uid == 0
            else _xdg(environ, "XDG_CONFIG_HOME", ".config", uid) / "crontab.toml"
        )
    if state_dir is None:
        state_dir = (
            _SYSTEM_STATE_DIR if uid == 0 else _xdg(environ, "XDG_STATE_HOME", ".local/state", uid)
        )
    return Places(crontab.absolute(), state_dir.absolute())


def _from_environ(environ: Mapping[str, str], name: str) -> Path | None:
    value = environ.get(name, "")
    return Path(value) if value else None


def _xdg(environ: Mapping[str, str], name: str, below_home: str, uid: int) -> Path:
    """Return pycron's directory below an XDG base; a relative base is ignored, as it says there."""
    base = environ.get(name, "")
    if base.startswith("/"):
        return Path(base, "pycron")
    return _home(environ, uid) / below_home / "pycron"


def _home(environ: Mapping[str, str], uid: int) -> Path:
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        try:
            home = pwd.getpwuid(uid).pw_dir
        except KeyError:
            home = ""
    if not home.startswith("/"):
        raise UsageError(
            f"user {uid} has no home directory, so there is no usual place for pycron's files; "
            f"give --state-dir and the crontab, or set {STATE_DIR_VARIABLE} and {CRONTAB_VARIABLE}"
        )
    return Path(home)
