"""One attempt: a message to an endpoint, signed and sent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from ..errors import ConfigurationError, InvalidInput
from ..model.event import Message
from ..model.signature import ID, SIGNATURE, TIMESTAMP, sign
from ..transports.cloudevents import STRUCTURED, structured
from .limits import PATIENCE

if TYPE_CHECKING:
    from .sender import Answer, Sender
    from .transport import Webhooks


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the sender needs of an endpoint's row."""

    id: UUID
    url: str
    status: str
    secrets: list[str]
    failing_since: datetime | None = None
    failing_for: float | None = None


def endpoint_of(row: Mapping[str, Any] | asyncpg.Record) -> Endpoint:
    """The endpoint of a row of load.sql."""
    return Endpoint(**dict(row))


def new_sender(webhooks: Webhooks) -> Sender:
    """A sender by these settings. The HTTP client is imported here: applications without webhooks need none."""
    try:
        from .sender import Sender
    except ImportError as error:
        raise ConfigurationError(f"Webhooks need aiohttp ({error}). Run: pip install 'holdfast[webhooks]'") from error
    return Sender(webhooks.policy, webhooks.timeout, webhooks.tls)


async def attempt(sender: Sender, message: Message, endpoint: Endpoint, patience: float = PATIENCE) -> Answer:
    """Send one message, signed now with all secrets of the endpoint. See `Sender.post`."""
    if not endpoint.secrets:
        raise InvalidInput("secrets", "none is valid any more; to make one: holdfast endpoint rotate")
    body = structured(message)
    timestamp = int(time.time())
    headers = signed_headers(message.event_id, timestamp, body, endpoint.secrets)
    return await sender.post(endpoint.url, headers, body, patience)


def signed_headers(id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """The headers of a request."""
    return {
        "content-type": STRUCTURED,
        ID: id,
        TIMESTAMP: str(timestamp),
        SIGNATURE: " ".join(sign(secret, id, timestamp, body) for secret in secrets),
    }


def reason(answer: Answer) -> str:
    """Why an attempt has failed."""
    if answer.status is None:
        return answer.error or "no answer"
    if 300 <= answer.status < 400:
        return f"HTTP {answer.status}: redirects are not followed"
    return f"HTTP {answer.status}"
