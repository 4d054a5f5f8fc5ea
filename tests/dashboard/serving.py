"""A dashboard that listens, on an event loop in a thread of its own, as beside any application."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from tests.support.waiting import wait_until

from holdfast import Holdfast
from holdfast.dashboard.application import Dashboard
from holdfast.dashboard.serving import listening
from holdfast.dashboard.settings import settings

TOKEN = "a-token-of-more-than-thirty-two-characters"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Visitor:
    """Speaks HTTP as the page does, or as nobody should."""

    address: str
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> Answer:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        request = urllib.request.Request(self.address + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, response.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, {k.lower(): v for k, v in error.headers.items()}, error.read())

    def enter(self) -> "Visitor":
        """Begin a session, as the page does when it is loaded."""
        found = self.ask("/api/session")
        cookie = found.headers.get("set-cookie", self.headers.get("cookie", "")).partition(";")[0]
        csrf = found.json.get("csrf", "")
        return Visitor(self.address, {"cookie": cookie, "x-holdfast-csrf": csrf, **self.own})

    @property
    def own(self) -> dict[str, str]:
        scheme, _, rest = self.address.partition("://")
        return {"origin": f"{scheme}://{rest.partition('/')[0]}", "content-type": "application/json"}


@contextmanager
def served(asgi: Any) -> Iterator[str]:
    """Its address, while it listens."""
    with listening("127.0.0.1", 0) as taken:
        config = uvicorn.Config(
            asgi, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[taken])), name="dashboard")
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


class Closing:
    """Closes the dashboard's connections on the event loop that opened them."""

    def __init__(self, app: Any, *dashboards: Dashboard) -> None:
        self._app = app
        self._dashboards = dashboards

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/--close":
            for each in self._dashboards:
                await each.close()
                await each._app.close()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


@contextmanager
def dashboard(url: str, **options: Any) -> Iterator[str]:
    """The address of a dashboard of this database."""
    with serving(Dashboard(Holdfast(url), settings(**options))) as address:
        yield address


@contextmanager
def serving(made: Dashboard, around: Any = None) -> Iterator[str]:
    """The address of this dashboard, alone or inside another application."""
    with served(Closing(around if around is not None else made, made)) as address:
        try:
            yield address
        finally:
            Visitor(address).ask("/--close")
