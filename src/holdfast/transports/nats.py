"""NATS JetStream: messages that the stream has confirmed, and those that a durable consumer gets.

The client's own reconnection is off: what was sent on a lost connection has an unknown fate, and only the worker
knows when to send it again. The client's `publish_async` is not used, because its futures stay pending when the
connection dies and when the stream answers with an error; the answers come to an inbox of our own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from ..errors import ConfigurationError
from ..model.event import Delivered, Message, Refused
from . import Away, Settle
from .cloudevents import JSON, STRUCTURED, attributes
from .consuming import FETCHED, FIRST, LINGER, Incoming
from .headers import found, named
from .naming import Template, check_url, hide_secrets, library

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

log = logging.getLogger("holdfast.transports")

SCHEMES = ("nats", "tls", "ws", "wss")
CONNECT = 5.0
"""Seconds for which one server is tried."""
CLOSE = 1.0
"""Seconds for which a connection is closed politely."""
LONGEST_SUBJECT = 2_000
"""Bytes: the server closes a connection whose control line, the subject and some numbers, exceeds 4,096."""

TOO_LARGE = {10054}
"""The stream's max_msg_size: the message will never fit."""
NOT_NOW = {10008, 10009, 10023, 10118}
"""The cluster has no leader, or this is not the leader; no resources; the stream is offline: not about the message."""

_PUBLISHABLE = re.compile(r"[^\s\x00-\x1f\x7f.*>]+(\.[^\s\x00-\x1f\x7f.*>]+)*")
_DENIED = re.compile(r'Permissions Violation for Publish to "([^"]*)"', re.IGNORECASE)


@lru_cache(1024)
def _can_publish_to(subject: str) -> bool:
    return _PUBLISHABLE.fullmatch(subject) is not None and len(subject.encode()) <= LONGEST_SUBJECT


class Nats:
    """A destination: subjects of a NATS server, stored by a JetStream stream.

        hf.relay("order.*", to=Nats("nats://bus", subject="shop.{type}"), name="bus")

    The message is delivered when the stream has confirmed it. Its `Nats-Msg-Id` is the id of the delivery, so a stream
    drops what is sent twice within its `duplicate_window`. The CloudEvents attributes are headers `ce-…`.
    """

    def __init__(
        self,
        url: str,
        subject: str = "{type}",
        stream: str | None = None,
        *,
        timeout: float = 10.0,
        batch: int = 500,
        parallel: int = 2,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        """`url`: of the server; of a cluster, several with commas between them.
        `subject`: a name, with the fields {type}, {source}, {key} and {tenant}.
        `stream`: which stream must store them; None: whichever has the subject.
        `timeout`: seconds after which an unconfirmed message has an unknown fate, and is sent again.
        `connect`: more arguments of `nats.connect`, such as `user_credentials` or `tls`.
        """
        self._link = _Link(url, connect)
        self._subject = Template(subject, "subject")
        self._stream = stream
        self._timeout = timeout
        self.batch = batch
        self.parallel = parallel
        self._waiting: dict[str, _Sent] = {}
        self._sent = 0
        self._inbox = ""

    @property
    def shown(self) -> str:
        """The servers and the subject."""
        return f"{self._link.shown} {self._subject.text}"

    async def open(self) -> None:
        """Connect."""
        await self._link.open(lost=self._lost, denied=self._denied)
        try:
            self._inbox = self._link.client.new_inbox()
            await self._link.client.subscribe(f"{self._inbox}.*", cb=self._answered)
        except Exception as error:
            await self.close()
            raise Away(f"{self._link.shown}: {error}") from error

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        """Publish the messages in one go, and settle each when the stream has answered."""
        client, task = self._link.client, asyncio.current_task()
        sending = _Sending(settle)
        tokens: list[str] = []
        try:
            async with asyncio.timeout(self._timeout):
                for message in batch:
                    prepared = self._prepare(message, client.max_payload)
                    if isinstance(prepared, Refused):
                        settle(message, prepared)
                        continue
                    subject, headers = prepared
                    self._sent += 1
                    token = str(self._sent)
                    tokens.append(token)
                    self._waiting[token] = _Sent(message, subject, sending)
                    sending.open += 1
                    await _publish(client, subject, message.data, f"{self._inbox}.{token}", headers, task)
                    if sending.lost is not None:
                        raise sending.lost
                if sending.open:
                    await sending.end()
                await self._settle_unheard(sending)
                if sending.later is not None:
                    raise sending.later
        except TimeoutError:
            raise Away(f"{self._link.shown} did not answer within {self._timeout:g} s") from None
        except library("nats.errors", "nats").Error as error:
            raise Away(f"{self._link.shown}: {error}") from error
        finally:
            for token in tokens:
                self._waiting.pop(token, None)

    async def close(self) -> None:
        """Disconnect."""
        self._lost(Away(f"{self._link.shown}: closed"))
        await self._link.close()

    def _prepare(self, message: Message, limit: int) -> tuple[str, dict[str, str]] | Refused:
        """Return subject and headers; or what the server would close the connection for, or misread."""
        try:
            subject = self._subject.of(message)
        except ValueError as error:
            return Refused(reason=str(error), final=True)
        if not _can_publish_to(subject):
            return Refused(reason=f"{subject[:200]!r} is not a subject that NATS can publish to", final=True)
        headers = {"Nats-Msg-Id": str(message.delivery), "ce-datacontenttype": JSON, **named(attributes(message))}
        if self._stream is not None:
            headers["Nats-Expected-Stream"] = self._stream
        # All values are ASCII; a line has 4 more bytes, the block has 14.
        size = len(message.data) + 14 + len("".join([*headers, *headers.values()])) + 4 * len(headers)
        if size > limit:
            return Refused(
                reason=f"{size:,} bytes with headers exceed the server's max_payload of {limit:,}", final=True
            )
        return subject, headers

    async def _answered(self, msg: Msg) -> None:
        """Called for what arrives in our inbox."""
        sent = self._waiting.pop(msg.subject.rpartition(".")[2], None)
        if sent is None:
            return
        if msg.headers and msg.headers.get("Status") == "503":
            sent.sending.unheard.append(sent)
            sent.sending.one_less()
            return
        try:
            answer = _ANSWER.decode(msg.data)
        except msgspec.DecodeError as error:
            sent.sending.fail(Away(f"{self._link.shown}: an answer that is not JetStream's: {error}"))
            return
        if answer.error is None:
            details: dict[str, str | int | float] = {"duplicate": 1} if answer.duplicate else {}
            sent.settle(Delivered(reference=f"{answer.stream}:{answer.seq}", details=details))
        elif answer.error.err_code in NOT_NOW:
            sent.sending.later = Away(f"{self._link.shown}: {answer.error.shown}")
            sent.sending.one_less()
        else:
            sent.settle(Refused(reason=answer.error.shown, final=answer.error.err_code in TOO_LARGE))

    async def _settle_unheard(self, sending: _Sending) -> None:
        """Decide about messages that no stream took: refused if there is none, unknown if it is only away."""
        subjects = {sent.subject for sent in sending.unheard}
        reasons = {subject: await self._why_unheard(subject) for subject in subjects}
        for sent in sending.unheard:
            reason = reasons[sent.subject]
            if reason is not None:
                sending.settle(sent.message, Refused(reason=reason))
        if None in reasons.values():
            raise Away(f"{self._link.shown}: the stream of {next(s for s in subjects if reasons[s] is None)} is away")

    async def _why_unheard(self, subject: str) -> str | None:
        """Return why nobody stored a message of this subject; None if it will be stored later."""
        question = json.dumps({"subject": subject}).encode()
        errors = library("nats.errors", "nats")
        try:
            answer = await self._link.client.request("$JS.API.STREAM.NAMES", question, timeout=2)
        except errors.NoRespondersError:
            return None  # no JetStream at all; as in a cluster that is starting
        except errors.TimeoutError:
            # Perhaps we may not ask; then we believe what the server said.
            return f"no stream answered for the subject {subject}; add it to the subjects of a stream"
        if json.loads(answer.data).get("streams"):
            return None
        return f"no stream has the subject {subject}; add it to the subjects of a stream"

    def _denied(self, subject: str) -> None:
        """Called when the server says that we may not publish to a subject: it sends no other answer."""
        for token, sent in list(self._waiting.items()):
            if sent.subject.lower() == subject.lower():
                del self._waiting[token]
                sent.settle(Refused(reason=f"the user may not publish to {subject}"))

    def _lost(self, error: Away) -> None:
        for sending in {sent.sending for sent in self._waiting.values()}:
            sending.fail(error)


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""

    @property
    def shown(self) -> str:
        return f"{self.description or 'an error'} (JetStream {self.err_code or self.code})"


class _Answer(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


class _Sending:
    """One call of `send`, while it waits for answers."""

    def __init__(self, settle: Settle) -> None:
        self.settle = settle
        self.open = 0
        self.unheard: list[_Sent] = []
        self.lost: Away | None = None
        """Why no more answers come."""
        self.later: Away | None = None
        """Why some messages were not taken, although they may be taken later."""
        self._end: asyncio.Future[None] | None = None

    async def end(self) -> None:
        """Return when all are answered; raises if the connection was lost."""
        self._end = asyncio.get_running_loop().create_future()
        if self.lost is not None:
            raise self.lost
        await self._end

    def one_less(self) -> None:
        self.open -= 1
        if not self.open and self._end is not None and not self._end.done():
            self._end.set_result(None)

    def fail(self, error: Away) -> None:
        """Let `end` raise: what is open stays unsettled."""
        self.lost = self.lost or error
        if self._end is not None and not self._end.done():
            self._end.set_exception(self.lost)


class _Sent:
    """A message that was published."""

    __slots__ = ("message", "sending", "subject")

    def __init__(self, message: Message, subject: str, sending: _Sending) -> None:
        self.message = message
        self.subject = subject
        self.sending = sending

    def settle(self, verdict: Delivered | Refused) -> None:
        self.sending.settle(self.message, verdict)
        self.sending.one_less()


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
        self._link = _Link(url, connect)
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
                await _publish(self._link.client, message.handle, b"+ACK")
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
            await _publish(self._link.client, subject, json.dumps(question).encode(), inbox.subject)
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
        attributes={} if _is_structured(kind) else attributes,
        body=msg.data,
        content_type=kind or attributes.get("datacontenttype"),
        handle=msg.reply,
        fallback_id=f"{metadata.stream}:{metadata.sequence.stream}",
    )


def _is_structured(kind: str | None) -> bool:
    return kind is not None and kind.partition(";")[0].strip().lower() == STRUCTURED


class _Link:
    """A connection to one of several servers, which is never reconnected by itself."""

    def __init__(self, url: str, connect: Mapping[str, Any] | None) -> None:
        self._urls = [part.strip() for part in url.split(",")]
        for one in self._urls:
            check_url(one, SCHEMES)
        self.shown = ",".join(hide_secrets(one) for one in self._urls)
        self._options = dict(connect or {})
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The connection; raises if there is none."""
        if self._client is None or self._client.is_closed:
            raise Away(f"{self.shown}: not connected")
        return self._client

    async def open(self, lost: Callable[[Away], None], denied: Callable[[str], None]) -> None:
        """Connect to the first server that answers, in any order."""
        aio = library("nats.aio.client", "nats")
        failures = []
        for url in random.sample(self._urls, len(self._urls)):
            client, watch = aio.Client(), _Watch(self.shown, lost, denied)
            try:
                async with asyncio.timeout(CONNECT):
                    place, login = _login(url)
                    await client.connect(place, **{"name": "holdfast", **login, **self._options, **watch.options()})
            except Exception as error:
                failures.append(f"{hide_secrets(url)}: {watch.reason or str(error) or 'no answer'}")
                await _drop(client)
                continue
            except BaseException:
                await _drop(client)
                raise
            self._client = client
            return
        raise Away("; ".join(failures))

    async def close(self) -> None:
        """Disconnect, at once."""
        client, self._client = self._client, None
        if client is not None:
            await _drop(client)


def _login(url: str) -> tuple[str, dict[str, str]]:
    """Return the URL without its login, and the login. The client would not decode %40 in a password."""
    parts = urlsplit(url)
    place = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if parts.password is not None:
        return place, {"user": unquote(parts.username or ""), "password": unquote(parts.password)}
    return place, {"token": unquote(parts.username)} if parts.username else {}


class _Watch:
    """What a client says about its connection."""

    def __init__(self, shown: str, lost: Callable[[Away], None], denied: Callable[[str], None]) -> None:
        self._shown = shown
        self._lost = lost
        self._denied = denied
        self.reason = ""
        """Its last error."""

    def options(self) -> dict[str, Any]:
        """Options of the client: it tries a server, and never on its own again."""
        return {
            "allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0, "flush_timeout": CLOSE,
            "connect_timeout": CONNECT, "error_cb": self.on_error, "closed_cb": self.on_close,
        }  # fmt: skip

    async def on_error(self, error: Exception) -> None:
        match = _DENIED.search(str(error))
        if match:
            self._denied(match[1])
        else:
            self.reason = str(error) or type(error).__name__

    async def on_close(self) -> None:
        self._lost(Away(f"{self._shown}: {self.reason or 'the connection was lost'}"))


async def _publish(
    client: Client,
    subject: str,
    data: bytes,
    reply: str = "",
    headers: dict[str, str] | None = None,
    task: asyncio.Task[Any] | None = None,
) -> None:
    """Publish. The client swallows a cancellation, that of a deadline too, while it waits for its buffer to empty.
    `task`: the current one, if it is known."""
    await client.publish(subject, data, reply, headers=headers)
    task = task or asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _drop(client: Client) -> None:
    """Close a connection; if the server does not read any more, without what is still to be written."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSE):
            await client.close()
            return
    # close() waits for the server to read; no public way leads to the socket.
    writer = getattr(getattr(client, "_transport", None), "_io_writer", None)
    if writer is not None:
        writer.transport.abort()
