"""From publish to a handler, over Kafka: the relay and the consumer are run by a worker."""

from typing import Any

from confluent_kafka import Consumer, TopicPartition
from tests.support.waiting import until
from tests.support.workers import Inbox
from tests.transports.kafka.conftest import Topics

from holdfast import Event, Holdfast


def committed(topics: Topics) -> int:
    """The offset that the group of this test has committed."""
    reader = Consumer({"bootstrap.servers": topics.cluster.url, "group.id": f"{topics.name}-books", "log_level": 2})
    (found,) = reader.committed([TopicPartition(topics.paid, 0)], timeout=10)
    reader.close()
    return int(found.offset)


async def test_each_event_is_handled_once_and_its_offset_committed_after_it_was_stored(
    inbox: Inbox, topics: Topics
) -> None:
    hf = Holdfast(inbox.url, source="shop")
    hf.relay("order.*", to=topics.sender(), name="bus", ordered=True)
    hf.consume(topics.consumer(), source="shop")
    seen: list[Any] = []

    @hf.on_event("order.paid", source="shop")
    async def paid(event: Event[dict[str, int]]) -> None:
        seen.append(event.data["n"])

    numbers = list(range(20))
    async with hf.worker(lease=5, housekeeping=0.5, poll=0.05):
        for n in numbers:
            await hf.publish("order.paid", {"n": n}, key="k")
        await until(lambda: len(seen) == 20)
        assert await hf.replay("bus", event=inbox.one("select id from holdfast.events order by seq limit 1")) == 1
        await until(lambda: committed(topics) == 21)
    await hf.close()
    assert sorted(seen) == numbers
    assert inbox.one("select count(*) from holdfast.archive where kind = 'shop/order.paid'") == 20
