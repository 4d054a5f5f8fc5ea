"""Endpoints, events and their deliveries on a migrated database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from tests.support.inbox import Session

from holdfast.model.job import Claim
from holdfast.webhooks import operating
from holdfast.webhooks.addresses import Policy
from holdfast.webhooks.fanning import QUEUE, FannedOut, fan_out
from holdfast.webhooks.operating import NewEndpoint

ANY = Policy(allow_private=True, allow_http=True, ports=None)
DELIVER = {"@deliver": (1, 1)}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Outbox:
    """The route `webhooks`, its endpoints and its deliveries, as one session sees them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.connection = session.connection

    async def add(self, url: str = "https://example.com/hook", **options: Any) -> NewEndpoint:
        given = {"types": ["*"], "tenant": None, "ordered": False, "description": None, "policy": ANY, **options}
        return await operating.add(self.session, url, **given)

    async def publish(self, type: str = "order.paid", key: str | None = None, tenant: str | None = None) -> UUID:
        return UUID(
            str(
                await self.connection.fetchval(
                    "select holdfast.publish($1, '{\"n\": 1}', key => $2, tenant => $3)", type, key, tenant
                )
            )
        )

    async def claim(self, queue: str = "out.webhooks", worker: str = "w1", limit: int = 100) -> list[Claim]:
        return await self.session.claim(worker, limit, queues=[queue], known=DELIVER)

    async def fan_out(self) -> FannedOut:
        """Fan out all that waits."""
        return await fan_out(self.session, await self.claim())

    async def waiting(self) -> dict[str, int]:
        """How many rows wait in which queue."""
        rows = await self.connection.fetch("select queue, count(*) from holdfast.inbox group by queue")
        return {row[0]: row[1] for row in rows}

    async def endpoints(self) -> list[Claim]:
        return await self.claim(QUEUE)


@pytest.fixture
async def outbox(one: Session) -> AsyncIterator[Outbox]:
    await one.connection.execute(
        "insert into holdfast.routes (name, types, queue) values ('webhooks', '{*}', 'out.webhooks')"
    )
    yield Outbox(one)
