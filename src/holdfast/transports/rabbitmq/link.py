"""The connection, the prefix of attributes, and what errors of the client mean."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from .. import Away
from ..naming import hide_secrets, library

if TYPE_CHECKING:
    from aio_pika import Connection

SCHEMES = ("amqp", "amqps")
PREFIX = "cloudEvents_"
"""Of the CloudEvents binding for AMQP, which prefers it to `cloudEvents:` (JMS clients cannot select by a colon)."""
HEARTBEAT = 10
"""Seconds; a peer that is silent for about three times as long is lost. `?heartbeat=` in the URL replaces it."""
CLOSING = 1.0
"""Seconds for the goodbye. RabbitMQ does not read from a connection that it has blocked, so it does not answer."""


class Link:
    """A connection with one channel, which can be dropped at once. It never reconnects: its owner does."""

    def __init__(self, connection: Connection, channel: Any, dropping: Any) -> None:
        self.channel = channel  # of aiormq; what is used of it is more than its abstract class has
        self._connection = connection
        self._dropping = dropping

    @classmethod
    async def open(cls, url: str, context: SSLContext | None, timeout: float, *, confirms: bool) -> Link:
        library("aio_pika", "rabbitmq")
        from aio_pika import Connection
        from yarl import URL

        # A robust connection would reconnect by itself, and a publish would hang through the outage.
        address = URL(url)
        if "heartbeat" not in address.query:
            address = address.update_query(heartbeat=HEARTBEAT)
        connection = Connection(address, ssl_context=context, client_properties={"connection_name": "holdfast"})
        dropping = connection.kwargs["transport_factory"] = _dropping()
        try:
            async with asyncio.timeout(timeout):
                await connection.connect()
                channel = connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
                await channel.initialize()
                return cls(connection, await channel.get_underlay_channel(), dropping)
        except Exception as error:
            await _close(connection, dropping)
            raise Away(f"{hide_secrets(url)}: {in_words(error)}") from error
        except BaseException:
            await _close(connection, dropping)
            raise

    def blocked(self) -> bool:
        """Has RabbitMQ stopped reading from this connection, because of an alarm?"""
        if self._connection.transport is None:
            return False
        ready = self._connection.transport.connection.ready()  # waits as long as it is blocked
        try:
            ready.send(None)
        except StopIteration:
            return False
        ready.close()
        return True

    async def close(self) -> None:
        await _close(self._connection, self._dropping)


async def _close(connection: Connection, dropping: Any) -> None:
    closing = asyncio.ensure_future(connection.close())
    try:
        await asyncio.wait([closing], timeout=CLOSING)
    finally:
        if not closing.done():
            dropping.drop()
        closing.add_done_callback(outcome)
    if not closing.done():
        await asyncio.wait([closing], timeout=CLOSING)


def _dropping() -> Any:
    from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory

    class Dropping(TransportFactory):
        """Remembers the socket: aiormq waits for a peer that reads nothing until what it has buffered is sent."""

        writer: asyncio.StreamWriter | None = None

        async def create(self, url: Any, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            inner = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
            reader, self.writer = await inner.create(url, **kwargs)
            return reader, self.writer

        def drop(self) -> None:
            if self.writer is not None:
                with suppress(RuntimeError):
                    self.writer.transport.abort()

    return Dropping()


def outcome(future: asyncio.Future[Any]) -> BaseException:
    """Why it ended; reading it also keeps asyncio from logging that nobody did."""
    if future.cancelled():
        return asyncio.CancelledError()
    return future.exception() or ConnectionError("closed")


def in_words(error: BaseException | None) -> str:
    if isinstance(error, TimeoutError):
        return "did not answer"
    if error is None or isinstance(error, asyncio.CancelledError):
        return "the connection was lost"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def hint(error: BaseException | None, what: str) -> str:
    from aiormq.exceptions import ChannelAccessRefused, ChannelNotFoundEntity

    match error:
        case ChannelNotFoundEntity():
            return f"; declare the {what} first"
        case ChannelAccessRefused() if "exclusive" in str(error):
            return "; something else reads this queue, or has stopped answering and still holds messages of it"
        case _:
            return ""
