"""What only NATS does."""

import asyncio

import nats
import pytest
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DiscardPolicy
from nats.js.errors import APIError
from tests.support.brokers import fresh
from tests.support.brokers.nats import NatsServer, cluster_of_three
from tests.support.messages import Verdicts, message
from tests.transports.conftest import NatsBench
from tests.transports.test_brokers import fetch, send

from holdfast.transports import Away, Delivered, Unavailable
from holdfast.transports.cloudevents import STRUCTURED, read, structured
from holdfast.transports.consuming import Incoming
from holdfast.transports.nats import Nats, NatsConsumer


async def test_a_subject_without_a_stream(on_nats: NatsBench) -> None:
    one = message(1, type="nowhere")
    refused = (await send(on_nats.sender(), one)).refused(one)
    assert refused.reason == f"no stream has the subject {on_nats.name}.nowhere; add it to the subjects of a stream"


async def test_a_subject_of_another_stream(on_nats: NatsBench) -> None:
    one = message(1)
    refused = (await send(on_nats.sender(stream="another"), one)).refused(one)
    assert refused.reason == "expected stream does not match (JetStream 10060)"
    assert not refused.final
    assert (await send(on_nats.sender(stream=on_nats.name), one)).delivered([one])


async def test_a_server_without_jetstream_is_away() -> None:
    """As one of a cluster that is starting: no attempt is lost."""
    server = NatsServer(jetstream=False)
    server.start()
    try:
        with pytest.raises(Away, match=r"the stream of order\.paid is away"):
            await send(Nats(server.url), message(1))
        with pytest.raises(Away):
            await NatsConsumer(server.url, "SHOP", "books").open()
    finally:
        server.close()


async def test_a_cluster_without_a_leader_is_away() -> None:
    """It answers that it is unavailable now, and names no streams: that costs no attempt either."""
    servers = cluster_of_three()
    servers[0].start()
    said = ""
    try:
        async with asyncio.timeout(100):
            while "JetStream system temporarily unavailable (JetStream 10008)" not in said:  # first nobody answers
                with pytest.raises(Unavailable, match=r"the stream of order\.paid is away") as caught:
                    await send(Nats(servers[0].url), message(1))
                said = str(caught.value)
    finally:
        for server in servers:
            server.close()


async def test_of_two_streams_one_has_lost_its_server() -> None:
    """What is for the other one is stored, and no message is blamed."""
    servers = cluster_of_three()
    try:
        for server in servers:
            server.start()
        here, away, of_away = await two_streams_on_two_servers(servers)
        of_away.kill()
        transport = Nats(",".join(server.url for server in servers if server is not of_away), "{type}")
        said = ""
        async with asyncio.timeout(100):
            # Perhaps its server was also the leader of all: then nobody says more until there is another one.
            while f"the stream of {away}.paid is away: {away} does not answer" not in said:
                batch = [message(1, type=f"{away}.paid"), message(2, type=f"{here}.paid")]
                verdicts = Verdicts()
                await transport.open()
                with pytest.raises(Unavailable) as caught:
                    await transport.send(batch, verdicts)
                await transport.close()
                assert verdicts.of(batch[0]) is None
                said = str(caught.value)
            assert verdicts.delivered(batch) == [batch[1]]
    finally:
        for server in servers:
            server.close()


async def two_streams_on_two_servers(servers: list[NatsServer]) -> tuple[str, str, NatsServer]:
    """The names of two streams without replicas, and the server of the second one."""
    client = await nats.connect(servers[0].url)
    names: dict[str, str] = {}
    async with asyncio.timeout(100):
        while len(names) < 2:
            name = fresh()
            try:
                await client.jetstream().add_stream(name=name, subjects=[f"{name}.*"])
                info = await client.jetstream().stream_info(name)
            except (APIError, nats.errors.TimeoutError, nats.errors.NoRespondersError):  # no leader yet
                continue
            assert info.cluster is not None and info.cluster.leader is not None
            names.setdefault(info.cluster.leader, name)
    await client.close()
    (_, here), (server, away) = names.items()
    return here, away, next(each for each in servers if each.name_in_cluster == server)


async def test_a_stream_that_says_that_it_is_offline(on_nats: NatsBench) -> None:
    """Its neighbours are stored, and no message is blamed."""
    client = await on_nats.client()

    async def answer(msg: Msg) -> None:
        await msg.respond(b'{"error": {"code": 503, "err_code": 10118, "description": "stream is offline"}}')

    await client.subscribe(f"{on_nats.name}.elsewhere", cb=answer)
    await client.flush()
    batch, verdicts = [message(1, type="elsewhere"), message(2)], Verdicts()
    transport = on_nats.sender()
    await transport.open()
    with pytest.raises(Unavailable, match=r"stream is offline \(JetStream 10118\)"):
        await transport.send(batch, verdicts)
    await transport.close()
    await client.close()
    assert list(verdicts.found) == [batch[1].delivery]
    assert verdicts.delivered(batch) == [batch[1]]


async def test_many_subjects_without_a_stream_if_the_user_may_not_ask(on_nats: NatsBench) -> None:
    url = on_nats.server.url.replace("nats://", "nats://incurious:for%20tests@")
    batch = [message(number, type=f"nowhere.{number}") for number in range(8)]
    verdicts = await send(Nats(url, f"{on_nats.name}.{{type}}", timeout=10), *batch)
    assert all("no stream answered for the subject" in verdicts.refused(one).reason for one in batch)


@pytest.mark.parametrize("type", ["order paid", "order..paid", "order.*", "order.>", "a\r\nPING", "", "x" * 5000])
async def test_a_type_that_makes_no_subject(on_nats: NatsBench, type: str) -> None:
    batch = [message(1, type=type), message(2)]
    verdicts = await send(on_nats.sender(), *batch)
    refused = verdicts.refused(batch[0])
    assert refused.final
    assert "is not a subject that NATS can publish to" in refused.reason
    assert verdicts.delivered(batch) == [batch[1]]


async def test_a_full_stream_refuses_and_stays_usable(nats_server: object, on_nats: NatsBench) -> None:
    on_nats.name = fresh()
    await on_nats.prepare(
        max_msgs_per_subject=2, discard=DiscardPolicy.NEW, discard_new_per_subject=True, max_msg_size=1000
    )
    batch = [message(number, type="order.paid" if number != 3 else "order.sent") for number in range(4)]
    verdicts = await send(on_nats.sender(), *batch)
    assert "maximum messages per subject exceeded" in verdicts.refused(batch[2]).reason
    assert not verdicts.refused(batch[2]).final
    assert verdicts.delivered(batch) == [batch[0], batch[1], batch[3]]
    large = message(5, type="order.large", data=b'"' + b"x" * 1000 + b'"')
    assert (await send(on_nats.sender(), large)).refused(large).final


async def test_a_subject_that_the_user_may_not_publish_to(on_nats: NatsBench) -> None:
    url = on_nats.server.url.replace("nats://", "nats://narrow:for%20tests@")
    batch = [message(1, type="denied"), message(2)]
    async with asyncio.timeout(60):
        verdicts = await send(Nats(url, f"{on_nats.name}.{{type}}", timeout=600), batch[0])
    assert "may not publish" in verdicts.refused(batch[0]).reason
    transport = Nats(url, "{type}")
    assert "for%20tests" not in transport.shown and "narrow" not in transport.shown


async def test_a_wrong_password(on_nats: NatsBench) -> None:
    transport = Nats(on_nats.server.url.replace("nats://", "nats://narrow:secret@"))
    with pytest.raises(Away) as caught:
        await transport.open()
    assert "Authorization" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_the_servers_of_a_cluster_are_tried_in_turn(on_nats: NatsBench) -> None:
    url = f"nats://127.0.0.1:1,{on_nats.server.url}, nats://127.0.0.1:2"
    for _ in range(5):
        one = message()
        assert (await send(Nats(url, f"{on_nats.name}.{{type}}"), one)).delivered([one])


async def test_headers_are_those_of_the_binding(on_nats: NatsBench) -> None:
    client = await on_nats.client()
    subscription = await client.subscribe(f"{on_nats.name}.>")
    one = message(1, source="Euro € 😀", tenant=None)
    await send(on_nats.sender(), one)
    got = await subscription.next_msg(timeout=30)
    await client.close()
    assert got.headers is not None
    assert got.headers["ce-source"] == "Euro%20%E2%82%AC%20%F0%9F%98%80"
    assert got.headers["Nats-Msg-Id"] == str(one.delivery)
    assert got.headers["ce-datacontenttype"] == "application/json"
    assert "ce-tenant" not in got.headers


async def test_messages_of_others(on_nats: NatsBench) -> None:
    """Structured, with and without a content type; quoted values; none of it readable."""
    client = await on_nats.client()
    context = client.jetstream()
    one = message(1)
    subject = f"{on_nats.name}.order.paid"
    quoted = {"CE-SpecVersion": "1.0", "CE-Id": "7", "CE-Source": '"a \\"b\\""', "CE-Type": "x.y"}
    await context.publish(subject, structured(one))
    await context.publish(subject, structured(one), headers={"content-type": f"{STRUCTURED}; charset=utf-8"})
    await context.publish(subject, b"{}", headers={**quoted, "Status": "503"})
    await context.publish(subject, b"{}", headers={**quoted, "ce-x": "%C0%A0"})
    await client.close()
    consumer = on_nats.consumer(ack_wait=30)
    await consumer.open()
    found = await fetch(consumer, 4)
    await consumer.acknowledge(found)
    await consumer.close()
    events = [read(one.attributes, one.body, one.content_type) for one in found[:3]]
    assert [event.id for event in events] == [one.event_id, one.event_id, "7"]
    assert events[2].source == 'a "b"'
    assert found[3].attributes == {}
    assert found[3].fallback_id == f"{on_nats.name}:4"


async def test_a_consumer_of_some_subjects(on_nats: NatsBench) -> None:
    batch = [message(number, type=f"order.{word}") for number, word in enumerate(("paid", "sent", "paid", "lost"))]
    await send(on_nats.sender(), *batch)
    consumer = on_nats.consumer(subjects=[f"{on_nats.name}.order.paid"], ack_wait=30)
    await consumer.open()
    found = await fetch(consumer, 2)
    await consumer.acknowledge(found)
    await consumer.close()
    assert [incoming.body for incoming in found] == [batch[0].data, batch[2].data]
    # Another release wants others, too: those from now on.
    consumer = on_nats.consumer(subjects=[f"{on_nats.name}.order.paid", f"{on_nats.name}.order.lost"])
    await consumer.open()
    await send(on_nats.sender(), message(5, type="order.sent"), late := message(6, type="order.lost"))
    found = await fetch(consumer, 1)
    await consumer.acknowledge(found)
    await consumer.close()
    assert found[-1].body == late.data


async def test_a_consumer_of_a_stream_that_is_not_there(on_nats: NatsBench) -> None:
    consumer = NatsConsumer(on_nats.server.url, "nothing", "books")
    with pytest.raises(Away, match="stream not found"):
        await consumer.open()


async def test_a_consumer_that_is_deleted(on_nats: NatsBench) -> None:
    await send(on_nats.sender(), message(1))
    consumer = on_nats.consumer()
    await consumer.open()
    await consumer.acknowledge(await fetch(consumer, 1))
    client = await on_nats.client()
    await client.jsm().delete_consumer(on_nats.name, "books")
    await client.close()
    with pytest.raises(Away):
        async with asyncio.timeout(60):
            while True:
                await consumer.fetch()
    await consumer.close()
    await consumer.open()
    assert len(await fetch(consumer, 1)) == 1
    await consumer.close()


async def test_a_consumer_that_drops_is_warned_about(on_nats: NatsBench, caplog: pytest.LogCaptureFixture) -> None:
    client = await on_nats.client()
    await client.jsm().add_consumer(on_nats.name, ConsumerConfig(durable_name="books", max_deliver=3))
    await client.close()
    consumer = on_nats.consumer()
    await consumer.open()
    await consumer.close()
    assert "drops messages after 3 deliveries" in caplog.text


async def test_what_another_fetched_comes_before_what_is_newer(on_nats: NatsBench) -> None:
    """A process fetched and died. What it had comes again after `ack_wait`; the next process waits for it."""
    batch = [message(number) for number in range(150)]
    await send(on_nats.sender(), *batch)
    first = on_nats.consumer(ack_wait=1)
    await first.open()
    assert len(await fetch(first, 100)) == 100
    await first.close()
    second = on_nats.consumer()
    await second.open()
    found: list[Incoming] = []
    async with asyncio.timeout(60):
        while len(found) < 150:
            got = await second.fetch()
            await second.acknowledge(got)
            found += got
    await second.close()
    assert [incoming.body for incoming in found] == [one.data for one in batch]


async def test_an_answer_for_nobody_is_ignored(on_nats: NatsBench) -> None:
    transport, verdicts = on_nats.sender(), Verdicts()
    await transport.open()
    client = await on_nats.client()
    await client.publish(f"{transport._inbox}.99", b"{}")
    await client.flush()
    await client.close()
    one = message(1)
    await transport.send([one], verdicts)
    await transport.close()
    assert isinstance(verdicts.of(one), Delivered)


async def test_a_consumer_that_was_closed_in_order_leaves_nothing_to_wait_for(on_nats: NatsBench) -> None:
    """Messages that arrive after its last fetch are not on their way to it."""
    consumer = on_nats.consumer(ack_wait=60)
    await consumer.open()
    await send(on_nats.sender(), message(1))
    await consumer.acknowledge(await fetch(consumer, 1))
    await send(on_nats.sender(), two := message(2))
    await consumer.close()
    await consumer.open()
    assert [incoming.body for incoming in await fetch(consumer, 1, seconds=30)] == [two.data]
    await consumer.close()


async def test_an_interrupted_fetch_is_not_continued_by_the_next(
    on_nats: NatsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.transports.nats.consuming.FIRST", 60)
    consumer = on_nats.consumer()
    await consumer.open()
    fetching = asyncio.create_task(consumer.fetch())
    await asyncio.sleep(0.05)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    with pytest.raises(Away, match="interrupted"):
        await consumer.fetch()
    await consumer.close()


async def test_a_consumer_with_too_much_unacknowledged_waits(on_nats: NatsBench) -> None:
    client = await on_nats.client()
    await client.jsm().add_consumer(on_nats.name, ConsumerConfig(durable_name="books", max_ack_pending=3, ack_wait=60))
    await client.close()
    await send(on_nats.sender(), *(message(number) for number in range(5)))
    consumer = on_nats.consumer()
    await consumer.open()
    found = await fetch(consumer, 3)
    assert len(found) == 3
    assert await consumer.fetch() == []
    await consumer.acknowledge(found)
    assert len(await fetch(consumer, 2)) == 2
    await consumer.close()
