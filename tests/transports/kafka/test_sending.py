"""The transport to Kafka, on librdkafka's mock cluster."""

import asyncio
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings import kafka
from confluent_kafka import KafkaError
from tests.support.brokers.kafka import PRODUCE
from tests.support.messages import Verdicts, message
from tests.support.waiting import until
from tests.transports.kafka.conftest import Topics

from holdfast import ConfigurationError
from holdfast.transports import Away, Delivered, Message, Transport
from holdfast.transports.kafka import Kafka, KafkaConsumer


async def send(transport: Transport, *messages: Message) -> Verdicts:
    """Send them over a new connection."""
    verdicts = Verdicts()
    await transport.open()
    try:
        await transport.send(messages, verdicts)
    finally:
        await transport.close()
    return verdicts


def large(number: int, size: int) -> Message:
    return message(number, data=b'"' + b"x" * (size - 2) + b'"')


async def test_a_record_is_a_cloud_event_of_its_key(topics: Topics) -> None:
    published = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    one = message(1, headers={"trace": 'ä "x" 100%\n'}, tenant="acme", version=3, at=published)
    before = time.time()
    verdicts = await send(topics.sender(), one)
    assert verdicts.of(one) == Delivered(reference=f"{topics.paid}:0:0")
    [record] = topics.stored()
    assert (record.value(), record.key()) == (one.data, b"order:1")
    # The record's time is the time of sending: retention counts from it.
    assert before - 1 < record.timestamp()[1] / 1000 < time.time() + 1

    # As the implementation of the CloudEvents project reads it.
    headers: dict[str, bytes] = dict(record.headers() or ())  # type: ignore[arg-type]
    read = kafka.from_kafka_event(kafka.KafkaMessage(headers, record.key(), record.value() or b""))
    assert (read.get_id(), read.get_source(), read.get_type()) == (one.event_id, "shop", "order.paid")
    assert read.get_time() == published
    assert read.get_data() == {"number": 1}
    assert (read.get_extension("partitionkey"), read.get_extension("tenant")) == ("order:1", "acme")
    assert (read.get_extension("schemaversion"), read.get_extension("trace")) == ("3", 'ä "x" 100%\n')


async def test_a_batch_keeps_its_order(topics: Topics) -> None:
    batch = [message(number) for number in range(500)]
    verdicts = await send(topics.sender(), *batch)
    assert len(verdicts.delivered(batch)) == 500
    assert topics.bodies() == [one.data for one in batch]


async def test_events_of_a_key_are_in_one_partition_in_their_order(topics: Topics) -> None:
    topic = f"{topics.name}.many"
    topics.cluster.create(topic, 4)
    batch = [message(number, type="many", key=f"order:{number % 7}") for number in range(140)]
    assert len((await send(topics.sender(), *batch)).delivered(batch)) == 140
    places, order = defaultdict(set), defaultdict(list)
    for record in topics.stored(topic, 4):
        places[record.key()].add(record.partition())
        order[record.key()].append(record.value())
    assert all(len(partitions) == 1 for partitions in places.values())
    assert len(set.union(*places.values())) > 1
    for key, values in order.items():
        assert values == [one.data for one in batch if one.key is not None and one.key.encode() == key]


async def test_sends_at_the_same_time(topics: Topics) -> None:
    transport, verdicts = topics.sender(), Verdicts()
    await transport.open()
    batches = [[message(number * 100 + one) for one in range(100)] for number in range(transport.parallel * 3)]
    await asyncio.gather(*(transport.send(batch, verdicts) for batch in batches))
    await transport.close()
    assert all(len(verdicts.delivered(batch)) == 100 for batch in batches)
    assert len(topics.bodies()) == 100 * len(batches)


async def test_an_unknown_topic_is_refused_alone(topics: Topics) -> None:
    topics.cluster.set_error(f"{topics.name}.nowhere", KafkaError.UNKNOWN_TOPIC_OR_PART)
    batch = [message(number) for number in range(20)]
    batch[7] = message(7, type="nowhere")
    verdicts = await send(topics.sender(timeout=4), *batch)
    refused = verdicts.refused(batch[7])
    assert not refused.final
    assert "no such topic" in refused.reason
    assert len(verdicts.delivered(batch)) == 19


async def test_a_message_that_is_too_large_is_refused_for_good(topics: Topics) -> None:
    batch = [message(1), large(2, 2_000_000), message(3)]
    verdicts = await send(topics.sender(), *batch)
    assert verdicts.refused(batch[1]).final
    assert "2000000 bytes" in verdicts.refused(batch[1]).reason
    assert verdicts.delivered(batch) == [batch[0], batch[2]]


async def test_a_broker_that_finds_a_request_too_large(topics: Topics) -> None:
    """Only of a message that was alone in it is that the fault."""
    transport, verdicts = topics.sender(config={"linger.ms": 200}), Verdicts()  # both in one request
    await transport.open()
    batch = [message(1), message(2)]
    topics.cluster.fail(PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE)
    await transport.send(batch, verdicts)
    refused = verdicts.refused(batch[0])
    assert not refused.final
    assert "batch.size" in refused.reason
    topics.cluster.fail(PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE)
    await transport.send(alone := [message(3)], verdicts)
    assert verdicts.refused(alone[0]).final
    await transport.close()


async def test_a_topic_that_we_may_not_write_to(topics: Topics) -> None:
    transport, verdicts = topics.sender(), Verdicts()
    await transport.open()
    topics.cluster.fail(PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    await transport.send(batch := [message(1)], verdicts)
    assert not verdicts.refused(batch[0]).final
    assert "authorization" in verdicts.refused(batch[0]).reason.lower()
    await transport.close()


async def test_an_error_that_passes_is_retried_by_the_client(topics: Topics) -> None:
    transport, verdicts = topics.sender(config={"linger.ms": 200}), Verdicts()  # all in one request
    await transport.open()
    topics.cluster.fail(PRODUCE, KafkaError.NOT_LEADER_FOR_PARTITION, 2)
    batch = [message(number) for number in range(50)]
    await transport.send(batch, verdicts)
    await transport.close()
    assert len(verdicts.delivered(batch)) == 50
    assert topics.bodies() == [one.data for one in batch]


async def test_what_has_no_offset_is_not_taken_for_delivered(topics: Topics) -> None:
    """Requests fail while others are under way. librdkafka may report success for them, and they are stored nowhere."""
    lost = False
    for turn in range(20):
        if lost := await _sends_while_requests_fail(topics, f"{topics.name}.turn{turn}"):
            break
    assert lost


async def _sends_while_requests_fail(topics: Topics, topic: str) -> bool:
    """Was one of the sends left unsettled? Whatever counts as delivered is stored."""
    topics.cluster.create(topic, 2)
    transport, verdicts = Kafka(topics.cluster.url, topic, parallel=4), Verdicts()
    await transport.open()
    await transport.send([message(key="order:1")], verdicts)  # the client knows the topic now; to another partition
    topics.cluster.slow(50)
    topics.cluster.fail(PRODUCE, KafkaError.NOT_LEADER_FOR_PARTITION, 2)
    batch = [message(number, key="order:0") for number in range(4)]
    sends = []
    for one in batch:
        sends.append(asyncio.create_task(transport.send([one], verdicts)))
        await asyncio.sleep(0.01)
    results = await asyncio.gather(*sends, return_exceptions=True)
    topics.cluster.slow(0)
    lost = [one for one, result in zip(batch, results, strict=True) if isinstance(result, Away)]
    assert all("without an offset" in str(result) for result in results if result is not None)
    delivered = [one for one in batch if one not in lost]
    assert verdicts.delivered(batch) == delivered
    stored = {record.value() for record in topics.stored(topic, 2)}
    assert {one.data for one in delivered} <= stored
    await transport.send(lost, verdicts)
    await transport.close()
    assert {one.data for one in batch} <= {record.value() for record in topics.stored(topic, 2)}
    return bool(lost)


async def test_a_fatal_error_needs_a_new_producer(topics: Topics) -> None:
    transport, verdicts = topics.sender(), Verdicts()
    await transport.open()
    await transport.send([message(1)], verdicts)
    topics.cluster.fail(PRODUCE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    batch = [message(number) for number in range(5)]
    with pytest.raises(Away):
        await transport.send(batch, verdicts)
    assert not any(verdicts.of(one) for one in batch)
    with pytest.raises(Away):
        await transport.send(batch, verdicts)
    await transport.close()
    await transport.open()
    await transport.send(batch, verdicts)
    await transport.close()
    assert len(verdicts.delivered(batch)) == 5


async def test_what_the_topic_needs(topics: Topics) -> None:
    transport = Kafka(topics.cluster.url, f"{topics.name}.{{tenant}}")
    verdicts = await send(transport, one := message(1), two := message(2, tenant="order.paid", key=None))
    assert verdicts.refused(one).final and "needs a tenant" in verdicts.refused(one).reason
    assert verdicts.delivered([two])
    assert topics.stored()[0].key() is None


@pytest.mark.faults
async def test_brokers_that_go_away_leave_the_rest_unsettled(topics: Topics) -> None:
    """They come back at the same ports, with their topics."""
    transport, verdicts = topics.sender(timeout=3), Verdicts()
    await transport.open()
    sent: list[Message] = []

    async def keep_sending() -> None:
        while True:
            batch = [message(len(sent) + number) for number in range(100)]
            sent.extend(batch)
            await transport.send(batch, verdicts)
            await asyncio.sleep(0.01)

    sending = asyncio.create_task(keep_sending())
    await until(lambda: len(verdicts.found) > 500)
    topics.cluster.down()
    async with asyncio.timeout(60):
        with pytest.raises(Away):
            await sending
        await transport.close()
    assert len(verdicts.found) == len(verdicts.delivered(sent))
    with pytest.raises(Away):
        await transport.open()
    await transport.close()

    topics.cluster.up()
    await transport.open()
    rest = [one for one in sent if verdicts.of(one) is None]
    assert rest
    await transport.send(rest, verdicts)
    await transport.close()
    assert len(verdicts.delivered(sent)) == len(sent)
    assert set(topics.bodies()) == {one.data for one in sent}


@pytest.mark.faults
async def test_a_killed_cluster_leaves_the_rest_unsettled(topics: Topics) -> None:
    transport, verdicts = topics.sender(timeout=2), Verdicts()
    await transport.open()
    topics.cluster.kill()
    async with asyncio.timeout(60):
        with pytest.raises(Away, match=r"did not answer|timed out"):
            await transport.send([message(number) for number in range(500)], verdicts)
    assert not verdicts.found
    await transport.close()


@pytest.mark.faults
async def test_a_frozen_cluster_leaves_all_unsettled(topics: Topics) -> None:
    transport, verdicts = topics.sender(timeout=2), Verdicts()
    await transport.open()
    batch = [large(number, 200_000) for number in range(60)]
    topics.cluster.freeze()
    started = time.monotonic()
    async with asyncio.timeout(60):
        with pytest.raises(Away):
            await transport.send(batch, verdicts)
        assert time.monotonic() - started > 1.9
        await transport.close()
    assert not verdicts.found
    topics.cluster.thaw()
    transport.timeout = 60
    await transport.open()
    await transport.send(batch, verdicts)
    await transport.close()
    assert len(verdicts.delivered(batch)) == 60


@pytest.mark.faults
async def test_closing_ends_a_send_and_a_send_can_be_cancelled(topics: Topics) -> None:
    transport, verdicts = topics.sender(timeout=600), Verdicts()
    await transport.open()
    topics.cluster.freeze()
    sending = asyncio.create_task(transport.send([message(1)], verdicts))
    other = asyncio.create_task(transport.send([message(2)], verdicts))
    await asyncio.sleep(0.05)
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    await transport.close()
    with pytest.raises(Away):
        async with asyncio.timeout(60):
            await sending
    assert not verdicts.found


async def test_no_server_at_this_port() -> None:
    for one in (Kafka("127.0.0.1:9", timeout=2), KafkaConsumer("127.0.0.1:9", "x", "y", timeout=2)):
        with pytest.raises(Away, match=r"127\.0\.0\.1:9"):
            await one.open()
        await one.close()


def test_no_password_is_shown() -> None:
    config = {"security.protocol": "SASL_SSL", "sasl.username": "shop", "sasl.password": "s3cret"}
    for one in (Kafka(["a:9092", "b:9092"], config=config), KafkaConsumer("a:9092", "x", "y", config=config)):
        assert "s3cret" not in f"{one.shown} {one!r}"
        assert "a:9092" in one.shown
    with pytest.raises(ConfigurationError) as caught:
        Kafka("kafka://shop:s3cret@host:9092")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("name", ["acks", "enable.idempotence", "bootstrap.servers", "transactional.id"])
def test_settings_that_are_ours(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Kafka("a:9092", config={name: "0"})


async def test_a_setting_that_librdkafka_does_not_know() -> None:
    config: dict[str, Any] = {"sasl.pasword": "s3cret"}
    for one in (Kafka("a:9092", config=config), KafkaConsumer("a:9092", "x", "y", config=config)):
        with pytest.raises(ConfigurationError, match=r"sasl\.pasword") as caught:
            await one.open()
        assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="at least 2 seconds"):
        Kafka("a:9092", timeout=1)


async def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for one in (Kafka("a:9092"), KafkaConsumer("a:9092", "x", "y")):
        with pytest.raises(ConfigurationError, match=r"pip install 'holdfast\[kafka\]'"):
            await one.open()


async def test_calls_before_open_and_after_close(topics: Topics) -> None:
    transport, consumer = topics.sender(), topics.consumer()
    await transport.close()
    await consumer.close()
    with pytest.raises(Away):
        await transport.send([message()], Verdicts())
    with pytest.raises(Away):
        await consumer.fetch()
    assert isinstance(transport, Transport)
