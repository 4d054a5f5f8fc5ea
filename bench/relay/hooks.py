"""A web server that takes webhooks and counts them: `python -m bench.relay.hooks PORT`. GET answers with the number."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import cast

from holdfast.loading import loop_factory

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ID = re.compile(rb"webhook-id: *(\S+)", re.IGNORECASE)
seen: set[bytes] = set()


class Hook(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            found = _LENGTH.search(head)
            size = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < size:
                return
            self._buffer = self._buffer[size:]
            if head.startswith(b"GET"):
                body = str(len(seen)).encode()
                self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                continue
            if id := _ID.search(head):
                seen.add(id[1])
            self._transport.write(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n")


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Hook, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main(int(sys.argv[1])))
