"""Publish events, in the caller's transaction or our own."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from ..db.callers import Operation, Row
from ..db.database import Database
from ..errors import IdempotencyConflict


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that is checked and encoded, and not published yet."""

    id: UUID
    type: str
    version: int
    data: str
    """JSON."""
    key: str | None = None
    tenant: str | None = None
    headers: str | None = None
    """JSON."""


class Published(msgspec.Struct, frozen=True, gc=False):
    """An event that was published.

    ```python
    published = await hf.publish("order.paid", {"order_id": 1}, key="order:1")
    print(published.id, published.deliveries)
    ```
    """

    id: UUID
    """Under which it is delivered, however often."""
    existed: bool = False
    """Was it there already, under the id that was passed?"""
    deliveries: int = 0
    """To how many routes it goes. An event without a route is kept, and can be replayed."""


def publish(
    database: Database,
    events: Sequence[NewEvent],
    source: str | None,
    *,
    brought: bool,
    guarded: bool,
    routes: str | None,
) -> Operation[list[Published]]:
    """Publish these. `brought`: the caller chose the ids. `guarded`: the call is retried if no answer comes. `routes`:
    those of the application, as JSON, which are stored if they are not there yet."""

    def decode(rows: Sequence[Row]) -> list[Published]:
        found: list[Published] = []
        for _, id, existed, conflict, deliveries in rows:
            if conflict is not None:
                raise IdempotencyConflict("id", f"{id} is an event that has {conflict}; use a new id for a new event")
            found.append(Published(UUID(id), existed and brought, deliveries))
        return found

    return Operation(
        database.sql("outbox", "publish"),
        (
            [str(event.id) for event in events], [event.type for event in events], [event.version for event in events],
            [event.key for event in events], [event.tenant for event in events], [event.headers for event in events],
            [event.data for event in events], source, brought, guarded, routes,
        ),
        decode,
    )  # fmt: skip
