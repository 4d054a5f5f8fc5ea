"""A reverse proxy as people put in front of a dashboard: it ends TLS, removes a prefix, and says so in headers."""

import asyncio
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aiohttp import ClientSession, DummyCookieJar, web
from tests.support.waiting import wait_until
from tests.webhooks.servers import CERTIFICATE
from yarl import URL

OWN = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "host", "content-length"}
"""Headers of one connection."""


class ReverseProxy:
    """As `location PREFIX/ { proxy_pass http://UPSTREAM/; proxy_set_header NAME VALUE; }` of nginx.

    In a value, `$http_host` is the header Host of the request, and `$host` the same without its port. Without a value
    for Host, the upstream gets its own address.
    """

    def __init__(self, upstream: str, prefix: str, headers: Mapping[str, str]) -> None:
        self._upstream = upstream
        self._prefix = prefix
        self._headers = headers

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path_qs
        if path == self._prefix:
            raise web.HTTPMovedPermanently(f"{self._prefix}/")
        if not path.startswith(f"{self._prefix}/"):
            return web.Response(text="another application of this host", status=404)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in OWN}
        for name, value in self._headers.items():
            host = request.headers["Host"]
            headers[name] = value.replace("$http_host", host).replace("$host", host.partition(":")[0])
        url = URL(self._upstream + path.removeprefix(self._prefix), encoded=True)
        async with (
            ClientSession(cookie_jar=DummyCookieJar(), auto_decompress=False) as session,
            session.request(
                request.method, url, headers=headers, data=await request.read(), allow_redirects=False
            ) as answer,
        ):
            response = web.StreamResponse(status=answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in OWN - {"content-length"}:
                    response.headers.add(name, value)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response


@contextmanager
def proxied(upstream: str, prefix: str, headers: Mapping[str, str], *, tls: bool = False) -> Iterator[str]:
    """The address of the prefix, without the last slash, on an event loop in a thread of its own."""
    ports: list[int] = []
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)

    async def serve() -> None:
        server = web.Server(ReverseProxy(upstream, prefix, headers))
        quick = 0.1 if tls else None  # a browser does not answer the end of TLS, and its sockets would stay open
        listening = await asyncio.get_running_loop().create_server(
            server, "127.0.0.1", 0, ssl=context, ssl_shutdown_timeout=quick
        )
        ports.append(listening.sockets[0].getsockname()[1])
        await ended.wait()
        listening.close()
        await server.shutdown(1)  # and ends the streams of those who watch the live state
        await asyncio.sleep(0.3)

    ended = asyncio.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=[serve()], name="reverse proxy")
    thread.start()
    try:
        wait_until(lambda: bool(ports))
        yield f"{'https' if tls else 'http'}://localhost:{ports[0]}{prefix}"
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(20)
        loop.close()
