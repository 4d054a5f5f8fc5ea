"""The destination: events to an exchange with publisher confirms."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from ssl import SSLContext
from typing import Any

from ...model.event import Delivered, Message, Refused
from .. import Away, Settle, Unavailable, cloudevents
from ..naming import Template, check_url, hide_secrets
from .link import PREFIX, SCHEMES, Link, hint, in_words, outcome

SHORT = 255
"""Bytes of the longest routing key or message id: AMQP's short string."""
NACK = "RabbitMQ has rejected it (nack): a queue is full, or could not store it"
HEADER_BYTES = 64 << 10
"""Bytes of an event's headers: they must fit in one frame, which has 128 KiB by default."""
RECOVERS = 10.0
"""Seconds after an outage in which a rejection says nothing: the queue may still be recovering."""


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
        self._link: Link | None = None
        self._was_away = False
        """Was the connection lost, or refused, since it was last opened?"""
        self._recovering_until = 0.0

    @property
    def shown(self) -> str:
        return f"{hide_secrets(self._url)} exchange {self.exchange or '(default)'}"

    async def open(self) -> None:
        try:
            self._link = await self._connected()
        except Exception:
            self._was_away = True
            raise
        if self._was_away:
            self._was_away = False
            self._recovering_until = time.monotonic() + RECOVERS

    async def _connected(self) -> Link:
        link = await Link.open(self._url, self._context, self.timeout, confirms=True)
        try:
            if self.exchange:  # the default one is always there
                async with asyncio.timeout(self.timeout):
                    await link.channel.exchange_declare(self.exchange, passive=True)
        except Exception as error:
            await link.close()
            raise Away(f"{self.shown}: {in_words(error)}{hint(error, 'exchange')}") from error
        except BaseException:
            await link.close()
            raise
        return link

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        try:
            await self._send(batch, settle)
        except Unavailable:
            raise
        except Away:
            self._was_away = True
            raise

    async def _send(self, batch: Sequence[Message], settle: Settle) -> None:
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
            unconfirmed = f"{len(late)} messages not confirmed within {self.timeout:g} s"
            if link.blocked():
                raise Unavailable(f"{self.shown}: has blocked this connection (memory or disk alarm): {unconfirmed}")
            raise Away(f"{self.shown}: did not answer: {unconfirmed}")
        failed = [task for task in tasks if task not in late and (task.cancelled() or task.exception() is not None)]
        if late or failed:
            errors = [outcome(future) for future in ([closing] if ended else []) + failed]
            why = next((error for error in errors if not isinstance(error, asyncio.CancelledError)), None)
            self._blame([tasks[task] for task in (*failed, *late)], why, settle)
            if _is_nack(why):
                raise Unavailable(f"{self.shown}: {NACK}; after an outage, it may still be recovering") from why
            raise Away(f"{self.shown}: {in_words(why)}{hint(why, 'exchange')}") from why

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
            if time.monotonic() < self._recovering_until:
                raise
            settle(message, Refused(reason=NACK))
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


def _is_nack(error: BaseException | None) -> bool:
    from aiormq.exceptions import DeliveryError

    return isinstance(error, DeliveryError)
