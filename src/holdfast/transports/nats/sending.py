"""The destination: messages that the stream has confirmed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from ...model.event import Delivered, Message, Refused
from .. import Away, Settle, Unavailable
from ..cloudevents import JSON, attributes
from ..headers import named
from ..naming import Template, library
from .link import Link, publish

if TYPE_CHECKING:
    from nats.aio.msg import Msg

LONGEST_SUBJECT = 2_000
"""Bytes: the server closes a connection whose control line, the subject and some numbers, exceeds 4,096."""

TOO_LARGE = {10054}
"""The stream's max_msg_size: the message will never fit."""
NAMES = "$JS.API.STREAM.NAMES"
"""Where to ask which streams have a subject."""
ADD_IT = "add it to the subjects of a stream"
NOT_NOW = {10008, 10009, 10023, 10118}
"""The cluster has no leader, or this is not the leader; no resources; the stream is offline: not about the message."""

_PUBLISHABLE = re.compile(r"[^\s\x00-\x1f\x7f.*>]+(\.[^\s\x00-\x1f\x7f.*>]+)*")


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
        self._link = Link(url, connect)
        self._subject = Template(subject, "subject")
        self._stream = stream
        self._timeout = timeout
        self.batch = batch
        self.parallel = parallel
        self._waiting: dict[str, _Sent] = {}
        self._sent = 0
        self._inbox = ""
        self._may_not_ask = False
        """Has the server said that we may not ask which stream has a subject?"""

    @property
    def shown(self) -> str:
        """The servers and the subject."""
        return f"{self._link.shown} {self._subject.text}"

    async def open(self) -> None:
        """Connect."""
        self._may_not_ask = False
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
                    await publish(client, subject, message.data, f"{self._inbox}.{token}", headers, task)
                    if sending.lost is not None:
                        raise sending.lost
                if sending.open:
                    await sending.end()
                await self._decide_unheard(sending)
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
            sent.sending.later = Unavailable(f"{self._link.shown}: {answer.error.shown}")
            sent.sending.one_less()
        else:
            sent.settle(Refused(reason=answer.error.shown, final=answer.error.err_code in TOO_LARGE))

    async def _decide_unheard(self, sending: _Sending) -> None:
        """Decide about messages that no stream took: refused if there is none, later if it is only away."""
        subjects = list({sent.subject for sent in sending.unheard})
        # All at the same time: one by one, questions without an answer would take longer than the batch may.
        answers = await asyncio.gather(*map(self._why_unheard, subjects))
        reasons = dict(zip(subjects, answers, strict=True))
        for sent in sending.unheard:
            reason = reasons[sent.subject]
            if isinstance(reason, Refused):
                sending.settle(sent.message, reason)
            else:
                sending.later = reason

    async def _why_unheard(self, subject: str) -> Refused | Unavailable:
        """Return why nobody stored a message of this subject: there is no stream, or it is away."""
        away = f"{self._link.shown}: the stream of {subject} is away"
        errors = library("nats.errors", "nats")
        try:
            answer = await self._link.client.request(NAMES, msgspec.json.encode({"subject": subject}), timeout=2)
        except (errors.NoRespondersError, errors.TimeoutError):
            if self._may_not_ask:  # then we believe what the server has said about the message
                why = f"no stream answered for the subject {subject}; {ADD_IT}"
                return Refused(reason=f"{why}, or allow this user to publish to {NAMES}, to see if it is only away")
            return Unavailable(away)  # no JetStream, or no answer: as in a cluster that is starting
        found = _NAMES.decode(answer.data)
        if found.error is not None:  # the cluster has no leader now
            return Unavailable(f"{away}: {found.error.shown}")
        if found.streams:
            return Unavailable(f"{away}: {', '.join(found.streams)} does not answer")
        return Refused(reason=f"no stream has the subject {subject}; {ADD_IT}")

    def _denied(self, subject: str) -> None:
        """Called when the server says that we may not publish to a subject: it sends no other answer."""
        self._may_not_ask = self._may_not_ask or subject.lower() == NAMES.lower()
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


class _Names(msgspec.Struct):
    streams: list[str] | None = None
    error: _Error | None = None


_ANSWER = msgspec.json.Decoder(_Answer)
_NAMES = msgspec.json.Decoder(_Names)


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
