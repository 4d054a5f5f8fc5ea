"""The consumer of topics, on librdkafka's mock cluster."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings import kafka
from cloudevents.core.v1.event import CloudEvent
from confluent_kafka import KafkaError, Producer
from tests.support.brokers import fresh
from tests.support.messages import Verdicts, message
from tests.transports.kafka.conftest import Topics

from holdfast.transports import Away
from holdfast.transports.cloudevents import read
from holdfast.transports.consuming import Consumer, Incoming
from holdfast.transports.kafka.consuming import _Partition


async def fill(topics: Topics, count: int, start: int = 0, **changes: Any) -> list[bytes]:
    transport, verdicts = topics.sender(), Verdicts()
    batch = [message(start + number, **changes) for number in range(count)]
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


async def test_an_event_arrives_as_it_was_sent(topics: Topics) -> None:
    one = message(1, headers={"trace": 'ä "x" 100%\n'}, tenant="acme", version=3)
    transport, consumer = topics.sender(), topics.consumer()
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
    assert incoming.fallback_id == f"{topics.paid}:0:0"


async def test_what_was_not_acknowledged_comes_again(topics: Topics) -> None:
    """In order: what is behind a gap is not committed, and so comes again, too."""
    sent = await fill(topics, 10)
    consumer = topics.consumer()
    assert isinstance(consumer, Consumer)
    await consumer.open()
    first = await fetch(consumer, 10)
    assert bodies(first) == sent
    await consumer.acknowledge([first[2], first[0], first[1], first[6]])
    await consumer.close()

    await consumer.open()
    again = await fetch(consumer, 7)
    assert bodies(again) == sent[3:]
    await consumer.acknowledge(first)  # of an earlier membership
    await consumer.acknowledge(again[4:])
    await consumer.acknowledge(again[:4])
    await consumer.acknowledge(again)  # once more
    await consumer.close()

    late = await fill(topics, 1, 10)
    await consumer.open()
    assert bodies(await fetch(consumer, 1)) == late
    await consumer.close()


async def test_partitions_are_committed_separately(topics: Topics) -> None:
    topic = f"{topics.name}.many"
    topics.cluster.create(topic, 4)
    await fill(topics, 40, type="many")
    consumer = topics.consumer(topic)
    await consumer.open()
    found = await fetch(consumer, 40)
    kept = found[0].handle[1]
    done = [one for one in found if one.handle[1] != kept]
    assert 0 < len(done) < 40
    await consumer.acknowledge(done)
    await consumer.close()
    await consumer.open()
    again = await fetch(consumer, 40 - len(done))
    assert {one.handle[1] for one in again} == {kept}
    await consumer.close()


async def test_many_messages_come_in_hundreds(topics: Topics) -> None:
    sent = await fill(topics, 350)
    consumer = topics.consumer()
    await consumer.open()
    found: list[Incoming] = []
    async with asyncio.timeout(60):
        while len(found) < 350:
            got = await consumer.fetch()
            assert len(got) <= 100
            await consumer.acknowledge(got)
            found += got
    started = time.monotonic()
    assert await consumer.fetch() == []
    assert time.monotonic() - started > 0.9
    await consumer.close()
    assert bodies(found) == sent


async def test_a_fetch_that_is_cancelled_loses_nothing(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the thread has taken is what the next fetch returns."""
    consumer = topics.consumer()
    await consumer.open()
    await fill(topics, 1)
    await consumer.acknowledge(await fetch(consumer, 1))
    monkeypatch.setattr("holdfast.transports.kafka.consuming.FIRST", 10)
    fetching = asyncio.create_task(consumer.fetch())
    await asyncio.sleep(0.05)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    sent = await fill(topics, 3, 1)
    found = await fetch(consumer, 3)
    assert bodies(found) == sent
    await consumer.acknowledge(found)
    await consumer.close()


@pytest.mark.faults
async def test_brokers_that_go_away(topics: Topics) -> None:
    sent = await fill(topics, 3)
    consumer = topics.consumer(timeout=3)
    await consumer.open()
    found = await fetch(consumer, 3)
    topics.cluster.down()
    with pytest.raises(Away):
        async with asyncio.timeout(60):
            while True:
                await consumer.fetch()
    with pytest.raises(Away):
        await consumer.acknowledge(found)
    async with asyncio.timeout(60):
        await consumer.close()
    with pytest.raises(Away):
        await consumer.open()
    topics.cluster.up()
    await consumer.open()
    again = await fetch(consumer, 3)
    assert bodies(again) == sent
    assert [one.fallback_id for one in again] == [one.fallback_id for one in found]
    await consumer.acknowledge(again)
    await consumer.close()


async def test_a_topic_that_is_missing(topics: Topics) -> None:
    missing = fresh()
    topics.cluster.set_error(missing, KafkaError.UNKNOWN_TOPIC_OR_PART)
    consumer = topics.consumer(missing)
    await consumer.open()
    with pytest.raises(Away, match="Unknown topic"):
        async with asyncio.timeout(60):
            while True:
                await consumer.fetch()
    await consumer.close()


async def test_what_others_send(topics: Topics) -> None:
    """Both forms of the envelope, and what is no event at all."""
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
    producer = Producer({"bootstrap.servers": topics.cluster.url, "log_level": 2})
    for made in (kafka.to_binary_event(event), kafka.to_structured_event(event)):
        headers: list[tuple[str, str | bytes | None]] = [(name, value) for name, value in made.headers.items()]
        producer.produce(topics.paid, made.value, made.key, headers=headers)
    producer.produce(topics.paid, b"what?")
    producer.produce(topics.paid, None, b"order:1")
    assert producer.flush(10) == 0
    producer.close()
    consumer = topics.consumer()
    await consumer.open()
    found = await fetch(consumer, 4)
    await consumer.close()
    for incoming in found[:2]:
        got = read(incoming.attributes, incoming.body, incoming.content_type)
        assert (got.id, got.source, got.type, got.key, got.at) == ("7", "/books", "order.paid", "order:1", at)
        assert bytes(got.data).replace(b" ", b"") == b'{"n":1}'
    assert (found[2].attributes, found[2].body, found[2].content_type) == ({}, b"what?", None)
    assert found[3].body == b""
    assert found[3].fallback_id == f"{topics.paid}:0:3"


def test_offsets_are_committed_only_without_gaps() -> None:
    partition = _Partition()
    partition.out.extend([3, 4, 7, 8])  # offsets have gaps of their own: transactions, compaction
    partition.stored.update({4, 7})
    assert partition.advance() is None
    partition.stored.add(3)
    assert partition.advance() == 8
    assert partition.advance() is None
    partition.stored.add(8)
    assert partition.advance() == 9
