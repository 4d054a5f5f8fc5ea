"""What outlives a run of the server: its folder, binaries, password, port and reaper."""

import os
import random
import secrets
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

from holdfast.embedded.account import Account, server_account
from holdfast.embedded.binaries import Binaries, find_bin_folder, prepare, require_bin_folder
from holdfast.embedded.errors import EmbeddedPostgresError
from holdfast.embedded.reaper import Reaper

SUPERUSER = "postgres"
START_SECONDS = 60.0
SOCKET_PATH_LIMIT = 100  # the kernel's is 104 on macOS, 108 on Linux


class Cluster:
    """A folder with a data folder in it, for one server at a time."""

    folder: Path
    binaries: Binaries
    password: str
    port: int
    reaper: Reaper
    _log: int

    def __init__(self, bin_folder: str | Path | None) -> None:
        self.account = server_account()
        self.chosen = find_bin_folder() if bin_folder is None else require_bin_folder(Path(bin_folder), "bin_folder")
        self.owner = os.getpid()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def sockets(self) -> Path:
        return self.folder / "sockets"

    def _give_away(self, *paths: Path) -> None:
        """To the account that runs the server."""
        if self.account.switch:
            for path in paths:
                os.chown(path, self.account.uid, self.account.gid)

    def _initdb(self, data: Path, password_file: Path) -> None:
        self.reaper.spawn(
            [
                str(self.binaries.folder / "initdb"),
                f"--pgdata={data}",
                f"--username={SUPERUSER}",
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",  # a crash of the machine now loses nothing: nothing is stored yet
                "--no-instructions",
            ]
        )
        code = self.reaper.wait(START_SECONDS)
        if code != 0:
            what = f"did not end within {START_SECONDS:.0f} s" if code is None else f"ended with code {code}"
            raise EmbeddedPostgresError(
                f"initdb of Postgres {self.binaries.version} was expected to create a database, but {what}. "
                f"Its output:\n{self.log_tail(2000)}"
            )

    def command(self, settings: Mapping[str, str | int]) -> list[str]:
        everything = {
            **settings,
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.sockets,
        }
        options = [word for name, value in everything.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binaries.folder / "postgres"), "-D", str(self.data), *options]

    def is_ready(self, pid: int) -> bool:
        """Return whether the server is ready, as pg_ctl does: by lines 1 and 8 of the postmaster's pid file."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def log_tail(self, limit: int) -> str:
        size = os.fstat(self._log).st_size
        return os.pread(self._log, limit, max(0, size - limit)).decode(errors="replace")

    def close(self) -> None:
        self.reaper.close()
        os.close(self._log)


class TemporaryCluster(Cluster):
    """In a temporary folder, which the reaper removes."""

    def __init__(self, bin_folder: str | Path | None, parent_folder: str | Path | None) -> None:
        super().__init__(bin_folder)
        self.password = secrets.token_urlsafe(24)
        self.port = free_port()
        parent = parent_folder_for(self.account, parent_folder)
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=parent))
        self._log = os.open(self.folder / "log", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self.reaper = Reaper(self.folder, self.account, self._log)
        try:
            password_file = self._fill_folder()
            self.binaries = prepare(self.chosen, self.account, self.folder / "binaries")
            self._initdb(self.data, password_file)
            password_file.unlink()
        except BaseException:
            self.close()
            raise

    def _fill_folder(self) -> Path:
        """Create everything in the folder while it is ours, and then change its owner."""
        password_file = self.folder / "password"
        password_file.touch(0o600, exist_ok=False)
        password_file.write_text(self.password + "\n")
        self.data.mkdir(0o700)
        self.sockets.mkdir(0o700)
        self._give_away(password_file, self.data, self.sockets, self.folder)
        return password_file


def parent_folder_for(account: Account, wanted: str | Path | None = None) -> str:
    """Return a temporary folder that the account can enter, with a path short enough for a socket."""
    usual = [tempfile.gettempdir(), "/tmp", "/var/tmp"]  # noqa: S108
    tried = dict.fromkeys(usual if wanted is None else [str(wanted)])
    for parent in tried:
        socket_path = f"{parent}/holdfast-pg-12345678/sockets/.s.PGSQL.12345.lock"
        if len(os.fsencode(socket_path)) > SOCKET_PATH_LIMIT or not os.access(parent, os.W_OK | os.X_OK):
            continue
        if not account.switch or account.can_enter(parent):
            return parent
    raise EmbeddedPostgresError(
        f"The embedded Postgres needs a temporary folder with a short path that {account.name} can enter; "
        f"tried {', '.join(tried)}. Set {'TMPDIR' if wanted is None else 'parent_folder'} to such a folder."
    )


def free_port() -> int:
    """Return a free port below the range from which the kernel assigns ports.

    If a client keeps connecting to a port in that range while the server is down, the kernel may assign it that same
    port as its own. The client then talks to itself, and the server cannot start again.
    """
    for _ in range(200):
        port = random.randint(15_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise EmbeddedPostgresError("No free TCP port was found on 127.0.0.1 between 15000 and 32000.")
