"""Transports: how messages reach a destination, and how they come from one.

A transport is a value of the application: `Nats("nats://bus", subject="shop.{type}")`. Each worker process opens it
once for each route. To write one, implement `Transport`: three methods, and what is left unsettled counts as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from ..model.event import Delivered, Message, Postponed, Refused, Verdict

Settle = Callable[[Message, Verdict], None]


class Away(Exception):
    """The destination cannot be reached, or the connection was lost. It costs no attempt, and is tried again."""


class Unavailable(Away):
    """The destination has answered that it cannot take messages now: no message is the reason.

    A row that loses its connection again and again, while others get through, is suspected and spends attempts in the
    end. After this, none is.
    """


@runtime_checkable
class Transport(Protocol):
    """A destination of events."""

    batch: int
    """Most messages of one call of `send`."""
    parallel: int
    """Most calls of `send` at the same time."""

    @property
    def shown(self) -> str:
        """What logs and operators see of it; without passwords."""

    async def open(self) -> None:
        """Connect; raises if the destination is away. Called again after `close`, with waits in between."""

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        """Send these messages, and settle each as soon as its verdict is known.

        A message that is not settled when this returns or raises has an unknown fate: it costs no attempt, the
        transport is closed and opened again, and the message is sent again. So raise, or leave it unsettled, if the
        connection was lost; settle it as `Refused` if the destination has answered about this message, and raise
        `Unavailable` if it has answered that it takes none now. A batch has at most one message of a key if the route
        is ordered, so neither pipelining nor retries change the order of a key.
        """

    async def close(self) -> None:
        """Disconnect, at once. What `send` was waiting for does not come any more."""


__all__ = ["Away", "Delivered", "Message", "Postponed", "Refused", "Settle", "Transport", "Unavailable", "Verdict"]
