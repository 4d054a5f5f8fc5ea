"""The transport to a real RabbitMQ."""

import asyncio
import sys
import time
from typing import Any

import pytest
from cloudevents.core.bindings import amqp
from tests.support.brokers import fresh
from tests.support.brokers.rabbitmq import LARGEST, RabbitServer
from tests.support.messages import Verdicts, message
from tests.transports.rabbitmq.conftest import Shop

from holdfast import ConfigurationError
from holdfast.transports import Away, Delivered, Message, Transport, Unavailable
from holdfast.transports.rabbitmq import RabbitMQ, RabbitMQConsumer, sending


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


async def test_a_message_is_persistent_and_a_cloud_event(shop: Shop) -> None:
    one = message(1, headers={"trace": 'ä "x" 100%\n'}, tenant="acme", version=3)
    verdicts = await send(shop.sender(), one)
    assert verdicts.of(one) == Delivered()
    [stored] = await shop.stored()
    assert stored.body == one.data
    assert (stored.delivery_mode, stored.message_id, stored.routing_key) == (2, one.event_id, "order.paid")
    assert stored.content_type == "application/json"

    # As the implementation of the CloudEvents project reads it.
    headers: dict[str, Any] = dict(stored.headers)
    read = amqp.from_amqp_event(amqp.AMQPMessage({"content-type": stored.content_type}, headers, stored.body))
    assert (read.get_id(), read.get_source(), read.get_type()) == (one.event_id, "shop", "order.paid")
    assert read.get_time() == one.at
    assert read.get_data() == {"number": 1}
    extensions = {name: read.get_extension(name) for name in ("partitionkey", "tenant", "schemaversion", "trace")}
    assert extensions == {"partitionkey": one.key, "tenant": "acme", "schemaversion": "3", "trace": 'ä "x" 100%\n'}


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_a_batch_keeps_its_order(rabbitmq_server: RabbitServer, kind: str) -> None:
    shop = Shop(rabbitmq_server)
    await shop.prepare(**{"x-queue-type": kind})
    batch = [message(number) for number in range(500)]
    verdicts = await send(shop.sender(), *batch)
    assert len(verdicts.delivered(batch)) == 500
    assert await shop.bodies() == [one.data for one in batch]
    await shop.close()


async def test_sends_at_the_same_time(shop: Shop) -> None:
    transport, verdicts = shop.sender(), Verdicts()
    await transport.open()
    batches = [[message(number * 100 + one) for one in range(100)] for number in range(transport.parallel * 3)]
    await asyncio.gather(*(transport.send(batch, verdicts) for batch in batches))
    await transport.close()
    assert all(len(verdicts.delivered(batch)) == 100 for batch in batches)
    assert len(await shop.bodies()) == 100 * len(batches)


async def test_an_unroutable_message_is_refused_alone(shop: Shop) -> None:
    batch = [message(number) for number in range(20)]
    batch[7] = message(7, type="nowhere")
    verdicts = await send(shop.sender(), *batch)
    refused = verdicts.refused(batch[7])
    assert not refused.final
    assert "unroutable" in refused.reason and "'nowhere'" in refused.reason
    assert len(verdicts.delivered(batch)) == 19
    assert len(await shop.bodies()) == 19


async def test_an_event_and_its_replay_in_one_batch(shop: Shop) -> None:
    """What comes back is recognised by its message id."""
    one = message(1, type="nowhere")
    replay = message(1, id=f"{one.event_id}#1", event_id=one.event_id)
    verdicts = await send(shop.sender(), one, replay)
    assert "unroutable" in verdicts.refused(one).reason
    assert verdicts.delivered([replay]) == [replay]
    [stored] = await shop.stored()
    assert stored.headers["cloudEvents_id"] == one.event_id
    assert stored.message_id == replay.id


async def test_a_full_queue_refuses(rabbitmq_server: RabbitServer) -> None:
    shop = Shop(rabbitmq_server)
    await shop.prepare(**{"x-max-length": 1, "x-overflow": "reject-publish"})
    verdicts = await send(shop.sender(), first := message(1))
    assert verdicts.delivered([first])
    verdicts = await send(shop.sender(), second := message(2))
    refused = verdicts.refused(second)
    assert not refused.final
    assert "nack" in refused.reason
    await shop.close()


async def test_after_an_outage_a_rejection_is_no_refusal_for_a_while(
    rabbitmq_server: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue that recovers rejects what comes, and a full one does, too: nobody can tell."""
    monkeypatch.setattr(sending, "RECOVERS", 3.0)
    shop = Shop(rabbitmq_server)
    await shop.prepare(**{"x-max-length": 1, "x-overflow": "reject-publish"})
    transport, verdicts = shop.sender(), Verdicts()
    await transport.open()
    await transport.send([message(1)], verdicts)
    assert transport._link is not None
    transport._link._dropping.drop()
    with pytest.raises(Away):
        await transport.send([message(2)], verdicts)
    await transport.close()
    assert len(verdicts.found) == 1
    tries = 0
    while len(verdicts.found) == 1:
        await transport.open()
        try:
            await transport.send([third := message(3)], verdicts)
        except Unavailable as error:
            assert "recovering" in str(error)
            tries += 1
            await asyncio.sleep(0.2)
        await transport.close()
    assert tries >= 2 and "nack" in verdicts.refused(third).reason
    await shop.close()


async def test_what_can_never_be_sent_is_refused_for_good(shop: Shop) -> None:
    batch = [
        message(1),
        large(2, 2_000),
        message(3, type="order." + "x" * 250),
        message(4, id="x" * 256),
        message(5, headers={"a": "x" * 70_000}),
        message(6),
    ]
    verdicts = await send(shop.sender(max_bytes=1_000), *batch)
    reasons = [verdicts.refused(one).reason for one in batch[1:5]]
    assert all(verdicts.refused(one).final for one in batch[1:5])
    for reason, words in zip(reasons, ("2000 bytes", "routing key", "id has 256", "headers"), strict=True):
        assert words in reason
    assert verdicts.delivered(batch) == [batch[0], batch[5]]


async def test_what_the_routing_key_needs(shop: Shop) -> None:
    verdicts = await send(shop.sender(routing_key="order.{tenant}"), one := message(1), two := message(2, tenant="a"))
    assert "needs a tenant" in verdicts.refused(one).reason
    assert verdicts.delivered([two])


async def test_larger_than_the_server_takes(shop: Shop) -> None:
    """The server closes the channel: the culprit is refused for good, the others are sent again."""
    transport, verdicts = shop.sender(), Verdicts()
    batch = [message(1), large(2, LARGEST + 1), message(3)]
    await transport.open()
    with pytest.raises(Away, match="larger than configured max size"):
        await transport.send(batch, verdicts)
    await transport.close()
    assert verdicts.refused(batch[1]).final
    assert "max_message_size" in verdicts.refused(batch[1]).reason
    rest = [one for one in batch if verdicts.of(one) is None]
    await transport.open()
    await transport.send(rest, verdicts)
    await transport.close()
    assert len(verdicts.delivered(batch)) == 2


async def test_an_exchange_that_is_missing(shop: Shop) -> None:
    with pytest.raises(Away, match="declare the exchange first"):
        await RabbitMQ(shop.server.url, fresh()).open()
    transport, verdicts = shop.sender(), Verdicts()
    await transport.open()
    await (await shop.channel()).exchange_delete(shop.name)
    with pytest.raises(Away, match="declare the exchange first"):
        await transport.send([message(1), message(2)], verdicts)
    assert not verdicts.found
    await transport.close()


async def test_the_default_exchange(shop: Shop) -> None:
    verdicts = await send(RabbitMQ(shop.server.url, "", shop.name), one := message(1))
    assert verdicts.delivered([one])
    assert await shop.bodies() == [one.data]


async def test_a_login_that_is_rejected_shows_no_password(rabbitmq_server: RabbitServer) -> None:
    url = rabbitmq_server.url.replace("guest:guest", "shop:s3cret%2F")
    transport, consumer = RabbitMQ(url, "x"), RabbitMQConsumer(url, "x")
    for one in (transport, consumer):
        with pytest.raises(Away, match="refused") as caught:
            await one.open()
        assert "s3cret" not in f"{caught.value} {one.shown}"
        assert f"127.0.0.1:{rabbitmq_server.port}" in one.shown
        await one.close()


async def test_no_server_at_this_port() -> None:
    for one in (RabbitMQ("amqp://guest:s3cret@127.0.0.1:9/", "x"), RabbitMQConsumer("amqp://127.0.0.1:9/", "x")):
        with pytest.raises(Away) as caught:
            await one.open()
        assert "127.0.0.1:9" in str(caught.value) and "s3cret" not in str(caught.value)


async def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aio_pika", None)
    for one in (RabbitMQ("amqp://127.0.0.1/", "x"), RabbitMQConsumer("amqp://127.0.0.1/", "x")):
        with pytest.raises(ConfigurationError, match=r"pip install 'holdfast\[rabbitmq\]'"):
            await one.open()


def test_a_url_of_another_kind() -> None:
    with pytest.raises(ConfigurationError, match="amqp://host:port") as caught:
        RabbitMQ("redis://shop:s3cret@host/", "x")
    assert "s3cret" not in str(caught.value)


async def test_calls_before_open_and_after_close(shop: Shop) -> None:
    transport, consumer = shop.sender(), shop.consumer()
    await transport.close()
    await consumer.close()
    with pytest.raises(Away):
        await transport.send([message()], Verdicts())
    with pytest.raises(Away):
        await consumer.fetch()
    assert isinstance(transport, Transport)


@pytest.mark.faults
async def test_a_server_with_an_alarm_blocks_us_until_the_deadline(shop: Shop) -> None:
    transport, verdicts = shop.sender(timeout=60), Verdicts()
    await transport.open()
    transport.timeout = 3
    shop.server.set_alarm(True)
    try:
        started = time.monotonic()
        async with asyncio.timeout(30):
            with pytest.raises(Unavailable, match="blocked this connection"):
                await transport.send([message(number) for number in range(50)], verdicts)
            assert time.monotonic() - started > 2.9
            await transport.close()
        assert not verdicts.found
    finally:
        shop.server.set_alarm(False)
    verdicts = await send(shop.sender(), one := message(1))
    assert verdicts.delivered([one])


@pytest.mark.faults
@pytest.mark.parametrize("size", [100, 200_000])
async def test_a_frozen_server_leaves_all_unsettled(shop: Shop, size: int) -> None:
    """Also if the messages do not fit into the buffers of the sockets."""
    transport, verdicts = shop.sender(timeout=60), Verdicts()
    await transport.open()
    transport.timeout = 1
    batch = [large(number, size) for number in range(60)]
    shop.server.freeze()
    started = time.monotonic()
    async with asyncio.timeout(30):
        with pytest.raises(Away, match="did not answer"):
            await transport.send(batch, verdicts)
        assert time.monotonic() - started > 0.9
        await transport.close()
    assert not verdicts.found
    with pytest.raises(Away, match="did not answer"):
        await transport.open()

    shop.server.thaw()
    transport.timeout = 60
    await transport.open()
    await transport.send(batch, verdicts)
    await transport.close()
    assert len(verdicts.delivered(batch)) == 60


@pytest.mark.faults
async def test_closing_ends_a_send(shop: Shop) -> None:
    transport, verdicts = shop.sender(timeout=600), Verdicts()
    await transport.open()
    shop.server.freeze()
    sending = asyncio.create_task(transport.send([message(1)], verdicts))
    await asyncio.sleep(0.05)
    await transport.close()
    with pytest.raises(Away):
        async with asyncio.timeout(60):
            await sending
    assert not verdicts.found


@pytest.mark.faults
async def test_a_send_can_be_cancelled(shop: Shop) -> None:
    transport, verdicts = shop.sender(timeout=600), Verdicts()
    await transport.open()
    shop.server.freeze()
    sending = asyncio.create_task(transport.send([large(number, 200_000) for number in range(60)], verdicts))
    await asyncio.sleep(0.05)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await sending
    async with asyncio.timeout(60):
        await transport.close()
    assert not verdicts.found
