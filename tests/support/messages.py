"""Messages as the relay makes them, and what a transport says about them."""

import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.transports import Delivered, Message, Refused, Verdict


def message(number: int = 0, **changes: Any) -> Message:
    """A message that no other is like; its data name its number."""
    id = str(uuid.uuid4())
    made = Message(
        delivery=uuid.uuid4(),
        id=id,
        event_id=id,
        source="shop",
        type="order.paid",
        data=json.dumps({"number": number}).encode(),
        version=1,
        key=f"order:{number}",
        tenant=None,
        at=datetime.now(UTC),
        headers={},
        attempt=1,
    )
    return msgspec.structs.replace(made, **changes)


class Verdicts:
    """What was settled: pass `verdicts` as the callback."""

    def __init__(self) -> None:
        self.found: dict[uuid.UUID, Verdict] = {}
        self.order: list[str] = []

    def __call__(self, message: Message, verdict: Verdict) -> None:
        assert message.delivery not in self.found, "settled twice"
        self.found[message.delivery] = verdict
        self.order.append(message.id)

    def of(self, message: Message) -> Verdict | None:
        return self.found.get(message.delivery)

    def delivered(self, messages: Iterable[Message]) -> list[Message]:
        return [one for one in messages if isinstance(self.of(one), Delivered)]

    def refused(self, message: Message) -> Refused:
        verdict = self.of(message)
        assert isinstance(verdict, Refused), verdict
        return verdict
