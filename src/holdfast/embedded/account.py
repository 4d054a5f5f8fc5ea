"""The account that runs the server: our own, or an unprivileged one if we are root."""

import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.embedded.errors import EmbeddedPostgresError

PREFERRED = ("postgres", "_postgres", "nobody", "daemon")


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the operating system. With `switch`, it is not our own, so processes must switch to it."""

    name: str
    uid: int
    gid: int
    switch: bool

    def try_run(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a short command as this account. Raises OSError if the account may not execute it."""
        if not self.switch:
            return subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=60, check=False)
        return subprocess.run(
            argv,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            user=self.uid,
            group=self.gid,
            extra_groups=[],
        )

    def can_enter(self, folder: str) -> bool:
        """Return whether this account can enter `folder`, found out by trying."""
        try:
            return self.try_run(["/bin/sh", "-c", 'cd "$0"', folder]).returncode == 0
        except OSError:
            return False


def server_account() -> Account:
    """Return the account that the server will run as. Postgres refuses root and needs an entry in the user database."""
    if sys.platform == "win32":
        raise EmbeddedPostgresError(
            "The embedded Postgres needs a POSIX system, but this is Windows. "
            "Point HOLDFAST_DATABASE_URL at a running server instead."
        )
    if os.geteuid() == 0:
        return _unprivileged()
    try:
        entry = pwd.getpwuid(os.geteuid())
    except KeyError:
        raise EmbeddedPostgresError(
            f"Postgres must run as a user in the user database, but uid {os.geteuid()} has no entry there. "
            "Run as a named user (for a container: add it to /etc/passwd), "
            "or point HOLDFAST_DATABASE_URL at a running server."
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=False)


def _unprivileged() -> Account:
    known = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    known.sort(key=lambda entry: PREFERRED.index(entry.pw_name) if entry.pw_name in PREFERRED else len(PREFERRED))
    if not known:
        raise EmbeddedPostgresError(
            "Postgres refuses to run as root, and the user database has no other user. "
            "Add an unprivileged user (useradd --system postgres), "
            "or point HOLDFAST_DATABASE_URL at a running server."
        )
    entry = known[0]
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)
