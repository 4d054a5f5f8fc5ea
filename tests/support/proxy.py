"""A wire to the server that can be cut at a chosen moment."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit, urlunsplit


class Proxy:
    """Passes bytes both ways; drops the connection whose server says something that `cut` is waiting for."""

    def __init__(self, url: str) -> None:
        self._server = url
        self.url = ""
        self.cuts = 0
        self.delay = 0.0
        """Seconds that everything takes, each way."""
        self.deaf = False
        """While set, no notification comes through, and all else does."""
        self.refuses = False
        """While set, nobody is let through."""
        self._request: bytes | None = None
        self._reply = b""
        self._late: bytes | None = None
        self._delivery = asyncio.Event()
        self.held_back = False
        self._clients: set[asyncio.StreamWriter] = set()

    def cut_after(self, request: bytes, reply: bytes) -> None:
        """Once a client has sent `request`, swallow the server's next message with `reply` and drop the connection.

        What the server replied to is then done, and the client does not know it.
        """
        self._request, self._reply = request, reply

    def drop(self) -> None:
        """Drop every client that is connected now."""
        for client in self._clients:
            client.transport.abort()

    def hold_back(self, request: bytes) -> None:
        """Drop the client that sends `request`, but keep what it sent until `deliver`: the server gets it late."""
        self._late = request

    def deliver(self) -> None:
        self._delivery.set()

    async def _upstream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self._server)
        folder = parse_qs(parts.query).get("host", [""])[0]
        if folder.startswith("/"):
            return await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{parts.port or 5432}")
        return await asyncio.open_connection(parts.hostname or folder, parts.port or 5432)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.close()
            return
        try:
            upstream = await self._upstream()
        except BaseException:
            writer.close()
            raise
        self._clients.add(writer)
        asked = False
        messages = _Messages()

        async def from_client(data: bytes) -> bytes | None:
            nonlocal asked
            asked = asked or (self._request is not None and self._request in data)
            if self._late is not None and self._late in data:
                self._late, self.held_back = None, True
                writer.transport.abort()
                await self._delivery.wait()
            return data

        async def from_server(data: bytes) -> bytes | None:
            if asked and self._request is not None and self._reply in data:
                self._request = None
                self.cuts += 1
                return None
            return messages.without(b"A" if self.deaf else b"", data)

        try:
            await asyncio.gather(
                self._pass(reader, upstream[1], from_client), self._pass(upstream[0], writer, from_server)
            )
        finally:
            self._clients.discard(writer)
            for end in (writer, upstream[1]):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        keep: Callable[[bytes], Awaitable[bytes | None]],
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if (kept := await keep(data)) is None:
                    break
                await asyncio.sleep(self.delay)
                writer.write(kept)
                await writer.drain()
        writer.close()


class _Messages:
    """A server's messages: a letter, a length that counts itself, and the rest. Not for TLS."""

    def __init__(self) -> None:
        self._begun = False
        self._rest = b""

    def without(self, kind: bytes, data: bytes) -> bytes:
        """What can be passed on now, messages of one kind left out."""
        begun, self._begun = self._begun, True
        if not begun and data == b"N":  # "no TLS here": the one answer that is no message
            return data
        self._rest += data
        passed = b""
        while len(self._rest) >= 5 and len(self._rest) > (size := int.from_bytes(self._rest[1:5])):
            message, self._rest = self._rest[: size + 1], self._rest[size + 1 :]
            passed += b"" if message[:1] == kind else message
        return passed


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    """A proxy in front of this server until the end of the block; its `url` is the way through."""
    proxy = Proxy(url)
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        with suppress(asyncio.CancelledError):
            await proxy.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    proxy.url = urlunsplit(parts._replace(netloc=f"{login}{at}127.0.0.1:{port}", query=""))
    try:
        yield proxy
    finally:
        server.close()
        for _ in range(5):  # after some rounds of the loop, a client that was accepted in this moment has its task
            await asyncio.sleep(0)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
