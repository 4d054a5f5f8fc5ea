"""Brokers behind one face, so that what holds for each is tested once: `bench`."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec
import nats
import pytest
import redis.asyncio
from nats.aio.client import Client
from nats.js.api import StreamConfig
from tests.support.brokers import Broker, fresh
from tests.support.brokers.nats import NatsServer
from tests.support.brokers.redis import RedisServer

from holdfast.transports import Message, Transport
from holdfast.transports.consuming import Consumer
from holdfast.transports.nats import Nats, NatsConsumer
from holdfast.transports.redis import RedisConsumer, RedisStreams


class Bench(Protocol):
    server: Broker
    drops_duplicates: bool
    limit: int
    """More bytes than the broker takes."""

    def sender(self, **options: Any) -> Transport:
        """A transport to the stream of this test."""

    def consumer(self, **options: Any) -> Consumer:
        """A consumer of it, to which messages that it did not acknowledge come again within a second or two."""

    def refused(self, message: Message) -> Message:
        """The same message, changed so that the broker refuses it."""

    async def stored(self) -> list[bytes]:
        """The data of all that is in the stream."""


class NatsBench:
    drops_duplicates = True
    limit = 256 * 1024 - 100  # with headers

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self.name = fresh()

    async def prepare(self, **settings: Any) -> None:
        client = await self.client()
        await client.jetstream().add_stream(StreamConfig(name=self.name, subjects=[f"{self.name}.order.*"], **settings))
        await client.close()

    async def client(self) -> Client:
        return await nats.connect(self.server.url)

    def sender(self, **options: Any) -> Nats:
        return Nats(self.server.url, **{"subject": f"{self.name}.{{type}}", **options})

    def consumer(self, **options: Any) -> NatsConsumer:
        return NatsConsumer(self.server.url, self.name, "books", **{"ack_wait": 1.5, **options})

    def refused(self, message: Message) -> Message:
        return msgspec.structs.replace(message, type="nowhere")

    async def stored(self) -> list[bytes]:
        client = await self.client()
        try:
            found = []
            context = client.jetstream()
            state = (await context.stream_info(self.name)).state
            if state.messages:
                subscription = await context.subscribe(f"{self.name}.>", ordered_consumer=True)
                found = [(await subscription.next_msg(timeout=30)).data for _ in range(state.messages)]
            return found
        finally:
            await client.close()


class RedisBench:
    drops_duplicates = False
    limit = 2 * 1024 * 1024

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.name = fresh()

    async def prepare(self) -> None:
        client = self.client()
        await client.set(f"{self.name}.nowhere", "is not a stream")
        await client.aclose()

    def client(self) -> "redis.asyncio.Redis":
        return redis.asyncio.Redis.from_url(self.server.url)

    def sender(self, **options: Any) -> RedisStreams:
        return RedisStreams(self.server.url, **{"stream": f"{self.name}.{{type}}", **options})

    def consumer(self, **options: Any) -> RedisConsumer:
        return RedisConsumer(self.server.url, f"{self.name}.order.paid", "books", **{"claim_after": 1.5, **options})

    def refused(self, message: Message) -> Message:
        return msgspec.structs.replace(message, type="nowhere")

    async def stored(self) -> list[bytes]:
        client = self.client()
        entries: Any = await client.xrange(f"{self.name}.order.paid")
        await client.aclose()
        return [fields[b"data"] for _, fields in entries]


@pytest.fixture
async def on_nats(nats_server: NatsServer) -> NatsBench:
    """A JetStream stream of this test's own."""
    bench = NatsBench(nats_server)
    await bench.prepare()
    return bench


@pytest.fixture
async def on_redis(redis_server: RedisServer) -> RedisBench:
    """A Redis stream of this test's own."""
    bench = RedisBench(redis_server)
    await bench.prepare()
    return bench


@pytest.fixture(params=["nats", "redis"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Each broker in turn."""
    name = "nats_server" if request.param == "nats" else "redis_server"
    made = {"nats": NatsBench, "redis": RedisBench}[request.param](request.getfixturevalue(name))
    await made.prepare()
    yield made
