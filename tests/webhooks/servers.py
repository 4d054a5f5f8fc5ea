"""Real servers on loopback: some take what they get, others do what no server should."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

CERTIFICATE = Path(__file__).with_name("hooks.test.pem")
"""Of hooks.test, signed by itself, with its key; for these tests only."""

Behaviour = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Server:
    port: int
    host: str = "127.0.0.1"
    scheme: str = "http"
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    most: int = 0
    """Most requests at the same time."""
    sent: int = 0
    """Bytes of endless answers."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}/hook"


@asynccontextmanager
async def serving(behave: Behaviour | None = None, host: str = "127.0.0.1", tls: bool = False) -> AsyncIterator[Server]:
    """A server that behaves this way; by default it answers 204."""
    server = Server(0, host, "https" if tls else "http")
    now = 0
    running: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now
        server.connections += 1
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            while (request := await _read(reader)) is not None:
                server.requests.append(request)
                now += 1
                server.most = max(server.most, now)
                try:
                    await (behave or answering(204))(request, writer)
                    await writer.drain()
                finally:
                    now -= 1
                if writer.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            writer.close()

    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
    listening = await asyncio.start_server(connected, host, 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in running:  # those that never end: nothing may be left of them
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    line, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest if each)}
    return Request(line, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


def answering(status: int, body: bytes = b"", headers: str = "") -> Behaviour:
    """Answer with this."""
    answer = f"HTTP/1.1 {status} Said\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return behave


async def closing(request: Request, writer: asyncio.StreamWriter) -> None:
    """Take the request and close the connection."""
    writer.close()


async def silent(request: Request, writer: asyncio.StreamWriter) -> None:
    """Say nothing."""
    await asyncio.sleep(60)


async def endless(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer 200 and a body that never ends, as fast as it is read."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


async def dripping(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer 200 and a body of one byte a second, or more often."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    for _ in range(1000):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def dripping_headers(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer a head that never ends, slowly."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000):
        writer.write(b"x-%d: y\r\n" % number)
        await writer.drain()
        await asyncio.sleep(0.05)


async def endless_headers(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer a head that never ends, as fast as it is read."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        writer.write(b"x-%d: %s\r\n" % (number, b"y" * 1000))
        await writer.drain()


async def long_header(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer one header of a megabyte."""
    writer.write(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000 + b"\r\ncontent-length: 0\r\n\r\n")


async def bomb(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer 20 KiB of gzip that are 20 MiB."""
    body = gzip.compress(bytes(20 * 1024 * 1024))
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


async def nonsense(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer something else than HTTP."""
    writer.write(b"220 mail.example ESMTP\r\n" * 10)
    writer.close()
