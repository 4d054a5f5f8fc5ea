"""An ASGI application that receives webhooks. It needs no framework.

| answer | when |
|---|---|
| 204 | the message is committed, now or at an earlier delivery |
| 400 | attributes in headers, which are not signed, without `binary`; or none with it |
| 401 | the signature is missing, wrong or too old; nothing is stored |
| 405, 408, 413, 415 | not a POST; the body came too slowly; too large; not JSON |
| 503 | no database; the sender tries again |
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..errors import Contended, Rejected, Unreachable
from .arrivals import Arrival, Source
from .rejecting import Rejections
from .requests import Secrets, check_before_body, current, plain, too_large, verified
from .storing import Received

log = logging.getLogger("holdfast.receiving")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Keep = Callable[[Arrival], Awaitable[Received]]

RETRY_AFTER = 5
"""Seconds, in an answer of 503."""
TEXTS = {
    400: b"not in a form that is accepted here\n",
    401: b"not signed, or not lately\n",
    405: b"use POST\n",
    408: b"the body came too slowly\n",
    413: b"too large\n",
    415: b"expected JSON\n",
    500: b"an error of the receiver\n",
    503: b"not available, try again\n",
}


class _Gone(Exception):
    """The client has gone away, and waits for no answer."""


class Receiver:
    """Receives the webhooks of one source; `hf.receiver(…)` makes it.

    ```python
    app = hf.receiver(source="shop", secrets=SECRETS)  # uvicorn shop.hooks:app, or mount it: app.mount("/hooks", …)
    ```
    """

    def __init__(
        self,
        source: Source,
        secrets: Secrets,
        keep: Keep,
        close: Callable[[], Awaitable[None]],
        timeout: float,
        binary: bool,
    ) -> None:
        self._source = source
        self._secrets = secrets
        self._keep = keep
        self._close = close
        self._timeout = timeout
        self._binary = binary
        self._rejections = Rejections(source.name)
        self.rejected: Counter[int] = self._rejections.counts
        """Requests that were rejected, by the status of the answer."""
        self._down_since: float | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan of the server if it serves nothing else."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1003})
        else:
            try:
                status = await self._answer(scope, receive)
            except _Gone:
                return
            await _respond(send, status)

    async def _live(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self._close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive) -> int:
        """Return the status of the answer."""
        try:
            if scope["method"] != "POST":
                raise Rejected(405, f"expected POST, got {scope['method'][:20]!r}")
            headers = plain(scope["headers"])
            check_before_body(self._source, headers)
            body = await self._body(receive)
            arrival = verified(self._source, headers, body, await current(self._secrets), self._binary)
            await self._keep(arrival)
        except Rejected as rejected:
            self._rejections.record(rejected)
            return rejected.status
        except (Unreachable, Contended) as error:
            self._note_down(error)
            return 503
        except _Gone:
            raise
        except Exception:
            log.exception("source %s: a request could not be received; its sender tries again", self._source.name)
            return 500
        self._note_up()
        return 204

    async def _body(self, receive: Receive) -> bytes:
        """Read all of it, up to the limit and not for longer than the timeout: length and pace are the sender's."""
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    if size > self._source.most_body:
                        raise too_large(self._source)
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError:
            raise Rejected(408, f"the body was not complete after {self._timeout:g} s") from None

    def _note_down(self, error: Exception) -> None:
        if self._down_since is None:
            self._down_since = time.monotonic()
            log.warning(
                "source %s: the database is unreachable: %s; answering 503 until it is back", self._source.name, error
            )

    def _note_up(self) -> None:
        if self._down_since is not None:
            seconds = time.monotonic() - self._down_since
            self._down_since = None
            log.info("source %s: messages are stored again, after %.1f s", self._source.name, seconds)


async def _respond(send: Send, status: int) -> None:
    text = TEXTS.get(status, b"")
    headers: list[tuple[bytes, bytes]] = []
    if text:
        headers += [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    if status == 405:
        headers.append((b"allow", b"POST"))
    if status == 503:
        headers.append((b"retry-after", str(RETRY_AFTER).encode()))
    if status in (405, 408, 413, 415):  # the rest of the body is not read
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
