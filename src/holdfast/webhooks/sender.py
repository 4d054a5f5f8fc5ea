"""One HTTP request to a server that we do not trust: what it may cost is bounded, and where it may go is checked.

The guard is the connector's socket factory, which sees each address just before the connection is made to it. Names,
literals in any spelling, and names whose address has changed since the last look-up all end there. The resolver checks
every address of a name as well, so a name with one private address among public ones is refused as a whole.
"""

from __future__ import annotations

import asyncio
import errno
import io
import socket
import ssl
import time
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from ..errors import InvalidInput
from ..version import __version__
from .addresses import Forbidden, Policy
from .limits import PATIENCE, Busy, Slots
from .names import Names

READ_BYTES = 64 * 1024
"""Most bytes of an answer's body that are read."""
KEPT_BYTES = 1024
"""Most bytes of it that are kept."""
CONNECTIONS = 512
"""Requests at the same time."""
LARGE = 1024 * 1024
"""Bytes of a body from which on aiohttp wants a file."""
MOST_TARGETS = 10_000
"""URLs that are kept, checked and parsed."""
USER_AGENT = f"Holdfast/{__version__} (+webhooks)"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server has answered, or why there is no answer."""

    ms: float
    """From the look-up of the name to the last byte."""
    status: int | None = None
    """Of HTTP; None: there was no whole answer."""
    address: str | None = None
    """The address that was connected to, or that the last try was made to."""
    text: str | None = None
    """How the body begins."""
    error: str | None = None
    """Why there was no whole answer."""
    retry_after: float | None = None
    """Seconds, as the server asks."""

    @property
    def details(self) -> dict[str, str | int | float]:
        """What is kept of the attempt."""
        found = {"status": self.status, "ms": round(self.ms, 1), "address": self.address, "response": self.text}
        return {name: value for name, value in found.items() if value is not None}


class _Trail:
    """What is known about the connection of one request, and when it must have ended."""

    __slots__ = ("address", "began", "deadline", "fresh", "until")

    def __init__(self, deadline: asyncio.Timeout, until: float) -> None:
        self.address: str | None = None
        self.fresh = False
        self.began = time.monotonic()
        self.deadline = deadline
        self.until = until
        """Until when it may wait for others."""

    async def wait(self, slots: Slots) -> None:
        """Take a slot. The time until there is one is not the server's, so it does not count; raises `Busy`."""
        due = self.deadline.when()
        began = time.monotonic()
        self.deadline.reschedule(None)
        try:
            await slots.acquire(max(self.until - began, 0.0))
        except TimeoutError:
            raise Busy("too many names are looked up") from None
        finally:
            waited = time.monotonic() - began
            self.began += waited
            self.deadline.reschedule(due + waited if due is not None else None)


_trail: ContextVar[_Trail] = ContextVar("holdfast_webhook_trail")


class _Response(aiohttp.ClientResponse):
    """Notes the address before the connection goes back to the pool, which happens when the last byte has arrived."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        transport = connection.transport
        peer = transport.get_extra_info("peername") if transport is not None else None
        if peer:
            _trail.get().address = str(peer[0])
        return await super().start(connection)


class _Resolver(AbstractResolver):
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._names = Names(_look_up)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        infos = await self._names.find(host, port, family, _trail.get().wait)
        found: list[ResolveResult] = []
        for kind, _, proto, _, address in infos:
            self._policy.check_address(str(address[0]))
            found.append(
                ResolveResult(
                    hostname=host, host=str(address[0]), port=port, family=kind, proto=proto,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )  # fmt: skip
        if not found:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
        return found

    async def close(self) -> None:
        self._names.close()


def _look_up(host: str, port: int, family: int) -> list[Any]:
    return socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)


class Sender:
    """Sends requests, over connections that are kept open between them."""

    def __init__(self, policy: Policy, deadline: float = 15.0, tls: ssl.SSLContext | None = None) -> None:
        self._policy = policy
        self._deadline = deadline
        self._targets: dict[str, URL] = {}
        self._resolver = _Resolver(policy)
        self._slots = Slots(CONNECTIONS)
        connector = aiohttp.TCPConnector(
            ssl=tls if tls is not None else True,
            resolver=self._resolver,
            use_dns_cache=False,
            limit=0,  # our own slots, and the caller's for each host: time in a queue must not count as the server's
            limit_per_host=0,
            keepalive_timeout=30.0,
            socket_factory=self._socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            response_class=_Response,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=READ_BYTES // 2,  # aiohttp stops reading at twice this
            max_line_size=8190,
            max_field_size=8190,
            max_headers=100,
            headers={"user-agent": USER_AGENT, "accept": "*/*", "accept-encoding": "identity"},
        )

    async def __aenter__(self) -> Sender:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, at once."""
        await self._session.close()
        await self._resolver.close()

    async def post(self, url: str, headers: dict[str, str], body: bytes, patience: float = PATIENCE) -> Answer:
        """Send one request. Whatever the server does, this returns within the deadline.

        Before that, it may have to wait for others, up to `patience` seconds; raises `Busy` if that is not enough.
        """
        until = time.monotonic() + patience
        try:
            await self._slots.acquire(patience)
        except TimeoutError:
            raise Busy("too many requests are under way") from None
        try:
            return await self._post(url, headers, body, until)
        finally:
            self._slots.give_back()

    async def _post(self, url: str, headers: dict[str, str], body: bytes, until: float) -> Answer:
        deadline = asyncio.timeout(self._deadline)
        trail = _Trail(deadline, until)
        token = _trail.set(trail)
        try:
            async with deadline:
                target = self._target(url)
                try:
                    answer = await self._once(target, headers, body, trail)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                    # The server may have closed a kept connection while we sent. A delivery may arrive twice anyway.
                    if trail.fresh or isinstance(error, aiohttp.ClientConnectorError):
                        raise
                    answer = await self._once(target, headers, body, trail)
                return answer
        except Busy:
            raise
        except TimeoutError:
            problem = f"no whole answer within {self._deadline:g} s"
        except Exception as error:
            problem = _in_words(error)
        finally:
            _trail.reset(token)
        return Answer(ms=_since(trail.began), address=trail.address, error=problem)

    def _target(self, url: str) -> URL:
        """The URL, checked: it may have been stored under another policy, or by hand."""
        found = self._targets.get(url)
        if found is None:
            if len(self._targets) >= MOST_TARGETS:
                self._targets.clear()
            found = self._targets[url] = URL(self._policy.check_url(url), encoded=True)
        return found

    async def _once(self, url: URL, headers: dict[str, str], body: bytes, trail: _Trail) -> Answer:
        data = body if len(body) <= LARGE else io.BytesIO(body)
        async with self._session.post(url, data=data, headers=headers, allow_redirects=False) as response:
            read = bytearray()
            async for chunk in response.content.iter_any():
                read += chunk
                if len(read) >= READ_BYTES:
                    response.close()  # what else it sends is of no interest, and may never end
                    break
            return Answer(
                ms=_since(trail.began),
                status=response.status,
                address=trail.address,
                text=_shown(bytes(read[: KEPT_BYTES + 4]), response.headers.get("content-encoding")),
                retry_after=_seconds(response.headers.get("retry-after")),
            )

    def _socket(self, info: Any) -> socket.socket:
        """Called for each address, just before the connection is made to it."""
        family, kind, proto, _, address = info
        trail = _trail.get()
        trail.fresh = True
        trail.address = str(address[0])
        self._policy.check_address(str(address[0]))
        made = socket.socket(family, kind, proto)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


def _since(began: float) -> float:
    return (time.monotonic() - began) * 1000


def _in_words(error: BaseException) -> str:
    """What went wrong, in one short line; the guard's own words if it was the guard."""
    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, Forbidden):
        inner = inner.__cause__ or getattr(inner, "os_error", None)
    if inner is not None or isinstance(error, InvalidInput):
        return str(inner or error)[:300]
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"TLS: {error.certificate_error}"[:300]
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the name could not be resolved: {error.os_error}"[:300]
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    return f"{type(error).__name__}: {error}"[:300]


def _shown(body: bytes, encoding: str | None) -> str | None:
    if not body:
        return None
    if encoding is not None and encoding.lower() != "identity":
        return f"(encoded as {encoding[:20]})"
    return body[:KEPT_BYTES].decode("utf-8", "replace").replace("\0", "\\0")


def _seconds(text: str | None) -> float | None:
    """Of Retry-After: a number, or a date."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
