"""What every broker's transport and consumer promise, on real servers."""

import asyncio
import time

import pytest
from tests.support.messages import Verdicts, message
from tests.support.waiting import until
from tests.transports.conftest import Bench

from holdfast.transports import Away, Delivered, Message, Transport
from holdfast.transports.cloudevents import read
from holdfast.transports.consuming import Consumer, Incoming


async def send(transport: Transport, *messages: Message) -> Verdicts:
    """Send them on a new connection."""
    verdicts = Verdicts()
    await transport.open()
    try:
        await transport.send(messages, verdicts)
    finally:
        await transport.close()
    return verdicts


async def fetch(consumer: Consumer, count: int, seconds: float = 60) -> list[Incoming]:
    """Fetch until so many have come."""
    found: list[Incoming] = []
    async with asyncio.timeout(seconds):
        while len(found) < count:
            got = await consumer.fetch()
            assert len(got) <= 100
            found += got
    return found


def wait_for_the_first(bench: Bench, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a fetch wait this long for a first message."""
    monkeypatch.setattr(f"holdfast.transports.{'nats' if bench.drops_duplicates else 'redis'}.consuming.FIRST", seconds)


def wait_for_the_server(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a client wait this long for a connection, and for a short answer."""
    for module in ("nats.link", "nats.consuming", "redis.link"):
        monkeypatch.setattr(f"holdfast.transports.{module}.CONNECT", seconds)


async def test_a_delivered_message_is_in_the_stream(bench: Bench) -> None:
    one = message(1, headers={"trace": 'ä "x" 100%\n'}, tenant="acme", version=3)
    verdicts = await send(bench.sender(), one)
    verdict = verdicts.of(one)
    assert isinstance(verdict, Delivered)
    assert verdict.reference is not None and ":" in verdict.reference
    assert await bench.stored() == [one.data]

    consumer = bench.consumer()
    await consumer.open()
    [incoming] = await fetch(consumer, 1)
    await consumer.acknowledge([incoming])
    await consumer.close()
    event = read(incoming.attributes, incoming.body, incoming.content_type)
    assert (event.id, event.source, event.type, event.version) == (one.event_id, "shop", "order.paid", 3)
    assert (event.key, event.tenant, event.headers) == (one.key, "acme", one.headers)
    assert event.at == one.at
    assert bytes(event.data) == one.data
    assert incoming.fallback_id == verdict.reference


async def test_a_batch_keeps_its_order(bench: Bench) -> None:
    batch = [message(number) for number in range(500)]
    verdicts = await send(bench.sender(), *batch)
    assert len(verdicts.delivered(batch)) == 500
    assert await bench.stored() == [one.data for one in batch]


async def test_one_refusal_settles_only_that_one(bench: Bench) -> None:
    batch = [message(number) for number in range(20)]
    batch[7] = bench.refused(batch[7])
    verdicts = await send(bench.sender(), *batch)
    refused = verdicts.refused(batch[7])
    assert not refused.final
    assert "nowhere" in refused.reason
    assert len(verdicts.delivered(batch)) == 19
    assert len(await bench.stored()) == 19


async def test_a_message_that_is_too_large_is_refused_for_good(bench: Bench) -> None:
    batch = [message(1), message(2, data=b'"' + b"x" * bench.limit + b'"'), message(3)]
    verdicts = await send(bench.sender(), *batch)
    refused = verdicts.refused(batch[1])
    assert refused.final
    assert "exceed" in refused.reason
    assert verdicts.delivered(batch) == [batch[0], batch[2]]


async def test_a_name_that_needs_a_key_refuses_a_message_without_one(bench: Bench) -> None:
    option = "subject" if bench.drops_duplicates else "stream"
    transport = bench.sender(**{option: "{tenant}.x"})
    one = message(1)
    refused = (await send(transport, one)).refused(one)
    assert refused.final
    assert "needs a tenant" in refused.reason


async def test_what_is_sent_twice(bench: Bench) -> None:
    one = message(1)
    verdicts = await send(bench.sender(), one)
    again = await send(bench.sender(), one)
    first, second = verdicts.of(one), again.of(one)
    assert isinstance(first, Delivered) and isinstance(second, Delivered)
    if bench.drops_duplicates:
        assert second.reference == first.reference
        assert second.details == {"duplicate": 1}
    # A replay is another message of the same event.
    replay = message(1, id=f"{one.event_id}#1", event_id=one.event_id)
    assert (await send(bench.sender(), replay)).delivered([replay])
    assert len(await bench.stored()) == (2 if bench.drops_duplicates else 3)
    consumer = bench.consumer()
    await consumer.open()
    found = await fetch(consumer, len(await bench.stored()))
    await consumer.close()
    assert {incoming.attributes["id"] for incoming in found} == {one.event_id}


@pytest.mark.faults
async def test_a_server_killed_while_messages_are_sent(bench: Bench) -> None:
    # Far more than the test waits: only the loss of the connection ends a call in time.
    transport, verdicts = bench.sender(timeout=600), Verdicts()
    await transport.open()
    sent: list[Message] = []

    async def keep_sending() -> None:
        while True:
            batch = [message(len(sent) + number) for number in range(200)]
            sent.extend(batch)
            await transport.send(batch, verdicts)

    sending = asyncio.create_task(keep_sending())
    await until(lambda: len(verdicts.found) > 500)
    bench.server.kill()
    async with asyncio.timeout(60):
        with pytest.raises(Away):
            await sending
        await transport.close()
    delivered = verdicts.delivered(sent)
    assert len(verdicts.found) == len(delivered)
    with pytest.raises(Away):
        await transport.open()

    bench.server.start()
    await transport.open()
    rest = [one for one in sent if verdicts.of(one) is None]
    await transport.send(rest, verdicts)
    await transport.close()
    assert len(verdicts.delivered(sent)) == len(sent)
    stored = await bench.stored()
    assert set(stored) == {one.data for one in sent}
    assert len(stored) == len(sent) or not bench.drops_duplicates


@pytest.mark.faults
@pytest.mark.parametrize("size", [100, 200_000])
async def test_a_frozen_server_leaves_all_unsettled(bench: Bench, size: int) -> None:
    """Also if the messages do not fit into the buffers of the sockets."""
    transport, verdicts = bench.sender(timeout=0.5), Verdicts()
    await transport.open()
    batch = [message(number, data=b'"' + b"x" * size + b'"') for number in range(60)]
    bench.server.freeze()
    started = time.monotonic()
    async with asyncio.timeout(30):
        with pytest.raises(Away, match="did not answer"):
            await transport.send(batch, verdicts)
        assert time.monotonic() - started > 0.4
        await transport.close()
    assert not verdicts.found

    bench.server.thaw()
    verdicts = await send(bench.sender(timeout=60), *batch)
    assert len(verdicts.delivered(batch)) == 60
    assert {one.data for one in batch} == set(await bench.stored())


@pytest.mark.faults
async def test_closing_ends_a_send(bench: Bench) -> None:
    transport, verdicts = bench.sender(timeout=600), Verdicts()
    await transport.open()
    bench.server.freeze()
    sending = asyncio.create_task(transport.send([message(1)], verdicts))
    await asyncio.sleep(0.05)
    await transport.close()
    with pytest.raises(Away):
        async with asyncio.timeout(60):
            await sending
    assert not verdicts.found


@pytest.mark.faults
async def test_a_send_can_be_cancelled(bench: Bench) -> None:
    transport, verdicts = bench.sender(timeout=600), Verdicts()
    await transport.open()
    bench.server.freeze()
    sending = asyncio.create_task(transport.send([message(1, data=b'"' + b"x" * 200_000 + b'"')] * 60, verdicts))
    await asyncio.sleep(0.05)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await sending
    await transport.close()


@pytest.mark.faults
async def test_a_server_that_does_not_answer_cannot_be_opened(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_the_server(monkeypatch, 0.3)
    bench.server.freeze()
    with pytest.raises(Away):
        await bench.sender().open()
    with pytest.raises(Away):
        await bench.consumer().open()


async def test_calls_before_open_and_after_close(bench: Bench) -> None:
    transport, consumer = bench.sender(), bench.consumer()
    await transport.close()
    await consumer.close()
    with pytest.raises(Away):
        await transport.send([message()], Verdicts())
    with pytest.raises(Away):
        await consumer.fetch()


async def test_sends_at_the_same_time(bench: Bench) -> None:
    transport, verdicts = bench.sender(), Verdicts()
    await transport.open()
    batches = [[message(number * 100 + one) for one in range(100)] for number in range(transport.parallel * 4)]
    await asyncio.gather(*(transport.send(batch, verdicts) for batch in batches))
    await transport.close()
    assert all(len(verdicts.delivered(batch)) == 100 for batch in batches)
    assert len(await bench.stored()) == 100 * len(batches)


async def test_a_consumer_gets_what_it_has_not_acknowledged_again(bench: Bench) -> None:
    batch = [message(number) for number in range(10)]
    await send(bench.sender(), *batch)
    consumer = bench.consumer()
    await consumer.open()
    found = await fetch(consumer, 10)
    assert [incoming.body for incoming in found] == [one.data for one in batch]
    await consumer.acknowledge(found[:4])
    await consumer.close()
    await send(bench.sender(), late := message(10))

    consumer = bench.consumer()
    await consumer.open()
    found = await fetch(consumer, 7)
    assert [incoming.body for incoming in found] == [one.data for one in (*batch[4:], late)]
    await consumer.acknowledge(found)
    assert await consumer.fetch() == []
    await consumer.close()


async def test_a_consumer_without_a_restart_gets_it_again(bench: Bench) -> None:
    await send(bench.sender(), one := message(1))
    consumer = bench.consumer()
    await consumer.open()
    [first] = await fetch(consumer, 1)
    [second] = await fetch(consumer, 1)
    assert first.body == second.body == one.data
    assert first.fallback_id == second.fallback_id
    await consumer.acknowledge([second])
    await consumer.acknowledge([first])
    await consumer.close()


async def test_a_consumer_waits_a_moment_for_others_after_the_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport, consumer = bench.sender(), bench.consumer()
    await transport.open()
    await consumer.open()
    started = time.monotonic()
    assert await consumer.fetch() == []
    assert time.monotonic() - started > 0.5
    wait_for_the_first(bench, monkeypatch, 600)
    async with asyncio.timeout(60):
        fetching = asyncio.create_task(consumer.fetch())
        await asyncio.sleep(0.1)
        await transport.send([message(1)], Verdicts())
        assert len(await fetching) == 1
    await consumer.close()
    await transport.close()


async def test_many_messages_come_in_hundreds(bench: Bench) -> None:
    batch = [message(number) for number in range(350)]
    await send(bench.sender(), *batch)
    consumer = bench.consumer(**({"ack_wait": 30} if bench.drops_duplicates else {"claim_after": 60}))
    await consumer.open()
    found: list[Incoming] = []
    while len(found) < 350:
        got = await consumer.fetch()
        assert len(got) <= 100
        await consumer.acknowledge(got)
        found += got
    await consumer.close()
    assert [incoming.body for incoming in found] == [one.data for one in batch]


@pytest.mark.faults
async def test_a_consumer_whose_server_is_killed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await send(bench.sender(), one := message(1))
    consumer = bench.consumer()
    await consumer.open()
    [incoming] = await fetch(consumer, 1)
    wait_for_the_first(bench, monkeypatch, 600)  # the fetch lasts until the server is gone
    fetching = asyncio.create_task(consumer.fetch())
    await asyncio.sleep(0.05)
    bench.server.kill()
    with pytest.raises(Away):
        async with asyncio.timeout(60):
            await fetching
            while True:  # what was not acknowledged may have come again first
                await consumer.fetch()
    with pytest.raises(Away):
        await consumer.acknowledge([incoming])
    await consumer.close()
    with pytest.raises(Away):
        await consumer.open()
    bench.server.start()
    await consumer.open()
    [again] = await fetch(consumer, 1)
    assert again.body == one.data
    await consumer.acknowledge([again])
    await consumer.close()


@pytest.mark.faults
async def test_a_consumer_whose_server_is_frozen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_the_server(monkeypatch, 0.5)
    consumer = bench.consumer()
    await consumer.open()
    bench.server.freeze()
    with pytest.raises(Away, match="did not answer"):
        async with asyncio.timeout(60):
            while True:
                await consumer.fetch()
    await consumer.close()


async def test_a_fetch_can_be_cancelled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_the_first(bench, monkeypatch, 60)
    consumer = bench.consumer()
    await consumer.open()
    fetching = asyncio.create_task(consumer.fetch())
    await asyncio.sleep(0.05)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    await consumer.close()
