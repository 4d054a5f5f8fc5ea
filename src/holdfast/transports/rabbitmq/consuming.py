"""The source: messages from a queue."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from .. import Away
from ..consuming import FETCHED, FIRST, LINGER, Incoming
from ..naming import check_url, hide_secrets
from .link import PREFIX, SCHEMES, Link, hint, in_words, outcome

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage

PREFIXES = (PREFIX, "cloudEvents:", "ce-")
"""What is read: both forms of the binding for AMQP, and that of the binding for RabbitMQ."""


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
        self._link: Link | None = None
        self._received: asyncio.Queue[DeliveredMessage | None] = asyncio.Queue()
        self._found: list[DeliveredMessage] = []
        """Received, and not returned yet: if a fetch is cancelled, the next one returns them."""
        self._tags = _Tags()
        self._lost: str | None = None

    @property
    def shown(self) -> str:
        return f"{hide_secrets(self._url)} queue {self.queue}"

    async def open(self) -> None:
        link = await Link.open(self._url, self._context, self.timeout, confirms=False)
        received: asyncio.Queue[DeliveredMessage | None] = asyncio.Queue()
        self._link, self._received, self._tags, self._lost = link, received, _Tags(), None
        self._found = []

        def lose(why: str) -> None:
            if self._link is link:
                self._lost = self._lost or why
                received.put_nowait(None)  # wakes `fetch`

        async def receive(message: DeliveredMessage) -> None:
            received.put_nowait(message)

        link.channel.closing.add_done_callback(lambda closed: lose(in_words(outcome(closed))))
        cancelled = "RabbitMQ has cancelled the consumer: was the queue deleted?"
        link.channel.on_consumer_cancel_callbacks.add(lambda _: lose(cancelled))
        try:
            async with asyncio.timeout(self.timeout):
                await link.channel.basic_qos(prefetch_count=self.prefetch)
                # Another worker may have stopped answering, and hold messages that come before those that are left.
                # RabbitMQ refuses us until its connection is gone; then they are in the queue again, in their places.
                await link.channel.basic_consume(self.queue, receive, exclusive=True)
        except Exception as error:
            await self.close()
            raise Away(f"{self.shown}: {in_words(error)}{hint(error, 'queue')}") from error
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
            raise Away(f"{self.shown}: {in_words(error)}") from error

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
