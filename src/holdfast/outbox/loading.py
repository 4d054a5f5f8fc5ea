"""Load the events of claimed deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from uuid import UUID

import msgspec

from ..db.runner import Runner
from ..model.event import Message
from ..model.job import Claim


class Delivery(msgspec.Struct, frozen=True):
    """The payload of a delivery."""

    event: UUID
    on: date
    replay: int = 0
    """Which replay of the event this is; 0: its first delivery."""
    endpoint: UUID | None = None
    """The webhook endpoint to which it goes."""


_DECODER = msgspec.json.Decoder(Delivery)
_HEADERS = msgspec.json.Decoder(dict[str, str])


def read(claim: Claim) -> Delivery | None:
    """What a claimed row delivers; None: somebody has written it by hand, and it cannot be read."""
    try:
        return _DECODER.decode(claim.payload)
    except msgspec.DecodeError:
        return None


async def load(
    runner: Runner, claims: Sequence[Claim], deliveries: Sequence[Delivery], most_bytes: int
) -> tuple[list[Message], list[Claim], int]:
    """The messages of these deliveries; those of them whose event is gone; and how many were looked at, from the first
    on: no more than the bytes allow, and at least one."""
    rows = await runner.run(
        "outbox", "events", [each.event for each in deliveries], [each.on for each in deliveries], most_bytes
    )
    messages: list[Message] = []
    found: set[int] = set()
    for n, source, type, version, key, tenant, at, headers, data in rows:
        claim, delivery = claims[n - 1], deliveries[n - 1]
        found.add(n - 1)
        event = str(delivery.event)
        messages.append(
            Message(
                delivery=claim.id,
                id=f"{event}#{delivery.replay}" if delivery.replay else event,
                event_id=event,
                source=source,
                type=type,
                data=data.encode(),
                version=version,
                key=key,
                tenant=tenant,
                at=at,
                headers=_HEADERS.decode(headers) if headers is not None else {},
                attempt=claim.attempt,
                destination=str(delivery.endpoint) if delivery.endpoint is not None else None,
            )
        )
    # What comes after the last one that was found may have been left out for its size, and is looked at again.
    looked_at = max(found) + 1 if found else len(claims)
    return messages, [claims[n] for n in range(looked_at) if n not in found], looked_at
