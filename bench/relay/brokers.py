"""The brokers, as the tests start them, and what each of them has."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pytest

from holdfast.embedded.cluster import free_port


class NotThere(Exception):
    """This broker is not installed."""


class Server(Protocol):
    """What runs it."""

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


class Destination(Protocol):
    """A broker, empty, with a place for the events."""

    url: str
    server: Server

    async def prepare(self) -> None: ...

    async def count(self) -> int:
        """How many different events it has."""


@contextmanager
def started(kind: str) -> Iterator[Destination]:
    try:
        destination = _KINDS[kind]()
    except pytest.skip.Exception as why:
        raise NotThere(str(why)) from None
    try:
        destination.server.start()
        yield destination
    finally:
        destination.server.close()


class _Nats:
    def __init__(self) -> None:
        from tests.support.brokers.nats import NatsServer

        server = NatsServer()
        self.server: Server = server
        self.url = server.url

    async def prepare(self) -> None:
        import nats

        client = await nats.connect(self.url)
        stream = client.jetstream()
        with suppress(nats.js.errors.NotFoundError):
            await stream.delete_stream("bench")
        await stream.add_stream(name="bench", subjects=["bench.>"])
        await client.close()

    async def count(self) -> int:
        import nats

        client = await nats.connect(self.url)
        info = await client.jetstream().stream_info("bench")
        await client.close()
        return int(info.state.messages)


class _Redis:
    def __init__(self) -> None:
        from tests.support.brokers.redis import RedisServer

        server = RedisServer()
        self.server: Server = server
        self.url = server.url

    async def _ask(self, *words: Any) -> Any:
        from redis.asyncio import Redis

        client: Any = Redis.from_url(self.url)
        try:
            return await client.execute_command(*words)
        finally:
            await client.aclose()

    async def prepare(self) -> None:
        await self._ask("DEL", "bench")

    async def count(self) -> int:
        return int(await self._ask("XLEN", "bench"))


class _RabbitMQ:
    def __init__(self) -> None:
        from tests.support.brokers.rabbitmq import RabbitServer

        server = RabbitServer()
        self.server: Server = server
        self.url = server.url

    async def prepare(self) -> None:
        import aio_pika

        connection = await aio_pika.connect(self.url)
        channel = await connection.channel()
        exchange = await channel.declare_exchange("bench", aio_pika.ExchangeType.TOPIC, durable=True)
        await channel.queue_delete("bench")
        queue = await channel.declare_queue("bench", durable=True)
        await queue.bind(exchange, "#")
        await connection.close()

    async def count(self) -> int:
        import aio_pika

        connection = await aio_pika.connect(self.url)
        channel = await connection.channel()
        queue = await channel.declare_queue("bench", durable=True, passive=True)
        found = int(queue.declaration_result.message_count or 0)
        await connection.close()
        return found


class _Hooks:
    """The web server's process."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.relay.hooks", str(self._port)], cwd=Path(__file__).parents[2]
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            time.sleep(0.02)
        raise TimeoutError("the web server did not start")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    close = kill


class _Webhooks:
    def __init__(self) -> None:
        port = free_port()
        self.server = _Hooks(port)
        self.url = f"http://127.0.0.1:{port}/hook"

    async def prepare(self) -> None:
        self.server.kill()
        self.server.start()

    async def count(self) -> int:
        def ask() -> int:
            with urllib.request.urlopen(self.url, timeout=5) as answer:
                return int(answer.read())

        return await asyncio.to_thread(ask)


_KINDS: dict[str, Any] = {"nats": _Nats, "redis": _Redis, "rabbitmq": _RabbitMQ, "webhooks": _Webhooks}
