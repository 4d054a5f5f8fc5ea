"""An exchange and a queue of each test's own."""

from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from tests.support.brokers import fresh
from tests.support.brokers.rabbitmq import RabbitServer

from holdfast.transports.rabbitmq import RabbitMQ, RabbitMQConsumer


class Shop:
    """A topic exchange, and a durable queue for `order.*`."""

    def __init__(self, server: RabbitServer) -> None:
        self.server = server
        self.name = fresh()
        self._connection: aio_pika.abc.AbstractConnection | None = None

    async def channel(self) -> aio_pika.abc.AbstractChannel:
        if self._connection is None or self._connection.is_closed:
            self._connection = await aio_pika.connect(self.server.url)
        return await self._connection.channel()

    async def prepare(self, **arguments: Any) -> None:
        channel = await self.channel()
        await channel.declare_exchange(self.name, "topic", durable=True)
        queue = await channel.declare_queue(self.name, durable=True, arguments=arguments)
        await queue.bind(self.name, "order.*")

    def sender(self, **options: Any) -> RabbitMQ:
        return RabbitMQ(self.server.url, self.name, **options)

    def consumer(self, **options: Any) -> RabbitMQConsumer:
        return RabbitMQConsumer(self.server.url, self.name, **options)

    async def stored(self) -> list[AbstractIncomingMessage]:
        """Take all that is in the queue."""
        queue = await (await self.channel()).get_queue(self.name)
        found = []
        while (message := await queue.get(no_ack=True, fail=False)) is not None:
            found.append(message)
        return found

    async def bodies(self) -> list[bytes]:
        return [message.body for message in await self.stored()]

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


@pytest.fixture
async def shop(rabbitmq_server: RabbitServer) -> AsyncIterator[Shop]:
    shop = Shop(rabbitmq_server)
    await shop.prepare()
    yield shop
    if rabbitmq_server.pid is not None:
        rabbitmq_server.thaw()
    await shop.close()
