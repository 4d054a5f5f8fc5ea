"""What only Redis does."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.support.brokers.redis import RedisServer
from tests.support.messages import Verdicts, message
from tests.transports.conftest import RedisBench
from tests.transports.test_brokers import fetch, send

from holdfast.transports import Away, Unavailable
from holdfast.transports.cloudevents import STRUCTURED, read, structured
from holdfast.transports.redis import RedisConsumer, RedisStreams


@pytest.fixture
def careless() -> Iterator[RedisServer]:
    """A server that forgets, and that asks for a password."""
    server = RedisServer(appendonly="no", maxmemory="3mb", maxmemory_policy="allkeys-lru", requirepass="secret")
    server.start()
    yield server
    server.close()


async def test_a_server_that_may_forget_is_warned_about_once(
    careless: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = careless.url.replace("redis://", "redis://:secret@")
    transport = RedisStreams(url, "shop")
    await transport.open()
    assert "has no append-only file" in caplog.text
    assert "deletes streams when its memory is full (allkeys-lru)" in caplog.text
    assert "secret" not in caplog.text
    warnings = len(caplog.records)
    await transport.close()
    await transport.open()
    await transport.close()
    assert len(caplog.records) == warnings == 2
    assert "secret" not in transport.shown

    with pytest.raises(Away) as caught:
        await RedisStreams(careless.url.replace("redis://", "redis://:wrong@"), "shop").open()
    assert "wrong" not in str(caught.value)
    with pytest.raises(Away):
        await RedisStreams(careless.url, "shop").open()


async def test_a_safe_server_is_not_warned_about(on_redis: RedisBench, caplog: pytest.LogCaptureFixture) -> None:
    transport = on_redis.sender()
    await transport.open()
    await transport.close()
    assert not caplog.records


async def test_a_server_without_memory_is_away(on_redis: RedisBench) -> None:
    """It answers, but not about this message: no attempt is lost."""
    transport, verdicts = on_redis.sender(), Verdicts()
    await transport.open()
    client = on_redis.client()
    await client.config_set("maxmemory", "1")
    try:
        with pytest.raises(Unavailable, match="OOM"):
            await transport.send([message(1), message(2)], verdicts)
    finally:
        await client.config_set("maxmemory", "0")
        await client.aclose()
        await transport.close()
    assert not verdicts.found


async def test_a_stream_for_all_types(on_redis: RedisBench) -> None:
    batch = [message(number, type=f"order.{word}") for number, word in enumerate(("paid", "sent"))]
    verdicts = await send(on_redis.sender(stream=on_redis.name), *batch)
    assert len(verdicts.delivered(batch)) == 2
    consumer = RedisConsumer(on_redis.server.url, on_redis.name, "books")
    await consumer.open()
    found = await fetch(consumer, 2)
    await consumer.acknowledge(found)
    await consumer.close()
    assert [incoming.attributes["type"] for incoming in found] == ["order.paid", "order.sent"]


async def test_a_consumer_of_several_streams(on_redis: RedisBench) -> None:
    batch = [message(number, type=f"order.{number % 3}") for number in range(30)]
    await send(on_redis.sender(), *batch)
    consumer = RedisConsumer(on_redis.server.url, [f"{on_redis.name}.order.{n}" for n in range(3)], "books")
    await consumer.open()
    found = await fetch(consumer, 30)
    await consumer.acknowledge(found)
    assert await consumer.fetch() == []
    await consumer.close()
    assert {incoming.body for incoming in found} == {one.data for one in batch}


async def test_what_a_consumer_of_another_name_left_is_claimed(on_redis: RedisBench) -> None:
    await send(on_redis.sender(), one := message(1))
    gone = on_redis.consumer(name="gone")
    await gone.open()
    assert len(await fetch(gone, 1)) == 1
    await gone.close()
    consumer = on_redis.consumer(name="here", claim_after=3)
    await consumer.open()
    assert await consumer.fetch() == []
    [found] = await fetch(consumer, 1)
    await consumer.acknowledge([found])
    await consumer.close()
    assert found.body == one.data
    client = on_redis.client()
    pending = await client.xpending(f"{on_redis.name}.order.paid", "books")
    await client.aclose()
    assert pending["pending"] == 0


async def test_entries_that_were_deleted_unread(on_redis: RedisBench, caplog: pytest.LogCaptureFixture) -> None:
    await send(on_redis.sender(), message(1), message(2))
    consumer = on_redis.consumer()
    await consumer.open()
    assert len(await fetch(consumer, 2)) == 2
    await consumer.close()
    client = on_redis.client()
    await client.xtrim(f"{on_redis.name}.order.paid", maxlen=1, approximate=False)
    await consumer.open()
    found = await fetch(consumer, 1)
    assert "1 entries were deleted" in caplog.text
    await consumer.acknowledge(found)
    pending = await client.xpending(f"{on_redis.name}.order.paid", "books")
    await client.aclose()
    await consumer.close()
    assert pending["pending"] == 0


async def test_entries_of_others(on_redis: RedisBench) -> None:
    client, stream, one = on_redis.client(), f"{on_redis.name}.order.paid", message(1)
    await client.xadd(stream, {"content-type": STRUCTURED, "data": structured(one)})
    await client.xadd(stream, {"order": "9182", "bytes": b"\xff"})
    await client.xadd(stream, {"ce_id": b"\xff", "data": "{}"})
    await client.aclose()
    consumer = on_redis.consumer()
    await consumer.open()
    found = await fetch(consumer, 3)
    await consumer.acknowledge(found)
    await consumer.close()
    assert read(found[0].attributes, found[0].body, found[0].content_type).id == one.event_id
    assert b'"order": "9182"' in found[1].body
    assert [incoming.attributes for incoming in found[1:]] == [{}, {}]
    assert len({incoming.fallback_id for incoming in found}) == 3


async def test_a_stream_that_is_deleted_under_a_consumer(on_redis: RedisBench) -> None:
    consumer = on_redis.consumer()
    await consumer.open()
    client = on_redis.client()
    await client.delete(f"{on_redis.name}.order.paid")
    await client.aclose()
    with pytest.raises(Away):
        async with asyncio.timeout(60):
            while True:
                await consumer.fetch()
    await consumer.close()
    await consumer.open()
    await send(on_redis.sender(), message(1))
    assert len(await fetch(consumer, 1)) == 1
    await consumer.close()


async def test_a_url_may_have_parameters(on_redis: RedisBench) -> None:
    """Those that change how answers look change nothing here."""
    url = f"{on_redis.server.url}?protocol=3&decode_responses=true"
    one = message(1)
    assert (await send(RedisStreams(url, f"{on_redis.name}.order.paid"), one)).delivered([one])
    consumer = RedisConsumer(url, f"{on_redis.name}.order.paid", "books")
    await consumer.open()
    found = await fetch(consumer, 1)
    await consumer.acknowledge(found)
    await consumer.close()
    assert found[0].body == one.data
