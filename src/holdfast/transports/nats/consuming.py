"""The source: messages that a durable consumer gets."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError
from .. import Away
from ..cloudevents import STRUCTURED, is_structured
from ..consuming import FETCHED, FIRST, LINGER, Incoming
from ..headers import found
from ..naming import library
from .link import CONNECT, Link, publish

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

log = logging.getLogger("holdfast.transports")


class NatsConsumer:
    """A source: the messages of a JetStream stream, through a durable pull consumer.

    The consumer is created if there is none of this name. Messages that are not acknowledged within `ack_wait` seconds
    come again, as often as needed. The order of the stream is kept as long as one process at a time uses the consumer:
    if it dies, the next one waits until what it had fetched comes again.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        durable: str,
        subjects: Sequence[str] = (),
        *,
        ack_wait: float = 30.0,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        """`url`: as in `Nats`. `stream`, `durable`: names of the stream and the consumer.
        `subjects`: which messages of the stream, `order.*`; none: all.
        `connect`: more arguments of `nats.connect`.
        """
        for what, name in (("stream", stream), ("durable", durable)):
            if not re.fullmatch(r"[^\s.*>/\\]+", name):
                raise ConfigurationError(f"{what}: expected a name without spaces and . * > / \\, got {name!r}")
        self._link = Link(url, connect)
        self._stream = stream
        self._durable = durable
        self._subjects = [subjects] if isinstance(subjects, str) else list(subjects)
        self._ack_wait = ack_wait
        self._inbox: Subscription | None = None
        self._lost_by: Away | None = None
        self._hold_until = 0.0

    @property
    def shown(self) -> str:
        """The servers, the stream and the consumer."""
        return f"{self._link.shown} {self._stream}/{self._durable}"

    async def open(self) -> None:
        """Connect, and create the consumer if there is none."""
        self._lost_by = None
        self._hold_until = 0.0
        await self._link.open(lost=self._lost, denied=lambda subject: self._lost(Away(f"may not publish to {subject}")))
        try:
            await self._declare()
            self._inbox = await self._link.client.subscribe(self._link.client.new_inbox())
        except Exception as error:
            await self.close()
            raise Away(f"{self.shown}: {error}") from error

    async def fetch(self) -> Sequence[Incoming]:
        """Return messages, from the oldest."""
        if self._inbox is None or self._lost_by is not None:
            raise self._lost_by or Away(f"{self.shown}: not open")
        if time.monotonic() < self._hold_until:
            await self._wait_for_others()
            return []
        # Nothing is asked for beyond this call. Otherwise, messages would be on their way to us when we close, and the
        # next process would have to wait for them.
        messages = await self._pull(1, FIRST)
        if messages:
            messages += await self._pull(FETCHED - 1, LINGER)
        return messages

    async def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Acknowledge, and return when the server has read it."""
        try:
            for message in messages:
                await publish(self._link.client, message.handle, b"+ACK")
            await self._link.client.flush(timeout=CONNECT)  # type: ignore[arg-type] # it takes any number
        except library("nats.errors", "nats").Error as error:
            raise Away(f"{self.shown}: {error}") from error

    async def close(self) -> None:
        """Disconnect."""
        self._inbox = None
        await self._link.close()

    async def _declare(self) -> None:
        """Find the consumer or create it. What others set is kept, but for the subjects, which are ours."""
        api, errors = library("nats.js.api", "nats"), library("nats.js.errors", "nats")
        manager = self._link.client.jsm(timeout=CONNECT)
        try:
            info = await manager.consumer_info(self._stream, self._durable)
        except errors.NotFoundError:
            info = None
        if info is None:
            config = api.ConsumerConfig(
                durable_name=self._durable,
                ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=self._ack_wait,
                max_deliver=-1,
                filter_subjects=self._subjects or None,
            )
            await manager.add_consumer(self._stream, config)
            return
        config = info.config
        there = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [])
        if sorted(there) != sorted(self._subjects):
            await manager.add_consumer(
                self._stream, config.evolve(filter_subject=None, filter_subjects=self._subjects or None)
            )
        if (config.max_deliver or -1) > 0:
            log.warning(
                "%s: the consumer drops messages after %s deliveries; set its max_deliver to -1",
                self.shown, config.max_deliver,
            )  # fmt: skip
        if info.num_ack_pending:
            self._hold_until = time.monotonic() + (config.ack_wait or self._ack_wait) + 1.0

    async def _wait_for_others(self) -> None:
        """Wait a moment for messages that were fetched before we came, by a process that lives or by one that died.

        They must come before newer ones. The server sends them again after `ack_wait`, before newer ones; until then,
        it would send newer ones.
        """
        try:
            info = await self._link.client.jsm(timeout=CONNECT).consumer_info(self._stream, self._durable)
        except library("nats.errors", "nats").Error as error:
            raise Away(f"{self.shown}: {error}") from error
        if not info.num_ack_pending:
            self._hold_until = 0.0
            return
        await asyncio.sleep(max(0.0, min(FIRST / 4, self._hold_until - time.monotonic())))

    async def _pull(self, most: int, wait: float) -> list[Incoming]:
        """Ask the server for so many messages. After `wait` seconds, it says that there are no more.

        `no_wait` would not do: without a word, it lasts while too many messages are unacknowledged.
        """
        inbox = self._inbox
        assert inbox is not None
        question = {"batch": most, "expires": int(wait * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}"
        messages: list[Incoming] = []
        try:
            await publish(self._link.client, subject, json.dumps(question).encode(), inbox.subject)
            until = time.monotonic() + wait + CONNECT
            while len(messages) < most:
                msg = await self._next(inbox, until - time.monotonic())
                if msg.reply:
                    messages.append(_incoming(msg))
                elif self._ended(msg.headers or {}):
                    break
        except BaseException as error:
            # The rest of the answer would be taken for that to the next question.
            self._lost(Away(f"{self.shown}: {str(error) or 'a fetch was interrupted'}"))
            if isinstance(error, library("nats.errors", "nats").Error):
                raise Away(f"{self.shown}: {error}") from error
            raise
        return messages

    async def _next(self, inbox: Subscription, seconds: float) -> Msg:
        try:
            return await inbox.next_msg(timeout=max(0.001, seconds))
        except library("nats.errors", "nats").TimeoutError:
            raise Away(f"{self.shown} did not answer in time") from None
        except asyncio.CancelledError:
            # A connection that is lost cancels what waits on it.
            task = asyncio.current_task()
            if self._lost_by is None or (task is not None and task.cancelling()):
                raise
            raise self._lost_by from None

    def _ended(self, headers: Mapping[str, str]) -> bool:
        """Return whether the server has ended our question: there is nothing more. Raises if it cannot answer."""
        status, text = headers.get("Status", ""), headers.get("Description", "")
        if status == "100":
            return False
        if status in ("404", "408") or text in ("Exceeded MaxAckPending", "Batch Completed"):
            return True
        raise Away(f"{self.shown}: {text or 'the consumer does not answer'} ({status})")

    def _lost(self, error: Away) -> None:
        self._lost_by = self._lost_by or error


def _incoming(msg: Msg) -> Incoming:
    headers = msg.headers or {}
    try:
        attributes = found(headers)
    except ValueError:
        attributes = {}  # cannot be read; kept under the fallback id
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
    if not headers:
        kind = STRUCTURED  # as the binding says
    metadata = msg.metadata
    return Incoming(
        attributes={} if is_structured(kind) else attributes,
        body=msg.data,
        content_type=kind or attributes.get("datacontenttype"),
        handle=msg.reply,
        fallback_id=f"{metadata.stream}:{metadata.sequence.stream}",
    )
