"""The connection."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from .. import Away
from ..naming import check_url, hide_secrets, library

if TYPE_CHECKING:
    from nats.aio.client import Client

SCHEMES = ("nats", "tls", "ws", "wss")
CONNECT = 5.0
"""Seconds for which one server is tried."""
CLOSE = 1.0
"""Seconds for which a connection is closed politely."""

_DENIED = re.compile(r'Permissions Violation for Publish to "([^"]*)"', re.IGNORECASE)


class Link:
    """A connection to one of several servers, which is never reconnected by itself."""

    def __init__(self, url: str, connect: Mapping[str, Any] | None) -> None:
        self._urls = [part.strip() for part in url.split(",")]
        for one in self._urls:
            check_url(one, SCHEMES)
        self.shown = ",".join(hide_secrets(one) for one in self._urls)
        self._options = dict(connect or {})
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The connection; raises if there is none."""
        if self._client is None or self._client.is_closed:
            raise Away(f"{self.shown}: not connected")
        return self._client

    async def open(self, lost: Callable[[Away], None], denied: Callable[[str], None]) -> None:
        """Connect to the first server that answers, in any order."""
        aio = library("nats.aio.client", "nats")
        failures = []
        for url in random.sample(self._urls, len(self._urls)):
            client, watch = aio.Client(), _Watch(self.shown, lost, denied)
            try:
                async with asyncio.timeout(CONNECT):
                    place, login = _login(url)
                    await client.connect(place, **{"name": "holdfast", **login, **self._options, **watch.options()})
            except Exception as error:
                failures.append(f"{hide_secrets(url)}: {watch.reason or str(error) or 'no answer'}")
                await _drop(client)
                continue
            except BaseException:
                await _drop(client)
                raise
            self._client = client
            return
        raise Away("; ".join(failures))

    async def close(self) -> None:
        """Disconnect, at once."""
        client, self._client = self._client, None
        if client is not None:
            await _drop(client)


def _login(url: str) -> tuple[str, dict[str, str]]:
    """Return the URL without its login, and the login. The client would not decode %40 in a password."""
    parts = urlsplit(url)
    place = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if parts.password is not None:
        return place, {"user": unquote(parts.username or ""), "password": unquote(parts.password)}
    return place, {"token": unquote(parts.username)} if parts.username else {}


class _Watch:
    """What a client says about its connection."""

    def __init__(self, shown: str, lost: Callable[[Away], None], denied: Callable[[str], None]) -> None:
        self._shown = shown
        self._lost = lost
        self._denied = denied
        self.reason = ""
        """Its last error."""

    def options(self) -> dict[str, Any]:
        """Options of the client: it tries a server, and never on its own again."""
        return {
            "allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0, "flush_timeout": CLOSE,
            "connect_timeout": CONNECT, "error_cb": self.on_error, "closed_cb": self.on_close,
        }  # fmt: skip

    async def on_error(self, error: Exception) -> None:
        match = _DENIED.search(str(error))
        if match:
            self._denied(match[1])
        else:
            self.reason = str(error) or type(error).__name__

    async def on_close(self) -> None:
        self._lost(Away(f"{self._shown}: {self.reason or 'the connection was lost'}"))


async def publish(
    client: Client,
    subject: str,
    data: bytes,
    reply: str = "",
    headers: dict[str, str] | None = None,
    task: asyncio.Task[Any] | None = None,
) -> None:
    """Publish. The client swallows a cancellation, that of a deadline too, while it waits for its buffer to empty.
    `task`: the current one, if it is known."""
    await client.publish(subject, data, reply, headers=headers)
    task = task or asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _drop(client: Client) -> None:
    """Close a connection; if the server does not read any more, without what is still to be written."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSE):
            await client.close()
            return
    # close() waits for the server to read; no public way leads to the socket.
    writer = getattr(getattr(client, "_transport", None), "_io_writer", None)
    if writer is not None:
        writer.transport.abort()
