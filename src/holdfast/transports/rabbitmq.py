"""RabbitMQ: events to an exchange with publisher confirms, and messages from a queue."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from ..model.event import Delivered, Message, Refused
from . import Away, Settle, cloudevents
from .consuming import FETCHED, FIRST, LINGER, Incoming
from .naming import Template, check_url, hide_secrets, library

if TYPE_CHECKING:
    from aio_pika import Connection
    from aiormq.abc import DeliveredMessage

SCHEMES = ("amqp", "amqps")
PREFIX = "cloudEvents_"
"""Of the CloudEvents binding for AMQP, which prefers it to `cloudEvents:` (JMS clients cannot select by a colon)."""
PREFIXES = (PREFIX, "cloudEvents:", "ce-")
"""What is read: both forms of the binding for AMQP, and that of the binding for RabbitMQ."""
HEARTBEAT = 10
"""Seconds; a peer that is silent for about three times as long is lost. `?heartbeat=` in the URL replaces it."""
SHORT = 255
"""Bytes of the longest routing key or message id: AMQP's short string."""
HEADER_BYTES = 64 << 10
"""Bytes of an event's headers: they must fit in one frame, which has 128 KiB by default."""
CLOSING = 1.0
"""Seconds for the goodbye. RabbitMQ does not read from a connection that it has blocked, so it does not answer."""


class RabbitMQ:
    """Sends events to an exchange.

    An event is delivered when RabbitMQ has confirmed it: every queue that it was routed to has stored it. One that no
    queue takes is refused. Nothing is declared: the exchange, the queues and their bindings are yours.
    """

    def __init__(
        self,
        url: str,
        exchange: str,
        routing_key: str = "{type}",
        *,
        timeout: float = 10.0,
        max_bytes: int = 16 << 20,
        batch: int = 200,
        parallel: int = 2,
        ssl_context: SSLContext | None = None,
    ) -> None:
        """`timeout`: seconds until a message that was not confirmed counts as unknown.

        `max_bytes`: a larger event becomes a dead letter. RabbitMQ does not say what its limit (`max_message_size`) is;
        16 MiB is the default of RabbitMQ 4.
        """
        check_url(url, SCHEMES)
        self.batch = batch
        self.parallel = parallel
        self.exchange = exchange
        self.timeout = timeout
        self.max_bytes = max_bytes
        self._url = url
        self._context = ssl_context
        self._routing_key = Template(routing_key, "routing key")
        self._link: _Link | None = None

    @property
    def shown(self) -> str:
        return f"{hide_secrets(self._url)} exchange {self.exchange or '(default)'}"

    async def open(self) -> None:
        link = await _Link.open(self._url, self._context, self.timeout, confirms=True)
        try:
            if self.exchange:  # the default one is always there
                async with asyncio.timeout(self.timeout):
                    await link.channel.exchange_declare(self.exchange, passive=True)
        except Exception as error:
            await link.close()
            raise Away(f"{self.shown}: {_why(error)}{_hint(error, 'exchange')}") from error
        except BaseException:
            await link.close()
            raise
        self._link = link

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        link = self._link
        if link is None:
            raise Away(f"{self.shown}: not connected")
        keys = {}
        for message in batch:
            try:
                keys[message.delivery] = self._check(message)
            except ValueError as error:
                settle(message, Refused(reason=str(error), final=True))
        taken = [message for message in batch if message.delivery in keys]
        # Each publish waits for its own confirmation. They start in this order, and the channel's lock is fair, so they
        # are written in this order, too.
        tasks = {
            asyncio.create_task(self._publish(link.channel, message, keys[message.delivery], settle)): message
            for message in taken
        }
        if not tasks:
            return
        # Also wait for the end of the channel: aiormq does not wake a publish that waits for room in its queue when
        # the connection is lost, nor those that wait behind it.
        closing = link.channel.closing
        published = asyncio.ensure_future(asyncio.wait(tasks))
        try:
            await asyncio.wait([published, closing], timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = closing.done()
            late = {task for task in tasks if not task.done()}
            for future in (closing, published, *tasks):
                future.cancel()
        if late and not ended:
            what = "has blocked this connection (memory or disk alarm)" if link.blocked() else "did not answer"
            raise Away(f"{self.shown}: {what}: {len(late)} messages not confirmed within {self.timeout:g} s")
        failed = [task for task in tasks if task not in late and (task.cancelled() or task.exception() is not None)]
        if late or failed:
            errors = [_outcome(future) for future in ([closing] if ended else []) + failed]
            why = next((error for error in errors if not isinstance(error, asyncio.CancelledError)), None)
            self._blame([tasks[task] for task in (*failed, *late)], why, settle)
            raise Away(f"{self.shown}: {_why(why)}{_hint(why, 'exchange')}") from why

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _check(self, message: Message) -> str:
        """Return its routing key. Raises ValueError if it can never be sent."""
        if len(message.data) > self.max_bytes:
            raise ValueError(f"the event has {len(message.data)} bytes; at most {self.max_bytes} are sent")
        key = self._routing_key.of(message)
        if len(key.encode()) > SHORT:
            raise ValueError(f"the routing key has {len(key.encode())} bytes; RabbitMQ takes {SHORT}")
        if len(message.id.encode()) > SHORT:
            raise ValueError(f"the event's id has {len(message.id.encode())} bytes; RabbitMQ takes {SHORT}")
        if message.headers and sum(len(text.encode()) for text in message.headers.values()) > HEADER_BYTES:
            raise ValueError(f"the event's headers have more than {HEADER_BYTES} bytes")
        return key

    async def _publish(self, channel: Any, message: Message, key: str, settle: Settle) -> None:
        from aiormq.exceptions import DeliveryError, PublishError
        from pamqp.commands import Basic

        properties = Basic.Properties(
            content_type=cloudevents.JSON,
            headers={PREFIX + name: value for name, value in cloudevents.attributes(message).items()},
            delivery_mode=2,  # persistent
            # A message that comes back unroutable is recognised by it: unlike the event's id, it is unique even if an
            # event and its replay are on their way at the same time.
            message_id=message.id,
        )
        try:
            await channel.basic_publish(
                message.data,
                exchange=self.exchange,
                routing_key=key,
                properties=properties,
                mandatory=True,
                wait=False,
            )
        except PublishError as error:
            reason = f"no queue is bound to exchange {self.exchange!r} for routing key {key!r}"
            settle(message, Refused(reason=f"unroutable ({error.args[0]}): {reason}"))
        except DeliveryError:
            settle(message, Refused(reason="RabbitMQ has rejected it (nack): a queue is full, or could not store it"))
        else:
            settle(message, Delivered())

    def _blame(self, lost: Sequence[Message], error: BaseException | None, settle: Settle) -> None:
        """Refuse what was too large: RabbitMQ closes the channel of all for it, and would do so again."""
        limit = re.search(r"larger than configured max size (\d+)", str(error))
        if limit is None:
            return
        for message in lost:
            if len(message.data) > int(limit[1]):
                reason = f"the event has {len(message.data)} bytes; RabbitMQ takes {limit[1]} (max_message_size)"
                settle(message, Refused(reason=reason, final=True))


class RabbitMQConsumer:
    """Messages from a queue. Nothing is declared: the queue and its bindings are yours."""

    def __init__(
        self,
        url: str,
        queue: str,
        *,
        prefetch: int = 200,
        timeout: float = 10.0,
        ssl_context: SSLContext | None = None,
    ) -> None:
        """`prefetch`: most messages that are here and not acknowledged."""
        check_url(url, SCHEMES)
        self.queue = queue
        self.prefetch = prefetch
        self.timeout = timeout
        self._url = url
        self._context = ssl_context
        self._link: _Link | None = None
        self._received: asyncio.Queue[DeliveredMessage | None] = asyncio.Queue()
        self._found: list[DeliveredMessage] = []
        """Received, and not returned yet: if a fetch is cancelled, the next one returns them."""
        self._tags = _Tags()
        self._lost: str | None = None

    @property
    def shown(self) -> str:
        return f"{hide_secrets(self._url)} queue {self.queue}"

    async def open(self) -> None:
        link = await _Link.open(self._url, self._context, self.timeout, confirms=False)
        received: asyncio.Queue[DeliveredMessage | None] = asyncio.Queue()
        self._link, self._received, self._tags, self._lost = link, received, _Tags(), None
        self._found = []

        def lose(why: str) -> None:
            if self._link is link:
                self._lost = self._lost or why
                received.put_nowait(None)  # wakes `fetch`

        async def receive(message: DeliveredMessage) -> None:
            received.put_nowait(message)

        link.channel.closing.add_done_callback(lambda closed: lose(_why(_outcome(closed))))
        cancelled = "RabbitMQ has cancelled the consumer: was the queue deleted?"
        link.channel.on_consumer_cancel_callbacks.add(lambda _: lose(cancelled))
        try:
            async with asyncio.timeout(self.timeout):
                await link.channel.basic_qos(prefetch_count=self.prefetch)
                await link.channel.basic_consume(self.queue, receive)
        except Exception as error:
            await self.close()
            raise Away(f"{self.shown}: {_why(error)}{_hint(error, 'queue')}") from error
        except BaseException:
            await self.close()
            raise

    async def fetch(self) -> Sequence[Incoming]:
        found = self._found
        until = asyncio.get_running_loop().time() + (LINGER if found else FIRST)
        while len(found) < FETCHED:
            if self._link is None or self._lost is not None:
                raise Away(f"{self.shown}: {self._lost or 'not connected'}")
            try:
                async with asyncio.timeout_at(until):
                    message = self._received.get_nowait() if not self._received.empty() else await self._received.get()
            except TimeoutError:
                break
            if message is None:
                continue
            if not found:
                until = asyncio.get_running_loop().time() + LINGER
            found.append(message)
        self._found = []
        return [self._incoming(message) for message in found]

    async def acknowledge(self, messages: Sequence[Incoming]) -> None:
        link = self._link
        if link is None or self._lost is not None:
            raise Away(f"{self.shown}: {self._lost or 'not connected'}")
        # A tag belongs to its channel. What came over an earlier one comes again.
        tags = [message.handle[1] for message in messages if message.handle[0] is link]
        try:
            async with asyncio.timeout(self.timeout):
                for tag, multiple in self._tags.acknowledge(tags):
                    await link.channel.basic_ack(tag, multiple=multiple)
        except Exception as error:
            raise Away(f"{self.shown}: {_why(error)}") from error

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _incoming(self, message: DeliveredMessage) -> Incoming:
        properties = message.header.properties
        # RabbitMQ numbers messages only within a connection, so one without an id is known by what it says.
        known = properties.message_id or hashlib.sha256(message.body).hexdigest()[:32]
        return Incoming(
            attributes=_attributes(properties.headers or {}),
            body=message.body,
            content_type=properties.content_type,
            handle=(self._link, message.delivery_tag),
            fallback_id=f"{self.queue}:{known}",
        )


class _Tags:
    """Which tags of a channel are acknowledged: 1, 2, 3 … as RabbitMQ numbers what it delivers."""

    def __init__(self) -> None:
        self._upto = 0
        self._apart: set[int] = set()

    def acknowledge(self, tags: Sequence[int]) -> list[tuple[int, bool]]:
        """Return what to send: (tag, does it include all below?).

        Only without a gap does one acknowledgement include others: what was not stored must come again.
        """
        new = {tag for tag in tags if tag > self._upto} - self._apart
        last = None
        while (following := self._upto + 1) in new or following in self._apart:
            self._upto = following
            if following in new:
                last = following
            self._apart.discard(following)
        apart = sorted(tag for tag in new if tag > self._upto)
        self._apart.update(apart)
        return [*([(last, True)] if last is not None else []), *((tag, False) for tag in apart)]


class _Link:
    """A connection with one channel, which can be dropped at once. It never reconnects: its owner does."""

    def __init__(self, connection: Connection, channel: Any, dropping: Any) -> None:
        self.channel = channel  # of aiormq; what is used of it is more than its abstract class has
        self._connection = connection
        self._dropping = dropping

    @classmethod
    async def open(cls, url: str, context: SSLContext | None, timeout: float, *, confirms: bool) -> _Link:
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
            raise Away(f"{hide_secrets(url)}: {_why(error)}") from error
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
        closing.add_done_callback(_outcome)
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


def _attributes(headers: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, value in headers.items():
        for prefix in PREFIXES:
            if name.startswith(prefix):
                found[name[len(prefix) :]] = _text(value)
    return found


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _outcome(future: asyncio.Future[Any]) -> BaseException:
    """Why it ended; reading it also keeps asyncio from logging that nobody did."""
    if future.cancelled():
        return asyncio.CancelledError()
    return future.exception() or ConnectionError("closed")


def _why(error: BaseException | None) -> str:
    if isinstance(error, TimeoutError):
        return "did not answer"
    if error is None or isinstance(error, asyncio.CancelledError):
        return "the connection was lost"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _hint(error: BaseException | None, what: str) -> str:
    from aiormq.exceptions import ChannelNotFoundEntity

    return f"; declare the {what} first" if isinstance(error, ChannelNotFoundEntity) else ""
