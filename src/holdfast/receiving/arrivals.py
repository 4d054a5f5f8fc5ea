"""Which job a message becomes: its kind, its payload, and the key under which it is stored once.

The job of an event has the kind `<source>/<type>`, where the source is the receiver's name for the sender, and not what
the message says: a sender cannot make jobs of another one. A message that cannot be read or stored becomes a job of the
kind `@unreadable`. No task has that kind, so it waits, and is shown as every job of an unknown kind is.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec

from ..errors import ConfigurationError, InvalidInput
from ..model.event import Event
from ..model.limits import DEFAULT_LIMITS, Limits, check_key, check_name
from ..model.terms import Terms
from ..transports.cloudevents import JSON, STRUCTURED, Unreadable, has_attributes, read

UNREADABLE = "@unreadable"
MOST_REASON = 1000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}", re.ASCII)


def most_body(limits: Limits) -> int:
    """Bytes of a message that is read. A larger request is rejected; a larger message is stored as unreadable.

    It is more than the data of an event may have: publish_events.sql sees to it that each event fits, as it is sent.
    """
    return 2 * max(limits.payload_bytes, DEFAULT_LIMITS.payload_bytes)


MOST_BODY = most_body(DEFAULT_LIMITS)


def check_source(source: object) -> str:
    """Return the name of a source. It has no slash, so `<source>/<type>` and the keys of messages are unambiguous."""
    if not isinstance(source, str) or not _NAME.fullmatch(source):
        raise ConfigurationError(
            "source: expected a name for the sender, of up to 64 letters, digits and . _ : -, such as 'shop'; "
            f"got {source!r}"
        )
    return source


def queue_of(source: str) -> str:
    """The queue in which the messages of a source wait, unless their handler says otherwise."""
    return f"in.{source}"


def kind_of(source: str, type: str) -> str:
    """The kind of the jobs of an event type; raises `InvalidInput` if it cannot be one."""
    try:
        return check_name("type", f"{source}/{type}")
    except InvalidInput as error:
        raise InvalidInput("type", f"makes the kind of a job, '<source>/<type>': {error.problem}") from None


class Message(msgspec.Struct, frozen=True):
    """A message as it came."""

    id: str
    """What the broker or the sender calls it; for logs, and for a message that cannot be read."""
    body: bytes
    content_type: str | None = None
    attributes: Mapping[str, str] = {}
    """CloudEvents attributes, if they were beside the body."""


class Arrival(msgspec.Struct, frozen=True):
    """A message as it is stored."""

    message: Message
    terms: Terms
    payload: str
    idempotency_key: str
    key: str | None = None
    headers: dict[str, str] | None = None
    unreadable: str | None = None
    """Why it could not be read."""


class Source(msgspec.Struct, frozen=True):
    """A sender of messages, as the application calls it."""

    name: str
    find: Callable[[str], Terms | None]
    """Returns the terms of the jobs of a kind, if the application has a handler for it."""
    most_body: int = MOST_BODY
    _terms: dict[tuple[str, int], Terms] = msgspec.field(default_factory=dict)

    def read(self, message: Message) -> Arrival:
        """Return what becomes of a message of a broker: a CloudEvent, which is known by its source and id."""
        try:
            event = self._read(message, message.content_type)
            return self.arrival(message, event, message_key(self.name, event.source, event.id))
        except Unreadable as error:
            return self.unreadable(message, str(error))

    def read_request(self, message: Message) -> Arrival:
        """Return what becomes of a request. Its id and its body are signed, and its headers are not.

        So the body alone says whether it is a structured CloudEvent, and no header makes the key: a request that is
        sent again with other headers must not make another job. What is no CloudEvent may be plain JSON with a `type`,
        as Standard Webhooks recommends; attributes beside it are there only if the application trusts them.
        """
        try:
            if has_attributes(message.body):
                event = self._read(message, STRUCTURED)
                return self.arrival(message, event, message_key(self.name, event.source, event.id))
            event = self._read(message, JSON) if message.attributes else self._plain_event(message)
            return self.arrival(message, event, message_key(self.name, "", message.id))
        except Unreadable as error:
            return self.unreadable(message, str(error))

    def arrival(self, message: Message, event: Event[msgspec.Raw], idempotency_key: str) -> Arrival:
        """Return what becomes of an event; raises `Unreadable` if it cannot be a job."""
        try:
            kind = kind_of(self.name, event.type)
            payload = msgspec.json.encode({"type": kind, "event": event}).decode()
        except InvalidInput as error:
            raise Unreadable(str(error)) from None
        except UnicodeError:
            raise Unreadable("the data is not UTF-8") from None
        return Arrival(
            message,
            self._terms_of(kind, event.version),
            payload,
            idempotency_key,
            _order_key(event.key) if event.key else None,
            event.headers or None,
        )

    def unreadable(self, message: Message, reason: str) -> Arrival:
        """Return what becomes of a message that cannot be read: a job that keeps all of it."""
        payload = {
            "type": UNREADABLE,
            "id": _storable(message.id),
            "reason": _storable(reason)[:MOST_REASON],
            "content_type": _storable(message.content_type) if message.content_type is not None else None,
            "attributes": {_storable(name): _storable(value) for name, value in message.attributes.items()},
            "body": base64.b64encode(message.body).decode(),
        }
        terms = Terms(UNREADABLE, queue_of(self.name), 1, 5, 1)
        key = message_key(self.name, "", message.id)
        return Arrival(message, terms, msgspec.json.encode(payload).decode(), key, unreadable=reason)

    def _read(self, message: Message, content_type: str | None) -> Event[msgspec.Raw]:
        try:
            if (size := len(message.body)) > self.most_body:
                raise Unreadable(f"the message is {size:,} bytes, the limit is {self.most_body:,}")
            event = read(message.attributes, message.body, content_type)
            if "data_base64" in event.headers:
                raise Unreadable("data_base64: expected data as JSON")
            return event
        except RecursionError:
            raise Unreadable("the data is nested too deeply") from None
        except UnicodeError:
            raise Unreadable("the data is not UTF-8") from None

    def _plain_event(self, message: Message) -> Event[msgspec.Raw]:
        """Read `{"type": …, "timestamp": …, "data": …}`; without "data", the data is the whole body."""
        fields = _object(message.body)
        if not isinstance(type := fields.get("type"), str) or not type:
            raise Unreadable('expected a CloudEvent, or a JSON object with a "type"')
        data = msgspec.json.decode(message.body, type=dict[str, msgspec.Raw]).get("data", msgspec.Raw(message.body))
        return Event(id=message.id, source=self.name, type=type, data=data, at=_instant(fields.get("timestamp")))

    def _terms_of(self, kind: str, version: int) -> Terms:
        """The terms of the handler, if there is one; the version is the event's."""
        found = self._terms.get((kind, version))
        if found is None:
            handled = self.find(kind)
            if handled is None:
                return Terms(kind, queue_of(self.name), 1, 5, version)
            found = msgspec.structs.replace(handled, version=version)
            if version < 1000:  # versions come from the network: remember no more than there can be
                self._terms[kind, version] = found
        return found


def message_key(source: str, origin: str, id: str) -> str:
    """Return the idempotency key of a message.

    A CloudEvent is known by its source attribute (`origin`) and its id. Any other message is known by its id alone, and
    has no origin. Different parts never give the same key: slashes and colons in them are quoted.
    """
    parts = "/".join(quote(part, safe="", errors="surrogatepass") for part in (origin, id))
    key = f"@message/{source}/{parts}"
    if len(key) <= DEFAULT_LIMITS.key_bytes:
        return key
    return f"@message/{source}/sha256:{hashlib.sha256(parts.encode()).hexdigest()}"


def _order_key(key: str) -> str:
    """Return a key that can be stored, the same for the same key."""
    try:
        return check_key("key", key)
    except InvalidInput:
        return f"sha256:{hashlib.sha256(key.encode(errors='surrogatepass')).hexdigest()}"


def _object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except RecursionError:
        raise Unreadable("the data is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Unreadable(f"the body is not a JSON object: {error}") from None


def _instant(value: object) -> datetime | None:
    """What a sender says about the time of its event is not worth a message: other forms are left out."""
    try:
        return msgspec.convert(value, datetime) if isinstance(value, str) else None
    except msgspec.ValidationError:
        return None


def _storable(text: str) -> str:
    return text.replace("\0", "\\0").encode(errors="replace").decode()
