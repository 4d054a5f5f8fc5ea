"""The dashboard as an ASGI application: the page, its files, what it asks and does."""

from __future__ import annotations

import asyncio
import mimetypes
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Router
from starlette.routing import Route as Path_

from ..app import Holdfast
from ..metrics.families import installation_page
from ..metrics.text import CONTENT_TYPE
from ..simulations import STATIC as SIMULATIONS
from ..version import __version__
from ..views import numbers
from .access import LASTS, MOST_NAME, Session, Sessions
from .answers import answer, answering, body, in_words, refused
from .controls import Controls
from .desk import Desk, Route
from .gate import MOUNTED, Doorway, Gate, foreign, forwarded, identify
from .live import Live
from .pages import dead, demo, doctor, incidents, jobs, keys, outbox, overview, queues, schedules, workers, workflows
from .reading import Reading
from .settings import Settings

FILES = Path(__file__).with_name("static")
WRONG = 0.5
"""Seconds until a wrong token is refused."""
PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")
"""A prefix that can be the path of a cookie."""
STREAM = {"cache-control": "no-store", "x-accel-buffering": "no"}
PAGES = (overview, queues, jobs, dead, workers, schedules, keys, outbox, workflows, incidents, doctor)


class Dashboard:
    """An ASGI application; `hf.dashboard(…)` makes it.

    ```python
    app = hf.dashboard(token=TOKEN, allowed_hosts=["ops.example"])  # mount it: app.mount("/holdfast", …)
    ```
    """

    def __init__(self, app: Holdfast, settings: Settings, controls: Controls | None = None) -> None:
        self._app = app
        self._settings = settings
        self._sessions = Sessions(settings.token)
        self._reading = Reading(app._database)
        self._examiner = doctor.Examiner(app)
        desk = Desk(app, self._reading, settings, self._examiner)
        self._schema = app._database.schema
        self.live = Live(partial(overview.look, desk), self._schema)
        self._controls = controls
        routes_of_pages = [each for page in PAGES for each in page.ROUTES]
        if controls is not None:
            routes_of_pages += demo.routes(controls)
        pages = [self._route(desk, each) for each in routes_of_pages]
        inside = Router([Path_("/live", self._live), Path_("/logout", self._logout, methods=["POST"]), *pages])
        routes = [
            Path_("/", _index),
            Path_("/api/session", self._session),
            Path_("/api/login", self._login, methods=["POST"]),
            Mount("/api", Gate(inside, settings, self._sessions)),
            Path_("/metrics", Gate(Router([Path_("/metrics", self._metrics)]), settings, self._sessions)),
            Path_("/static/{path:path}", partial(_file, FILES)),
            Path_("/simulations/{path:path}", partial(_file, SIMULATIONS)),
        ]
        self._asgi = Doorway(Starlette(routes=routes), settings)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        await self._asgi(scope, receive, send)

    async def close(self) -> None:
        """Close its connections."""
        await self.live.close()
        await self._examiner.close()
        await self._reading.close()

    def _route(self, desk: Desk, route: Route) -> Path_:
        endpoint: Callable[[Request], Awaitable[Any]] = partial(route.asked, desk)
        return Path_(route.path, answering(endpoint, self._schema), methods=[route.method])

    async def _live(self, request: Request) -> Response:
        return StreamingResponse(self.live.stream(), media_type="text/event-stream", headers=STREAM)

    async def _metrics(self, request: Request) -> Response:
        """The gauges of the installation, for Prometheus. With a token: `Authorization: Bearer TOKEN`."""
        try:
            page = installation_page(await numbers.gauges(self._reading))
        except Exception as error:
            return refused(*in_words(error, self._schema))
        return Response(page, media_type=CONTENT_TYPE)

    async def _session(self, request: Request) -> Response:
        """Say who is asking, and what the page needs to write. Begins a session if nobody has to log in."""
        session = await identify(request, self._settings, self._sessions)
        if session is None:
            if self._settings.token is not None:
                return answer({"login": True})
            return refused(401, "You may not use this dashboard")
        fresh = not session.id and self._settings.token is None
        if fresh:
            session = self._sessions.begin(session.user)
        response = answer(
            {
                "login": False,
                "user": session.user,
                "csrf": self._sessions.csrf(session),
                "read_only": self._settings.read_only,
                "logout": self._settings.token is not None,
                "version": __version__,
                "schema": self._schema,
                "demo": self._controls is not None,
            }
        )
        if fresh:
            self._give(request, response, session)
        return response

    async def _login(self, request: Request) -> Response:
        if (wrong := foreign(request, self._settings)) is not None:
            return wrong  # type: ignore[no-any-return]
        given = await body(request)
        token, name = str(given.get("token", "")), str(given.get("name") or "").strip()
        if not self._sessions.knows(token):
            await asyncio.sleep(WRONG)
            return refused(403, "This is not the token. It is in HOLDFAST_DASHBOARD_TOKEN, where the dashboard runs")
        if len(name) > MOST_NAME or not name.isprintable():
            return refused(400, f"Expected a name of at most {MOST_NAME} printable characters")
        response = answer({})
        self._give(request, response, self._sessions.begin(name or "dashboard"))
        return response

    async def _logout(self, request: Request) -> Response:
        response = answer({})
        response.delete_cookie(self._sessions.cookie, path=_place(request), httponly=True, samesite="strict")
        return response

    def _give(self, request: Request, response: Response, session: Session) -> None:
        secure = self._settings.secure or "https" in (request.url.scheme, forwarded(request, "proto").lower())
        response.set_cookie(
            self._sessions.cookie, self._sessions.seal(session), max_age=LASTS, path=_place(request), secure=secure,
            httponly=True, samesite="strict",
        )  # fmt: skip


def _place(request: Request) -> str:
    """The path that the cookie is for: where the dashboard is mounted, after what a proxy has removed if it says so.
    Other applications on this host do not get the cookie then."""
    mounted: str = request.scope[MOUNTED]
    removed = forwarded(request, "prefix").rstrip("/")
    if not PREFIX.fullmatch(removed) or mounted.startswith(removed):
        removed = ""
    return removed + mounted or "/"


async def _index(request: Request) -> Response:
    """The page. Its addresses are relative, so that it works under any prefix, if its own ends with a slash."""
    if not request.url.path.endswith("/"):
        return RedirectResponse(f"{request.url.path.rpartition('/')[2]}/")
    return _sent(FILES / "index.html")


async def _file(folder: Path, request: Request) -> Response:
    wanted = (folder / request.path_params["path"]).resolve()
    if not wanted.is_relative_to(folder) or not wanted.is_file():
        return refused(404, "There is no such file")
    return _sent(wanted)


def _sent(path: Path) -> Response:
    kind = "text/javascript" if path.suffix in (".js", ".mjs") else mimetypes.guess_type(path.name)[0]
    return Response(path.read_bytes(), headers={"cache-control": "no-cache"}, media_type=kind or "text/plain")
