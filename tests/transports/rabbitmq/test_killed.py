"""A RabbitMQ that is killed and started again, in the middle of sending and receiving."""

import asyncio

import pytest
from tests.support.brokers.rabbitmq import RabbitServer
from tests.support.messages import Verdicts, message
from tests.support.waiting import until
from tests.transports.rabbitmq.conftest import Shop
from tests.transports.rabbitmq.test_receiving import fetch

from holdfast.transports import Away, Delivered, Message, Unavailable


@pytest.mark.faults
@pytest.mark.timeout(300)  # it is started twice, and a busy machine takes a minute for that
async def test_a_server_killed_while_messages_are_sent(rabbitmq_server: RabbitServer) -> None:
    """What was confirmed is there afterwards, and what was not is sent again."""
    # A classic queue: one node's quorum queue that is killed just after it was declared may come back without a leader
    # and then confirms nothing (RabbitMQ 3.10).
    shop = Shop(rabbitmq_server)
    await shop.prepare()
    await shop.close()
    # Far more than the test waits: only the loss of the connection ends a call in time.
    transport, consumer, verdicts = shop.sender(timeout=600), shop.consumer(timeout=600), Verdicts()
    await transport.open()
    await consumer.open()
    sent: list[Message] = []

    async def keep_sending() -> None:
        while True:
            batch = [message(len(sent) + number) for number in range(200)]
            sent.extend(batch)
            await transport.send(batch, verdicts)

    sending = asyncio.create_task(keep_sending())
    held = await fetch(consumer, 1)
    await until(lambda: len(verdicts.found) > 500)
    rabbitmq_server.kill()
    async with asyncio.timeout(60):
        with pytest.raises(Away):
            await sending
        await transport.close()
        confirmed = verdicts.delivered(sent)
        assert len(verdicts.found) == len(confirmed)
        with pytest.raises(Away):
            while True:  # what was here already may come first
                await consumer.fetch()
        with pytest.raises(Away):
            await consumer.acknowledge(held)
        await consumer.close()
        for one in (transport, consumer):
            with pytest.raises(Away):
                await one.open()

    rabbitmq_server.start()
    await shop.prepare()  # as a program declares its queues whenever it starts
    await shop.close()
    await transport.open()
    async with asyncio.timeout(60):
        # A queue that is still recovering may reject messages at first. That is no refusal, so it costs no attempt.
        while rest := [one for one in sent if one.delivery not in verdicts.found]:
            try:
                await transport.send(rest, verdicts)
            except Unavailable:
                await transport.close()
                await asyncio.sleep(0.5)
                await transport.open()
    assert all(isinstance(verdict, Delivered) for verdict in verdicts.found.values())
    await transport.close()

    await consumer.open()
    await consumer.acknowledge(held)  # of a connection that is gone: it acknowledges nothing
    found: set[bytes] = set()
    async with asyncio.timeout(60):
        while found != {one.data for one in sent}:
            received = await consumer.fetch()
            await consumer.acknowledge(received)
            found |= {one.body for one in received}
    await consumer.close()


@pytest.mark.parametrize("steps", range(12))
async def test_a_connection_lost_just_before_messages_are_sent(shop: Shop, steps: int) -> None:
    """The loss ends the call at once, at whichever step of it the call begins.

    In between, the writer of the connection has ended and the channel is still open: ten messages fill its queue, and
    nothing wakes those that wait for room there.
    """
    transport, verdicts = shop.sender(timeout=600), Verdicts()
    await transport.open()
    assert transport._link is not None
    transport._link._dropping.drop()
    for _ in range(steps):
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        with pytest.raises(Away):
            await transport.send([message(number) for number in range(200)], verdicts)
        await transport.close()
    assert not verdicts.found


@pytest.mark.faults
@pytest.mark.parametrize("size", [100, 200_000])
@pytest.mark.parametrize("written", [0, 1, 15, 200])
async def test_a_connection_lost_while_messages_are_sent(shop: Shop, written: int, size: int) -> None:
    """The loss ends the call at once, whether messages wait for room in the queue, for the socket or for answers."""
    transport, verdicts = shop.sender(timeout=600), Verdicts()
    await transport.open()
    link = transport._link
    assert link is not None
    shop.server.freeze()  # so that none is confirmed
    batch = [message(number, data=b'"' + b"x" * size + b'"') for number in range(200)]
    async with asyncio.timeout(60):
        sending = asyncio.create_task(transport.send(batch, verdicts))
        while len(link.channel.confirmations) < written:
            await asyncio.sleep(0)
        link._dropping.drop()
        with pytest.raises(Away):
            await sending
        await transport.close()
    assert not verdicts.found
