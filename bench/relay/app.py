"""The application whose worker relays: one route, to the destination that the benchmark started."""

import json
import os

from holdfast import Holdfast
from holdfast.transports import Transport

PLACE = "BENCH_RELAY"
"""Names the variable that says where to, as JSON: kind, url, ordered."""
TYPE = "order.paid"
NAME = "bus"


def destination(kind: str, url: str) -> Transport:
    match kind:
        case "nats":
            from holdfast.transports.nats import Nats

            return Nats(url, subject="bench.{type}")
        case "redis":
            from holdfast.transports.redis import RedisStreams

            return RedisStreams(url, stream="bench")
        case "rabbitmq":
            from holdfast.transports.rabbitmq import RabbitMQ

            return RabbitMQ(url, exchange="bench")
        case "webhooks":
            from holdfast.webhooks.transport import Webhooks

            return Webhooks(allow_private=True, allow_http=True, ports=None, per_host=64)
        case _:
            raise ValueError(kind)


hf = Holdfast(source="bench")
if PLACE in os.environ:
    place = json.loads(os.environ[PLACE])
    hf.relay("*", to=destination(place["kind"], place["url"]), name="webhooks" if place["kind"] == "webhooks" else NAME,
             ordered=place["ordered"])  # fmt: skip
