"""A small HTTP server for scrapers and probes. It answers GET and HEAD of a few paths, one request per connection."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

log = logging.getLogger("holdfast.metrics")

PATIENCE = 5.0
"""Seconds for a request to arrive, and for its answer to be taken."""
REQUEST = 16 * 1024
"""Most bytes of a request."""
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = TEXT


Pages = Mapping[str, Callable[[], Awaitable[Page]]]


async def serve(listening: socket.socket, pages: Pages) -> None:
    """Serve these pages until cancelled."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await _answer(reader, writer, pages)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # it went away, is too slow, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # the worker ends; asyncio would report it as an error
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(answer, sock=listening, limit=REQUEST)
    async with server:
        await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pages: Pages) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    method, path, *_ = [*head.split("\r\n", 1)[0].split(" "), "", ""]
    page = await _page(method, path.partition("?")[0], pages)
    lines = [
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Connection: close",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else page.body))
    await writer.drain()


async def _page(method: str, path: str, pages: Pages) -> Page:
    if method not in ("GET", "HEAD"):
        return Page(b"expected GET\n", HTTPStatus.METHOD_NOT_ALLOWED)
    if path not in pages:
        known = ", ".join(pages)
        return Page(f"there is no such page; expected one of {known}\n".encode(), HTTPStatus.NOT_FOUND)
    try:
        return await pages[path]()
    except Exception as error:
        log.warning("metrics: %s could not be answered: %s", path, error)
        return Page(b"the database could not be queried; see the log of the worker\n", HTTPStatus.SERVICE_UNAVAILABLE)
