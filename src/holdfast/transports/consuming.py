"""Consumers: how messages come from a broker.

The loop that runs one fetches messages, stores them in one transaction, and acknowledges them after the commit. What
was not acknowledged comes again: a consumer rejects nothing and drops nothing. While there is no database, nothing is
fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

FETCHED = 100
"""Most messages of one call of `fetch`."""
FIRST = 1.0
"""Seconds for which `fetch` waits for the first message."""
LINGER = 0.02
"""Seconds for which it waits for others after the first."""


class Incoming(msgspec.Struct, frozen=True):
    """One message from a broker."""

    attributes: Mapping[str, str]
    """CloudEvents attributes without their prefix; empty if the message is structured."""
    body: bytes
    """The data, or the whole event if the message is structured."""
    content_type: str | None
    """Of the body, as the broker gives it."""
    handle: Any
    """The consumer's, for `acknowledge`."""
    fallback_id: str
    """An id that the broker gives (stream:sequence), for a message that cannot be read."""


@runtime_checkable
class Consumer(Protocol):
    """A source of messages."""

    @property
    def shown(self) -> str:
        """What logs and operators see of it; without passwords."""

    async def open(self) -> None:
        """Connect; raises `Away` if the broker cannot be reached. Called again after `close`."""

    async def fetch(self) -> Sequence[Incoming]:
        """Return up to 100 messages, or those that come within 20 ms of the first; after about a second, none.

        Raises `Away` if the connection was lost.
        """

    async def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Tell the broker that these messages are stored, after the commit."""

    async def close(self) -> None:
        """Disconnect. Messages that were fetched and not acknowledged come again."""
