"""The server: created once, then started, stopped, killed and restarted on the same data."""

import contextlib
import os
import random
import secrets
import signal
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from holdfast.embedded.account import Account, server_account
from holdfast.embedded.binaries import Binaries, find_bin_folder, prepare, require_bin_folder
from holdfast.embedded.errors import EmbeddedPostgresError
from holdfast.embedded.processes import crash
from holdfast.embedded.reaper import Reaper

SUPERUSER = "postgres"
OURS = frozenset({"port", "listen_addresses", "unix_socket_directories", "data_directory"})
START_SECONDS = 60.0
STOP_SECONDS = 60.0
SOCKET_PATH_LIMIT = 100  # the kernel's is 104 on macOS, 108 on Linux


class EmbeddedPostgres:
    """A private Postgres server that runs until the end of the ``with`` block, and never longer than this process.

    ``settings`` are Postgres settings by name. All methods block; in async code, call them in a thread.
    """

    def __init__(self, settings: Mapping[str, str | int] | None = None, bin_folder: str | Path | None = None) -> None:
        self._settings = dict(settings or {})
        reserved = OURS & self._settings.keys()
        if reserved:
            raise EmbeddedPostgresError(
                f"The embedded Postgres sets {', '.join(sorted(reserved))} itself; remove it from settings."
            )
        self._wanted_bin_folder = bin_folder
        self._cluster: _Cluster | None = None
        self._pid: int | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "not started" if self._cluster is None else f"port {self._cluster.port}, pid {self._pid}"
        return f"<EmbeddedPostgres {state}>"

    # What it is

    @property
    def url(self) -> str:
        """URL of the database ``postgres`` over TCP on 127.0.0.1, as superuser, with the password."""
        return self.url_for("postgres")

    def url_for(self, database: str) -> str:
        """Return the URL of another database of this server."""
        cluster = self._prepared()
        return f"postgresql://{SUPERUSER}:{cluster.password}@127.0.0.1:{cluster.port}/{quote(database, safe='')}"

    @property
    def socket_folder(self) -> Path:
        """Folder of the Unix socket; use it as the host, together with `port`."""
        return self._prepared().sockets

    @property
    def port(self) -> int:
        """Port for TCP, and in the name of the Unix socket."""
        return self._prepared().port

    @property
    def password(self) -> str:
        """Password of the superuser ``postgres``."""
        return self._prepared().password

    @property
    def version(self) -> str:
        """Version of the server, such as ``18.6``."""
        return self._prepared().binaries.version

    @property
    def data_folder(self) -> Path:
        """The data folder, private to the account that runs the server."""
        return self._prepared().data

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster; None while the server is down."""
        return self._pid

    # What it does

    def start(self) -> None:
        """Start the server, and create it first if needed. On return, it accepts connections."""
        if self._pid is not None:
            return
        if self._cluster is None:
            self._cluster = _Cluster(self._wanted_bin_folder)
        cluster = self._cluster
        try:
            self._pid = self._launch(cluster)
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Shut down cleanly and close open connections. The data stay for another `start`."""
        if self._pid is None or self._cluster is None:
            return
        pid, self._pid = self._pid, None
        for number, patience in (
            (signal.SIGINT, STOP_SECONDS),
            (signal.SIGQUIT, 10.0),
            (signal.SIGKILL, 10.0),
        ):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            if self._cluster.reaper.wait(patience) is not None:
                return
        raise EmbeddedPostgresError(f"Postgres (pid {pid}) did not end, even after SIGKILL.")

    def restart(self) -> None:
        """Stop and start, on the same data and the same port."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Crash: SIGKILL the postmaster and all its children. The next `start` recovers."""
        if self._pid is None or self._cluster is None:
            return
        pid, self._pid = self._pid, None
        crash(pid)
        if self._cluster.reaper.wait(10) is None:
            raise EmbeddedPostgresError(f"Postgres (pid {pid}) did not end after SIGKILL.")

    def close(self) -> None:
        """Stop, and remove the data. Does nothing in a fork of the process that created the server."""
        cluster, self._cluster = self._cluster, None
        if cluster is None or cluster.owner != os.getpid():
            return
        self._pid = None
        cluster.close()

    def log(self, limit: int = 4000) -> str:
        """Return the end of the log of initdb and the server."""
        return self._prepared().log_tail(limit)

    def _prepared(self) -> "_Cluster":
        if self._cluster is None:
            raise EmbeddedPostgresError(
                "The embedded Postgres is not started; use it as `with EmbeddedPostgres() as …`."
            )
        return self._cluster

    def _launch(self, cluster: "_Cluster") -> int:
        pid = cluster.reaper.spawn(cluster.command(self._settings))
        deadline = time.monotonic() + START_SECONDS
        while not cluster.is_ready(pid):
            code = cluster.reaper.wait(0.01)
            if code is not None:
                raise EmbeddedPostgresError(
                    f"Postgres {cluster.binaries.version} was expected to start, but ended with code {code}. "
                    f"Its log:\n{cluster.log_tail(2000)}"
                )
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"Postgres {cluster.binaries.version} was not ready after {START_SECONDS:.0f} s. Its log:\n"
                    f"{cluster.log_tail(2000)}"
                )
        return pid


class _Cluster:
    """What outlives a run of the server: folder, binaries, password, port and reaper."""

    def __init__(self, bin_folder: str | Path | None) -> None:
        account = server_account()
        chosen = find_bin_folder() if bin_folder is None else require_bin_folder(Path(bin_folder), "bin_folder")
        self.owner = os.getpid()
        self.password = secrets.token_urlsafe(24)
        self.port = _free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=_parent_folder(account)))
        self.data = self.folder / "data"
        self.sockets = self.folder / "sockets"
        self._log = os.open(self.folder / "log", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self.reaper = Reaper(self.folder, account, self._log)
        try:
            self._fill_folder(account)
            self.binaries: Binaries = prepare(chosen, account, self.folder / "binaries")
            self._initdb()
        except BaseException:
            self.close()
            raise

    def _fill_folder(self, account: Account) -> None:
        """Create everything in the folder while it is ours, and then change its owner."""
        password_file = self.folder / "password"
        password_file.touch(0o600, exist_ok=False)
        password_file.write_text(self.password + "\n")
        self.data.mkdir(0o700)
        self.sockets.mkdir(0o700)
        if account.switch:
            for path in (password_file, self.data, self.sockets, self.folder):
                os.chown(path, account.uid, account.gid)

    def _initdb(self) -> None:
        password_file = self.folder / "password"
        self.reaper.spawn(
            [
                str(self.binaries.folder / "initdb"),
                f"--pgdata={self.data}",
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
        password_file.unlink()

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


def _parent_folder(account: Account) -> str:
    """Return a temporary folder that the account can enter, with a path short enough for a socket."""
    tried = dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"])  # noqa: S108
    for parent in tried:
        socket_path = f"{parent}/holdfast-pg-12345678/sockets/.s.PGSQL.12345.lock"
        if len(os.fsencode(socket_path)) > SOCKET_PATH_LIMIT or not os.access(parent, os.W_OK | os.X_OK):
            continue
        if not account.switch or account.can_enter(parent):
            return parent
    raise EmbeddedPostgresError(
        f"The embedded Postgres needs a temporary folder with a short path that {account.name} can enter; "
        f"tried {', '.join(tried)}. Set TMPDIR to such a folder."
    )


def _free_port() -> int:
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
