"""A folder whose data stay: the next server starts on them, with the same password and, if free, the same port."""

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import socket
import time
from pathlib import Path

from holdfast.embedded.binaries import prepare
from holdfast.embedded.cluster import SOCKET_PATH_LIMIT, Cluster, free_port
from holdfast.embedded.errors import EmbeddedPostgresError
from holdfast.embedded.processes import is_alive
from holdfast.embedded.reaper import Reaper

ORPHAN_SECONDS = 20.0


class KeptCluster(Cluster):
    """One process at a time may use the folder. The reaper stops the server, and leaves the folder."""

    def __init__(self, folder: Path, bin_folder: str | Path | None) -> None:
        super().__init__(bin_folder)
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = self._lock_folder()
        try:
            self._require_entry()
            self._stop_orphan()
            self.password = self._same("password", secrets.token_urlsafe(24))
            self.port = self._same_port()
            self._log = os.open(self.folder / "log", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        except BaseException:
            os.close(self._lock)
            raise
        self.reaper = Reaper(self.folder, self.account, self._log, keep=True)
        try:
            shutil.rmtree(self.folder / "binaries", ignore_errors=True)  # a copy, perhaps of another version
            self.binaries = prepare(self.chosen, self.account, self.folder / "binaries")
            self._make_data()
            self._require_version()
        except BaseException:
            self.close()
            raise

    def command(self, settings: "dict[str, str | int]") -> list[str]:  # type: ignore[override]
        """Without a Unix socket if its path would be too long."""
        argv = super().command(settings)
        if len(os.fsencode(self.sockets / f".s.PGSQL.{self.port}.lock")) > SOCKET_PATH_LIMIT:
            argv += ["-c", "unix_socket_directories="]
        return argv

    def close(self) -> None:
        super().close()
        os.close(self._lock)

    def _lock_folder(self) -> int:
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
            os.close(lock)
            raise EmbeddedPostgresError(
                f"The Postgres in {self.folder} is in use by process {holder}. Stop that one first, "
                "or start in another folder."
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(self.owner).encode(), 0)
        return lock

    def _require_entry(self) -> None:
        if self.account.switch and not self.account.can_enter(str(self.folder)):
            raise EmbeddedPostgresError(
                f"Postgres does not run as root, so it runs as {self.account.name} here, which cannot enter "
                f"{self.folder}. Run this as an ordinary user, or in a folder that all users can enter."
            )

    def _same(self, name: str, new: str) -> str:
        """What the file says; the first time, it is made."""
        file = self.folder / name
        if not file.exists():
            file.touch(0o600)
            file.write_text(new + "\n")
        self._give_away(file)
        return file.read_text().strip()

    def _same_port(self) -> int:
        port = int(self._same("port", str(free_port())))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Postgres: connections of before may linger
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
        (self.folder / "port").unlink()
        return int(self._same("port", str(free_port())))

    def _make_data(self) -> None:
        """Created under another name: what an interrupted initdb leaves must not look like data."""
        self.sockets.mkdir(0o700, exist_ok=True)
        self._give_away(self.sockets)
        if self.data.exists():
            return
        unfinished = self.folder / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(0o700)
        self._give_away(unfinished)
        self._initdb(unfinished, self.folder / "password")
        unfinished.rename(self.data)

    def _require_version(self) -> None:
        made_by = (self.data / "PG_VERSION").read_text().strip()
        if made_by != self.binaries.version.split(".")[0]:
            raise EmbeddedPostgresError(
                f"The data in {self.folder} were made by Postgres {made_by}, but the binaries in {self.chosen} are of "
                f"{self.binaries.version}. Remove the folder to begin with no data, or set HOLDFAST_POSTGRES_BIN to "
                f"the bin folder of Postgres {made_by}."
            )

    def _stop_orphan(self) -> None:
        """A server whose owner and reaper were both killed still runs. The folder is locked, so it is nobody's."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            ours = Path(f"/proc/{pid}/cwd").readlink() == self.data
        except (OSError, ValueError, IndexError):
            return
        if not ours:
            return  # another process has got this number
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + ORPHAN_SECONDS
        while is_alive(pid):
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"A Postgres that was left behind (pid {pid}) does not end; kill it.")
            time.sleep(0.02)
