"""A PgBouncer in transaction mode between the library and the server.

HOLDFAST_TEST_POOLER=1 sends everything that the library does through one; HOLDFAST_TEST_PGBOUNCER names the program,
else it is looked for (Debian: apt install pgbouncer). What tests ask for themselves goes to the server `direct`.
"""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from holdfast.db.database import Database
from holdfast.embedded.account import server_account
from holdfast.embedded.cluster import free_port, parent_folder_for
from holdfast.embedded.reaper import Reaper

SESSIONS = 20
"""How many sessions of the server the clients of one database share."""

_CONFIGURATION = """
[databases]
* = host={host} port={server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 1000
auth_type = {auth_type}
auth_file = {folder}/users
auth_user = {user}
auth_query = select usename, passwd from pg_shadow where usename = $1
server_login_retry = 0.1
"""

_behind: dict[int, str] = {}
"""The port of each pooler that runs, and host and port of the server behind it."""


def wants_pooler() -> bool:
    return os.environ.get("HOLDFAST_TEST_POOLER") == "1"


def direct(url: str) -> str:
    """The same database without a pooler in between."""
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{login}{at}{_behind.get(parts.port or 0, place)}"))


def database_at(url: str, schema: str = "holdfast") -> Database:
    """The installation at this address, in pooler mode when the address is a pooler's."""
    return Database(url, schema, pooler=direct(url) != url)


@contextmanager
def through_pooler(url: str) -> Iterator[str]:
    """The address as the library gets it: that of a new pooler in front of the server, if this run wants one."""
    if not wants_pooler():
        yield url
        return
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    with _running(url) as port:
        _behind[port] = place
        try:
            yield urlunsplit(parts._replace(netloc=f"{login}{at}127.0.0.1:{port}"))
        finally:
            del _behind[port]


@contextmanager
def _running(url: str) -> Iterator[int]:
    """The port of a PgBouncer in front of this server. It runs as whoever may run a server, and ends with us."""
    account = server_account()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pooler-", dir=parent_folder_for(account)))
    log = os.open(folder / "log", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    reaper = Reaper(folder, account, log)
    try:
        port = free_port()
        _configure(folder, url, port)
        if account.switch:
            for path in (folder / "users", folder / "ini", folder):
                os.chown(path, account.uid, account.gid)
        reaper.spawn([_program(), str(folder / "ini")])
        _wait_until_ready(reaper, port, folder / "log")
        yield port
    finally:
        reaper.close()
        os.close(log)


def _configure(folder: Path, url: str, port: int) -> None:
    parts = urlsplit(url)
    user, password = unquote(parts.username or "postgres"), unquote(parts.password or "")
    (folder / "users").write_text(f'"{user}" "{password}"\n')
    assert parts.hostname, "PgBouncer needs the server's host: postgresql://user@host/name"
    settings = {"host": parts.hostname, "server": parts.port or 5432, "port": port, "folder": folder, "user": user}
    auth_type = "scram-sha-256" if password else "trust"
    (folder / "ini").write_text(_CONFIGURATION.format(**settings, sessions=SESSIONS, auth_type=auth_type))


def _wait_until_ready(reaper: Reaper, port: int, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            ended = reaper.wait(0.01)
            assert ended is None and time.monotonic() < deadline, f"PgBouncer does not answer:\n{log.read_text()}"


def _program() -> str:
    wanted = os.environ.get("HOLDFAST_TEST_PGBOUNCER") or shutil.which(
        "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    )
    assert wanted, (
        "HOLDFAST_TEST_POOLER=1 needs PgBouncer: apt install pgbouncer, or name it in HOLDFAST_TEST_PGBOUNCER"
    )
    return wanted
