"""What lies between two services: the broker, and how each of them reaches it.

Each process learns it from a variable, as JSON.
"""

import asyncio
import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.transports import Transport
from holdfast.transports.consuming import Consumer

VARIABLE = "BOUNDARY"


@dataclass(frozen=True, slots=True)
class Place:
    kind: str
    """nats, redis, rabbitmq or webhooks."""
    url: str
    name: str
    """Of the stream or exchange and queue; no other test uses it."""
    ordered: bool = True
    """Is the route?"""

    @classmethod
    def here(cls) -> "Place":
        return cls(**json.loads(os.environ[VARIABLE]))

    @property
    def variables(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    def transport(self) -> Transport:
        match self.kind:
            case "nats":
                from holdfast.transports.nats import Nats

                return Nats(self.url, subject=f"{self.name}.{{type}}", timeout=3)
            case "redis":
                from holdfast.transports.redis import RedisStreams

                return RedisStreams(self.url, stream=self.name, timeout=3)
            case "rabbitmq":
                from holdfast.transports.rabbitmq import RabbitMQ

                return RabbitMQ(self.url, exchange=self.name, timeout=3)
            case _:
                from holdfast.webhooks import Webhooks, schedule

                setattr(schedule, "DELAYS", (0.2,) * len(schedule.DELAYS))  # hours, otherwise  # noqa: B010
                return Webhooks(allow_private=True, allow_http=True, ports=None, timeout=3)

    def consumer(self) -> Consumer | None:
        match self.kind:
            case "nats":
                from holdfast.transports.nats import NatsConsumer

                return NatsConsumer(self.url, stream=self.name, durable="billing", ack_wait=2)
            case "redis":
                from holdfast.transports.redis import RedisConsumer

                return RedisConsumer(self.url, stream=self.name, group="billing")
            case "rabbitmq":
                from holdfast.transports.rabbitmq import RabbitMQConsumer

                return RabbitMQConsumer(self.url, queue=self.name)
            case _:
                return None

    def prepare(self) -> None:
        """Make what a transport needs at the broker."""
        match self.kind:
            case "nats":
                asyncio.run(_stream(self.url, self.name))
            case "rabbitmq":
                asyncio.run(_queue(self.url, self.name))


async def _stream(url: str, name: str) -> None:
    import nats

    client = await nats.connect(url)
    await client.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
    await client.close()


async def _queue(url: str, name: str) -> None:
    import aio_pika

    connection = await aio_pika.connect(url)
    channel = await connection.channel()
    exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC, durable=True)
    arguments: dict[str, Any] = {"x-queue-type": "quorum"}
    queue = await channel.declare_queue(name, durable=True, arguments=arguments)
    await queue.bind(exchange, "#")
    await connection.close()
