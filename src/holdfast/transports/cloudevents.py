"""CloudEvents 1.0: the envelope of every message, as attributes beside the data (binary) or around it (structured).

Each transport has its own prefix for the names of attributes: `ce-` in HTTP and NATS headers, `ce_` in Kafka headers
and Redis fields, `cloudEvents_` in AMQP properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..model.event import RESERVED, Event, Message

STRUCTURED = "application/cloudevents+json"
JSON = "application/json"


class Unreadable(Exception):
    """This is not an event that we can read."""


def attributes(message: Message) -> dict[str, str]:
    """The attributes of a message, as text; the content type of its data is not among them."""
    found = {
        "specversion": "1.0",
        "id": message.event_id,
        "source": message.source,
        "type": message.type,
        "time": _timestamp(message.at),
        "schemaversion": str(message.version),
    }
    if message.key is not None:
        found["partitionkey"] = message.key
    if message.tenant is not None:
        found["tenant"] = message.tenant
    return {**message.headers, **found} if message.headers else found


def structured(message: Message) -> bytes:
    """The message as one JSON object."""
    envelope: dict[str, Any] = {**attributes(message), "schemaversion": message.version, "datacontenttype": JSON}
    return msgspec.json.encode({**envelope, "data": msgspec.Raw(message.data)})


def is_structured(content_type: str | None) -> bool:
    """Is this the content type of a CloudEvent whose attributes are in the body?"""
    return content_type is not None and content_type.partition(";")[0].strip().lower() == STRUCTURED


def has_attributes(body: bytes) -> bool:
    """Does the body say by itself that it is a CloudEvent? It is an object with a `specversion`."""
    try:
        return "specversion" in msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def read(found: Mapping[str, str], body: bytes, content_type: str | None = None) -> Event[msgspec.Raw]:
    """Read an event: `found` are its attributes without their prefix, or nothing if the message is structured."""
    if is_structured(content_type):
        try:
            envelope = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            data = bytes(envelope.pop("data", msgspec.Raw(b"null")))
            found = {name: _text(value) for name, value in envelope.items()}
        except (msgspec.DecodeError, ValueError) as error:
            raise Unreadable(f"the body is not a CloudEvent in JSON: {error}") from None
    else:
        data = body
    return _event(found, data)


def _text(value: msgspec.Raw) -> str:
    decoded = msgspec.json.decode(value)
    if isinstance(decoded, str):
        return decoded
    if isinstance(decoded, (bool, int)):
        return bytes(value).decode()
    raise ValueError(f"an attribute must be a string, a number or a boolean, got {bytes(value)[:40]!r}")


def _event(found: Mapping[str, str], data: bytes) -> Event[msgspec.Raw]:
    if found.get("specversion") != "1.0":
        raise Unreadable(f"specversion: expected 1.0, got {found.get('specversion')!r}")
    for name in ("id", "source", "type"):
        if not found.get(name):
            raise Unreadable(f"{name}: is missing")
    try:
        msgspec.json.decode(data or b"null")
    except msgspec.DecodeError as error:
        raise Unreadable(f"the data is not JSON: {error}") from None
    version = found.get("schemaversion", "1")
    if not version.isascii() or not version.isdigit() or not 1 <= int(version[:10]) < 2**31:
        raise Unreadable(f"schemaversion: expected a number from 1, got {version!r}")
    return Event(
        id=found["id"],
        source=found["source"],
        type=found["type"],
        data=msgspec.Raw(data or b"null"),
        version=int(version),
        key=found.get("partitionkey"),
        tenant=found.get("tenant"),
        at=_time(found.get("time")),
        headers={name: value for name, value in found.items() if name not in RESERVED},
    )


def _timestamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise Unreadable(f"time: expected RFC 3339, got {text!r}") from None
