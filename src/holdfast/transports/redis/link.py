"""The connection, and the names of an entry's fields."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError
from .. import Away
from ..naming import check_url, hide_secrets, library

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

log = logging.getLogger("holdfast.transports")

SCHEMES = ("redis", "rediss", "unix")
PREFIX = "ce_"
DATA = "data"
CONTENT_TYPE = "content-type"
CONNECT = 5.0
"""Seconds for a connection, and for a short command."""


class Link:
    """How to connect to a server."""

    def __init__(self, url: str, connect: Mapping[str, Any] | None) -> None:
        check_url(url, SCHEMES)
        self._url = url
        self.shown = hide_secrets(url)
        self._options = dict(connect or {})

    async def connect(self) -> Wire:
        """Return a new connection, which does not retry anything."""
        redis, retry = library("redis.asyncio", "redis"), library("redis.asyncio.retry", "redis")
        backoff = library("redis.backoff", "redis")
        options = {
            "client_name": "holdfast", "socket_connect_timeout": CONNECT, **self._options,
            "protocol": 2, "socket_timeout": None, "retry": retry.Retry(backoff.NoBackoff(), 0),
        }  # fmt: skip
        try:
            pool = redis.ConnectionPool.from_url(self._url, **options)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"{self.shown}: {error}") from None
        connection = pool.make_connection()
        try:
            with self.errors():
                async with asyncio.timeout(CONNECT):
                    await connection.connect()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return Wire(connection)

    async def ask(self, wire: Wire, *words: str | bytes, wait: float = 0.0) -> Any:
        """Return the answer to a command, which may be an error of the server; raises if there is none."""
        with self.errors():
            async with asyncio.timeout(CONNECT + wait):
                await wire.write([words])
                return await wire.answer()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Say of each way in which a connection fails that the server is away."""
        client = library("redis.exceptions", "redis")
        try:
            yield
        except TimeoutError:
            raise Away(f"{self.shown} did not answer in time") from None
        except (client.RedisError, OSError) as error:
            raise Away(f"{self.shown}: {str(error) or type(error).__name__}") from error


class Wire:
    """A connection: commands and answers, as they come."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        assert connection._writer is not None
        self._writer = connection._writer

    async def write(self, commands: Sequence[Sequence[str | bytes]]) -> None:
        """Write commands."""
        await self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)

    async def answer(self) -> Any:
        """Return the next answer; an error of the server is returned, too."""
        try:
            return await self._connection.read_response(disable_decoding=True, disconnect_on_error=False)
        except library("redis.exceptions", "redis").ResponseError as error:
            return error

    def abort(self) -> None:
        """Close the connection at once. The client's `disconnect` would write the rest, perhaps much later."""
        self._writer.transport.abort()
        self._connection._writer = self._connection._reader = None


async def warn(link: Link, wire: Wire) -> None:
    """Say if the server may forget what it has confirmed."""
    info: dict[str, str] = {}
    for section in ("memory", "persistence"):
        answer = await link.ask(wire, "INFO", section)
        if isinstance(answer, bytes):
            info |= dict(re.findall(r"^(\w+):([^\r\n]*)", answer.decode(), re.MULTILINE))
    if info.get("aof_enabled") == "0":
        log.warning(
            "%s: Redis has no append-only file, so a restart loses what it has confirmed; set appendonly yes",
            link.shown,
        )
    if info.get("maxmemory_policy", "noeviction") != "noeviction":
        log.warning(
            "%s: Redis deletes streams when its memory is full (%s); set maxmemory-policy noeviction",
            link.shown, info["maxmemory_policy"],
        )  # fmt: skip
