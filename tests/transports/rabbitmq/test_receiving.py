"""The consumer of a queue of a real RabbitMQ."""

import asyncio
import time
from datetime import UTC, datetime

import aio_pika
import pytest
from cloudevents.core.bindings import amqp, rabbitmq
from cloudevents.core.v1.event import CloudEvent
from tests.support.brokers import fresh
from tests.support.messages import Verdicts, message
from tests.transports.rabbitmq.conftest import Shop

from holdfast.transports import Away
from holdfast.transports.cloudevents import read
from holdfast.transports.consuming import Consumer, Incoming
from holdfast.transports.rabbitmq import RabbitMQConsumer
from holdfast.transports.rabbitmq.consuming import _Tags


async def fill(shop: Shop, count: int, start: int = 0) -> list[bytes]:
    transport, verdicts = shop.sender(), Verdicts()
    batch = [message(start + number) for number in range(count)]
    await transport.open()
    await transport.send(batch, verdicts)
    await transport.close()
    assert len(verdicts.delivered(batch)) == count
    return [one.data for one in batch]


async def fetch(consumer: Consumer, count: int) -> list[Incoming]:
    """Fetch until this many have come."""
    found: list[Incoming] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await consumer.fetch()
    return found


def bodies(messages: list[Incoming]) -> list[bytes]:
    return [one.body for one in messages]


async def test_order_is_kept_while_a_consumer_that_stands_still_holds_messages(shop: Shop) -> None:
    sent = await fill(shop, 5)
    stopped, next_one = shop.consumer(prefetch=2), shop.consumer()
    await stopped.open()
    assert bodies(await fetch(stopped, 2)) == sent[:2]  # it acknowledges nothing, and its connection stays open
    with pytest.raises(Away, match="something else reads this queue, or has stopped answering"):
        await next_one.open()
    await stopped.close()
    await next_one.open()
    assert bodies(await fetch(next_one, 5)) == sent
    await next_one.close()


async def test_an_event_arrives_as_it_was_sent(shop: Shop) -> None:
    one = message(1, headers={"trace": 'ä "x" 100%\n'}, tenant="acme", version=3)
    transport, consumer = shop.sender(), shop.consumer()
    await transport.open()
    await transport.send([one], Verdicts())
    await transport.close()
    await consumer.open()
    [incoming] = await fetch(consumer, 1)
    await consumer.close()
    event = read(incoming.attributes, incoming.body, incoming.content_type)
    assert (event.id, event.source, event.type, event.version) == (one.event_id, "shop", "order.paid", 3)
    assert (event.key, event.tenant, event.headers, event.at) == (one.key, "acme", one.headers, one.at)
    assert bytes(event.data) == one.data
    assert incoming.fallback_id == f"{shop.name}:{one.id}"


async def test_what_was_not_acknowledged_comes_again(shop: Shop) -> None:
    sent = await fill(shop, 10)
    consumer = shop.consumer()
    assert isinstance(consumer, Consumer)
    await consumer.open()
    first = await fetch(consumer, 10)
    assert bodies(first) == sent
    await consumer.acknowledge([first[0], first[1], first[2], first[6], first[4]])  # there are gaps
    await consumer.close()

    await consumer.open()
    again = await fetch(consumer, 5)
    assert bodies(again) == [sent[3], sent[5], sent[7], sent[8], sent[9]]
    assert again[0].fallback_id == first[3].fallback_id
    await consumer.acknowledge(first)  # of an earlier connection
    await consumer.close()

    await consumer.open()
    again = await fetch(consumer, 5)
    await consumer.acknowledge(again[2:])
    await consumer.acknowledge(again[:2])
    await consumer.acknowledge(again)  # once more
    assert await consumer.fetch() == []
    await consumer.close()
    assert await shop.bodies() == []


async def test_many_messages_come_in_hundreds_and_no_more_than_the_prefetch(shop: Shop) -> None:
    sent = await fill(shop, 350)
    consumer = shop.consumer()
    await consumer.open()
    held = await fetch(consumer, 200)
    assert await consumer.fetch() == []  # 200 are here and not acknowledged
    await consumer.acknowledge(held)
    found = held
    while len(found) < 350:
        got = await consumer.fetch()
        assert len(got) <= 100
        await consumer.acknowledge(got)
        found += got
    await consumer.close()
    assert bodies(found) == sent


async def test_it_waits_a_second_for_the_first_and_a_moment_for_others(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport, consumer = shop.sender(), shop.consumer()
    await transport.open()
    await consumer.open()
    started = time.monotonic()
    assert await consumer.fetch() == []
    assert time.monotonic() - started > 0.9
    monkeypatch.setattr("holdfast.transports.rabbitmq.consuming.FIRST", 600)
    async with asyncio.timeout(60):
        fetching = asyncio.create_task(consumer.fetch())
        await asyncio.sleep(0.1)
        await transport.send([message(1)], Verdicts())
        assert len(await fetching) == 1
    await consumer.close()
    await transport.close()


async def test_a_fetch_that_is_cancelled_loses_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.transports.rabbitmq.consuming.FIRST", 60)
    monkeypatch.setattr("holdfast.transports.rabbitmq.consuming.LINGER", 60)
    consumer = shop.consumer()
    await consumer.open()
    for number in range(2):  # once while it waits for the first, once for others after it
        fetching = asyncio.create_task(consumer.fetch())
        await asyncio.sleep(0.1)
        sent = await fill(shop, number)
        await asyncio.sleep(0.1)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
    monkeypatch.undo()
    found = await fetch(consumer, 1)
    assert bodies(found) == sent
    await consumer.acknowledge(found)
    await consumer.close()
    assert await shop.bodies() == []


async def test_a_queue_that_is_missing_or_deleted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Away, match="declare the queue first"):
        await RabbitMQConsumer(shop.server.url, fresh()).open()
    monkeypatch.setattr("holdfast.transports.rabbitmq.consuming.FIRST", 60)
    consumer = shop.consumer()
    await consumer.open()
    fetching = asyncio.create_task(consumer.fetch())
    await asyncio.sleep(0.05)
    await (await shop.channel()).queue_delete(shop.name)
    with pytest.raises(Away, match="was the queue deleted"):
        await fetching
    await consumer.close()


@pytest.mark.faults
async def test_a_frozen_server_is_noticed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.transports.rabbitmq.link.HEARTBEAT", 1)
    consumer = shop.consumer()
    await consumer.open()
    shop.server.freeze()
    with pytest.raises(Away):
        async with asyncio.timeout(60):
            while True:
                await consumer.fetch()
    async with asyncio.timeout(60):
        await consumer.close()


async def test_what_others_send(shop: Shop) -> None:
    """Both forms of the envelope, the prefixes of both bindings, and what is no event at all."""
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    event = CloudEvent(
        {
            "id": "7",
            "source": "/books",
            "type": "order.paid",
            "time": at,
            "specversion": "1.0",
            "datacontenttype": "application/json",
            "partitionkey": "order:1",
        },
        {"n": 1},
    )
    theirs = amqp.to_binary_event(event)
    binary = rabbitmq.to_binary_event(event)
    structured = amqp.to_structured_event(event)
    colons = {name.replace("cloudEvents_", "cloudEvents:"): v for name, v in theirs.application_properties.items()}
    channel = await shop.channel()
    exchange = await channel.get_exchange(shop.name)
    for made in (
        aio_pika.Message(binary.body, headers=dict(binary.headers), content_type=binary.content_type),
        aio_pika.Message(
            theirs.application_data, headers={**colons, "cloudEvents:time": at}, content_type="application/json"
        ),
        aio_pika.Message(structured.application_data, content_type="application/cloudevents+json"),
        aio_pika.Message(b"what?"),
    ):
        await exchange.publish(made, "order.paid")
    consumer = shop.consumer()
    await consumer.open()
    found = await fetch(consumer, 4)
    await consumer.close()
    for incoming in found[:3]:
        got = read(incoming.attributes, incoming.body, incoming.content_type)
        assert (got.id, got.source, got.type, got.key, got.at) == ("7", "/books", "order.paid", "order:1", at)
        assert bytes(got.data).replace(b" ", b"") == b'{"n":1}'
    assert found[3].attributes == {} and found[3].content_type is None
    assert found[3].fallback_id.startswith(f"{shop.name}:")


def test_tags_are_acknowledged_together_only_without_gaps() -> None:
    tags = _Tags()
    assert tags.acknowledge([1, 2, 3]) == [(3, True)]
    assert tags.acknowledge([7, 5]) == [(5, False), (7, False)]
    assert tags.acknowledge([5, 7, 2]) == []
    assert tags.acknowledge([4]) == [(4, True)]
    assert tags.acknowledge([6, 8, 10]) == [(8, True), (10, False)]
    assert tags.acknowledge([9]) == [(9, True)]
    assert tags.acknowledge([11]) == [(11, True)]
