"""Send the messages of a traced application, each inside a span of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...model.event import Message, Verdict
from ...model.tracing import Tracing
from ...transports import Settle, Transport


class Sender(Protocol):
    """What a relay needs to send."""

    async def send(self, batch: Sequence[Message], settle: Settle) -> None: ...


class TracedSender:
    """A span is open from the call until the verdict on its message, or until the call has ended without one."""

    def __init__(self, route: str, transport: Transport, tracing: Tracing) -> None:
        self._route = route
        self._transport = transport
        self._tracing = tracing

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        shown = self._transport.shown
        under_way = {each.delivery: self._tracing.delivery(self._route, shown, each) for each in batch}

        def settled(message: Message, verdict: Verdict) -> None:
            delivery = under_way.pop(message.delivery, None)
            settle(message, verdict if delivery is None else delivery.settled(verdict))

        why: BaseException | None = None
        try:
            await self._transport.send([each.message for each in under_way.values()], settled)
        except BaseException as error:
            why = error
            raise
        finally:
            while under_way:
                under_way.popitem()[1].unknown(why)


def sender(route: str, transport: Transport, tracing: Tracing | None) -> Sender:
    """The transport itself if the application is not traced: then a delivery pays nothing."""
    return transport if tracing is None else TracedSender(route, transport, tracing)
