"""Servers that we reject: those that may lose a commit, and those that accept no writes."""

from __future__ import annotations

from ..errors import UnsafeServer
from .database import Connection

OLDEST = 140000


async def check_server(connection: Connection) -> None:
    """Raise unless commits on this server are durable."""
    row = await connection.fetchrow(
        "select pg_is_in_recovery(), current_setting('fsync'), current_setting('synchronous_commit'),"
        " current_setting('server_version_num')::int, current_setting('server_version')"
    )
    assert row is not None
    recovery, fsync, synchronous_commit, number, version = row
    if number < OLDEST:
        raise UnsafeServer(f"expected PostgreSQL 14 or newer, got {version}")
    if recovery:
        raise UnsafeServer("this server is a standby, which accepts no writes; connect to the primary")
    if fsync != "on":
        raise UnsafeServer("fsync is off: a crash of this server loses acknowledged work; turn it on")
    if synchronous_commit == "off":
        raise UnsafeServer(
            "synchronous_commit is off: a crash of this server loses acknowledged work; turn it on for this role"
        )
