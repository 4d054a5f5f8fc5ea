"""Events: what an application publishes, and what reaches it from others.

An event is stored once and sent to each of its destinations, always under the same id. In the words of CloudEvents 1.0,
`type`, `source`, `id` and `at` (its `time`) are context attributes; `key`, `version`, `tenant` and the headers are
extension attributes (`partitionkey`, `schemaversion`, `tenant`, and the headers' own names).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

import msgspec

T = TypeVar("T")

CONTEXT = frozenset({"specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "data"})
"""The attributes of CloudEvents itself."""
OURS = frozenset({"partitionkey", "schemaversion", "tenant"})
"""The extension attributes of our events."""
RESERVED = CONTEXT | OURS
"""What headers may not be called."""
ENDPOINTS = "webhook endpoints"
"""What the destination of the route to webhook endpoints is called: it is stored with the route."""


def is_header_name(name: object) -> bool:
    """Can CloudEvents carry a header of this name, and is it not an attribute that every event has?"""
    plain = isinstance(name, str) and name.isascii() and name.isalnum() and name == name.lower() and len(name) <= 20
    return plain and name not in RESERVED


def with_headers(given: dict[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The headers that an event was given, and these as well. If it was given one of these, it gets none of them; those
    that CloudEvents cannot carry are left out."""
    usable = {name: value for name, value in more.items() if is_header_name(name)}
    return {**given, **usable} if given.keys().isdisjoint(usable) else given


class Event(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """An event, as a handler gets it.

    ```python
    event = Event(id="9182-paid", source="shop", type="order.paid", data=OrderPaid(order_id=9182), key="order:9182")
    ```
    """

    id: str
    """Unique within its source: any number of deliveries have the same one."""
    source: str
    """Who published it."""
    type: str
    """What happened: `order.paid`."""
    data: T
    """What there is to know about it."""
    version: int = 1
    """The version of its data's schema."""
    key: str | None = None
    """What it is about. Events with the same key keep their order."""
    tenant: str | None = None
    """Whose it is."""
    at: datetime | None = None
    """When it was published."""
    headers: dict[str, str] = {}
    """Metadata: extension attributes of CloudEvents."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way to one destination."""

    delivery: UUID
    """The id of the delivery: the row in the inbox."""
    id: str
    """The id under which a broker that drops duplicates knows it: the event's, or in a replay, `<event id>#<n>`."""
    event_id: str
    """The id of the event."""
    source: str
    """Who published it."""
    type: str
    """What happened."""
    data: bytes
    """JSON."""
    version: int
    """The version of its data's schema."""
    key: str | None
    """What it is about."""
    tenant: str | None
    """Whose it is."""
    at: datetime
    """When it was published."""
    headers: dict[str, str]
    """Metadata."""
    attempt: int
    """Which attempt this is, from 1."""
    destination: str | None = None
    """Where it goes, if its route has many destinations: the id of a webhook endpoint."""


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """The destination has confirmed the message."""

    reference: str | None = None
    """Where the destination has put it: a sequence number, an offset."""
    details: dict[str, str | int | float] = {}
    """What else is kept of it: the status and duration of a request."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The destination has answered, and does not take the message. It costs an attempt."""

    reason: str
    """What it said."""
    final: bool = False
    """Will it never take this message? Then it becomes a dead letter now."""
    delay: float | None = None
    """Seconds until the next attempt; None: the backoff decides."""
    details: dict[str, str | int | float] = {}
    """What else is kept of this attempt."""


class Postponed(msgspec.Struct, frozen=True, kw_only=True):
    """This message is not sent now, while others are. It costs no attempt."""

    reason: str
    """Why not."""
    delay: float = 0.0
    """Seconds until it is sent. If its webhook endpoint is paused or disabled, it waits until that is active again."""


Verdict = Delivered | Refused | Postponed
