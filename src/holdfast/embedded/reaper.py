"""Our end of the pipe to the reaper process."""

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.embedded.account import Account
from holdfast.embedded.errors import EmbeddedPostgresError

SCRIPT = Path(__file__).with_name("reaper_process.py")


class Reaper:
    """The reaper of a folder. When it is closed or this process ends, it stops what it runs, and removes the folder
    unless it is to keep it.
    """

    def __init__(self, folder: Path, account: Account, log: int, keep: bool = False) -> None:
        who = [str(account.uid), str(account.gid)] if account.switch else ["", ""]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SCRIPT), str(os.getpid()), str(folder), *who, "keep" if keep else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env=_server_environment(),
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to = self._process.stdin
        self._from = self._process.stdout
        self._received = b""

    def spawn(self, argv: Sequence[str]) -> int:
        """Have the reaper start a process; return its pid. The previous process must have ended."""
        try:
            self._to.write(json.dumps(list(argv)).encode() + b"\n")
            self._to.flush()
        except BrokenPipeError:
            raise self._broken() from None
        reply = self._read(60)
        if reply is None:
            raise EmbeddedPostgresError(f"The reaper of the embedded Postgres did not start {argv[0]} within a minute.")
        if "error" in reply:
            raise EmbeddedPostgresError(f"{argv[0]} could not be started: {reply['error']}")
        return int(reply["pid"])

    def wait(self, seconds: float) -> int | None:
        """Return the exit code of the process, or None if it still runs after `seconds`."""
        reply = self._read(seconds)
        return None if reply is None else int(reply["exit"])

    def close(self) -> None:
        """Close the pipe, and return when the reaper has cleaned up."""
        self._to.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            raise EmbeddedPostgresError(
                f"The reaper of the embedded Postgres (pid {self._process.pid}) did not clean up within a minute."
            ) from None
        finally:
            self._from.close()

    def _read(self, seconds: float) -> dict[str, str] | None:
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._from, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                received = os.read(self._from.fileno(), 65536)
                if not received:
                    raise self._broken()
                self._received += received
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, str] = json.loads(line)
        return message

    def _broken(self) -> EmbeddedPostgresError:
        return EmbeddedPostgresError(
            f"The reaper of the embedded Postgres (pid {self._process.pid}) ended unexpectedly. Was it killed?"
        )


def _server_environment() -> dict[str, str]:
    """Return our environment without PG* variables, which would redirect the server, and with messages in English."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C"}
