"""A process that runs consumers as a worker does: `python -m tests.receiving.pump DATABASE_URL REDIS_URL STREAM`.

It drains at SIGTERM. Its consumer is a plain one, so that these tests are about the loop: a group of one stream, whose
pending messages it takes over after a moment.
"""

import asyncio
import base64
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from redis import asyncio as redis
from redis import exceptions

from holdfast import Event, Holdfast
from holdfast.loading import served
from holdfast.model.occurrences import Occurrences
from holdfast.receiving.consuming import Consuming
from holdfast.transports import Away
from holdfast.transports.consuming import Incoming
from holdfast.worker.log_lines import LogLines

GROUP = "billing"
CLAIM_AFTER = 200
"""Milliseconds after which a message that was not acknowledged is fetched again."""


class GroupConsumer:
    def __init__(self, url: str, stream: str) -> None:
        self.shown = f"stream {stream}"
        self.calls: list[str] = []
        self._url = url
        self._stream = stream
        self._client: redis.Redis | None = None

    async def open(self) -> None:
        self.calls.append("open")
        self._client = redis.Redis.from_url(self._url, socket_timeout=5, socket_connect_timeout=1)
        try:
            await self._client.xgroup_create(self._stream, GROUP, id="0", mkstream=True)
        except exceptions.ResponseError:
            pass  # it is there
        except (exceptions.RedisError, OSError) as error:
            raise Away(str(error)) from error

    async def fetch(self) -> Sequence[Incoming]:
        self.calls.append("fetch")
        assert self._client is not None
        try:
            claimed: Any = await self._client.xautoclaim(self._stream, GROUP, "me", CLAIM_AFTER, "0", count=100)
            found = list(claimed[1])
            if not found:
                new: Any = await self._client.xreadgroup(GROUP, "me", {self._stream: ">"}, count=100, block=100)
                found = [entry for _, entries in new or [] for entry in entries]
        except (exceptions.RedisError, OSError) as error:
            raise Away(str(error)) from error
        return [self._incoming(id, fields) for id, fields in found]

    def _incoming(self, id: bytes, fields: dict[bytes, bytes]) -> Incoming:
        attributes = {
            name.removeprefix(b"ce_").decode(): value.decode()
            for name, value in fields.items()
            if name.startswith(b"ce_")
        }
        return Incoming(attributes, fields.get(b"data", b""), None, id, f"{self._stream}:{id.decode()}")

    async def acknowledge(self, messages: Sequence[Incoming]) -> None:
        self.calls.append(f"acknowledge {len(messages)}")
        assert self._client is not None
        try:
            await self._client.xack(self._stream, GROUP, *(message.handle for message in messages))
        except (exceptions.RedisError, OSError) as error:
            raise Away(str(error)) from error

    async def close(self) -> None:
        self.calls.append("close")
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def fields(id: str, data: str = "{}", **attributes: str) -> dict[Any, Any]:
    """An entry of the stream."""
    found = {"specversion": "1.0", "id": id, "source": "shop", "type": "order.paid", **attributes}
    return {**{f"ce_{name}": value for name, value in found.items()}, "data": data}


def application(url: str, redis_url: str, stream: str) -> Holdfast:
    hf = Holdfast(url)

    @hf.on_event("order.paid", source="shop", ordered=True)
    async def paid(event: Event[Any]) -> None: ...

    hf.consume(GroupConsumer(redis_url, stream), source="shop")
    return hf


async def main(url: str, redis_url: str, stream: str) -> None:
    hf = application(url, redis_url, stream)
    worker = served(hf)
    consuming = Consuming(worker.database, worker.consumers, f"pump-{os.getpid()}", Occurrences(LogLines()), lease=1)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    consuming.start()
    await stop.wait()
    await consuming.stop()
    print(consuming.received, flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    decoded = [base64.b64decode(word).decode() for word in sys.argv[1:2]]  # a password is not for the list of processes
    asyncio.run(main(decoded[0], *sys.argv[2:]))
