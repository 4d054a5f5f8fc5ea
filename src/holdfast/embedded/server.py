"""The server: created once, then started, stopped, killed and restarted on the same data."""

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from holdfast.embedded.cluster import START_SECONDS, SUPERUSER, Cluster, TemporaryCluster
from holdfast.embedded.errors import EmbeddedPostgresError
from holdfast.embedded.kept import KeptCluster
from holdfast.embedded.processes import crash

OURS = frozenset({"port", "listen_addresses", "unix_socket_directories", "data_directory"})
STOP_SECONDS = 60.0


class EmbeddedPostgres:
    """A private Postgres server that runs until the end of the ``with`` block, and never longer than this process.

    ``settings`` are Postgres settings by name. ``parent_folder`` is where its folder is made, instead of the temporary
    folder: on a file system in memory, such as ``/dev/shm``, tests run much faster. With ``keep``, a folder, the data
    are there, and stay for the next time. All methods block; in async code, call them in a thread.
    """

    def __init__(
        self,
        settings: Mapping[str, str | int] | None = None,
        bin_folder: str | Path | None = None,
        parent_folder: str | Path | None = None,
        keep: str | Path | None = None,
    ) -> None:
        self._settings = dict(settings or {})
        reserved = OURS & self._settings.keys()
        if reserved:
            raise EmbeddedPostgresError(
                f"The embedded Postgres sets {', '.join(sorted(reserved))} itself; remove it from settings."
            )
        self._wanted_bin_folder = bin_folder
        self._parent_folder = parent_folder
        self._keep = keep
        self._cluster: Cluster | None = None
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
            self._cluster = self._make()
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
        """Stop, and remove the data unless they are kept. Does nothing in a fork of the process that made it."""
        cluster, self._cluster = self._cluster, None
        if cluster is None or cluster.owner != os.getpid():
            return
        self._pid = None
        cluster.close()

    def log(self, limit: int = 4000) -> str:
        """Return the end of the log of initdb and the server."""
        return self._prepared().log_tail(limit)

    def _make(self) -> Cluster:
        if self._keep is not None:
            return KeptCluster(Path(self._keep), self._wanted_bin_folder)
        return TemporaryCluster(self._wanted_bin_folder, self._parent_folder)

    def _prepared(self) -> Cluster:
        if self._cluster is None:
            raise EmbeddedPostgresError(
                "The embedded Postgres is not started; use it as `with EmbeddedPostgres() as …`."
            )
        return self._cluster

    def _launch(self, cluster: Cluster) -> int:
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
