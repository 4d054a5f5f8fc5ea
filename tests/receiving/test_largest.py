"""The largest event that can be published arrives, through a broker and as a webhook."""

import asyncio
from typing import Any

import pytest
from tests.support.brokers import fresh
from tests.support.brokers.redis import RedisServer
from tests.support.hooks import serving
from tests.support.workers import Inbox

from holdfast import Event, Holdfast, InvalidInput, Limits, Rejected
from holdfast.receiving.arrivals import MOST_BODY
from holdfast.transports.redis import RedisConsumer, RedisStreams
from holdfast.webhooks import Webhooks
from holdfast.webhooks.addresses import Policy

NUMBERS = [1] * (1024 * 1024 // 2 - 1)
"""One MiB of JSON without spaces; Postgres writes it with spaces."""
FITS = 2 * 1024 * 1024 - 8192 - 3 * len(NUMBERS) - len('{"more": ""}')
"""Bytes of a header that may be added to that."""


async def test_the_largest_event_arrives(hf: Holdfast, inbox: Inbox, redis_server: RedisServer) -> None:
    seen: dict[str, Event[Any]] = {}
    stream = fresh("stream")
    hf.relay("big", to=RedisStreams(redis_server.url, stream=stream), name="bus")
    hf.relay("big", to=Webhooks(allow_private=True, allow_http=True, ports=None), name="webhooks")
    hf.consume(RedisConsumer(redis_server.url, stream=stream, group="books"), source="bus")

    @hf.on_event("big", source="bus")
    async def from_bus(event: Event[Any]) -> None:
        seen["bus"] = event

    @hf.on_event("big", source="web")
    async def from_web(event: Event[Any]) -> None:
        seen["web"] = event

    secrets: list[str] = []
    async with serving(hf.receiver(source="web", secrets=lambda: secrets, timeout="60s")) as url:
        policy = Policy(allow_private=True, allow_http=True, ports=None)
        secrets.append((await hf.add_endpoint(url, types=["big"], policy=policy)).secret)
        made = await hf.publish("big", NUMBERS, key="k" * 512, headers={"more": "x" * FITS})
        async with hf.worker(), asyncio.timeout(90):
            while len(seen) < 2:
                await asyncio.sleep(0.05)
    for event in seen.values():
        assert (event.id, event.data, len(event.headers["more"])) == (str(made.id), NUMBERS, FITS)
    assert inbox.one("select max(pg_catalog.octet_length(data::text || headers::text)) from holdfast.events") > 1 << 20


async def test_what_no_receiver_would_take_is_not_published(hf: Holdfast, inbox: Inbox) -> None:
    with pytest.raises(InvalidInput, match="data: 2088961 bytes with the headers, as they are sent; the limit is"):
        await hf.publish("big", NUMBERS, headers={"more": "x" * (FITS + 1)})
    with pytest.raises(InvalidInput, match="as they are sent"):
        await hf.publish("big", [1e-300] * 10_000)  # 310 digits each
    assert not inbox.one("select count(*) from holdfast.events")


async def test_larger_limits_of_both_sides(migrated_url: str, inbox: Inbox) -> None:
    hf = Holdfast(migrated_url, limits=Limits(payload_bytes=2 * 1024 * 1024))
    try:
        with pytest.raises(InvalidInput, match="as they are sent"):
            await hf.publish("big", NUMBERS * 2)
        inbox.rows("update holdfast.settings set value = '2097152' where name = 'payload_bytes' returning name")
        assert not (await hf.publish("big", NUMBERS * 2)).existed
        assert hf._source("shop").most_body == 2 * MOST_BODY
        with pytest.raises(Rejected, match=f"larger than {2 * MOST_BODY:,} bytes"):
            secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
            await hf.receive(source="shop", secrets=secrets, headers={}, body=b"x" * (2 * MOST_BODY + 1))
    finally:
        await hf.close()
