"""What every request passes: the listed hosts, the headers of every answer, the session, and the checks of a write."""

from __future__ import annotations

import hmac
import inspect
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access import Session, Sessions
from .answers import refused
from .settings import LOCAL_NAMES, Settings, named

CSRF = "x-holdfast-csrf"
MOUNTED = "holdfast_mounted"
"""In the scope: where the dashboard is mounted. Its own routes change `root_path`."""
READS = ("GET", "HEAD")
POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{what}-src 'self'" for what in ("script", "style", "connect", "img")),
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_RAW = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Doorway:
    """Around everything: answers listed hosts only, and puts the headers on every answer.

    A page of another site can name this server as its own host (DNS rebinding). It then sends that name.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_RAW]
            await send(message)

        scope[MOUNTED] = scope.get("root_path", "")
        host = Request(scope).headers.get("host", "")
        if named(host) in self._settings.hosts:
            await self._app(scope, receive, with_headers)
            return
        answer = refused(
            403,
            f"The request's header Host is {host!r}, which is not listed. If people reach the dashboard by this name, "
            f"start it with --allow-host {named(host)}, or hf.dashboard(allowed_hosts=[…])",
        )
        await answer(scope, receive, with_headers)


class Gate:
    """Around what shows data or changes it: who asks, and does a write come from our own page?"""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions) -> None:
        self._app = app
        self._settings = settings
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        session = await identify(request, self._settings, self._sessions)
        if session is None:
            await refused(401, self._who())(scope, receive, send)
            return
        if request.method not in READS and (problem := self._problem(request, session)) is not None:
            await problem(scope, receive, send)
            return
        scope["holdfast_session"] = session
        await self._app(scope, receive, send)

    def _who(self) -> str:
        return "Log in first" if self._settings.token is not None else "You may not use this dashboard"

    def _problem(self, request: Request, session: Session) -> Any:
        if (answer := foreign(request, self._settings)) is not None:
            return answer
        given = request.headers.get(CSRF, "")
        if not session.id or not hmac.compare_digest(given.encode(), self._sessions.csrf(session).encode()):
            return refused(403, f"The header {CSRF} is missing, or of another session; load the page again")
        if self._settings.read_only:
            return refused(403, "This dashboard is read-only (--read-only)")
        return None


def foreign(request: Request, settings: Settings) -> Any:
    """Return the answer to a write that does not come from our own page; None if it does."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return refused(415, f"Expected the header Content-Type: application/json, got {kind!r}")
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if origin is None:
        return refused(403, "The header Origin is missing; expected that of the dashboard's own page")
    place = urlsplit(origin).netloc.lower()
    # A proxy that does not pass the host on: the name that people use is listed, and no port was added to it, or the
    # proxy says so. A page of another site cannot: its browser asks first whether it may send such a header.
    listed = named(place) in settings.hosts and named(place) not in LOCAL_NAMES
    told = (named(place), forwarded(request, "host").lower())
    if place and (place == host.lower() or (listed and place in told)):
        return None
    return refused(
        403,
        f"The header Origin is {origin!r}, but Host is {host!r}: the request comes from another page. Behind a proxy, "
        f"let it pass the host with its port (nginx: proxy_set_header Host $http_host), or start with "
        f"--allow-host {named(place) or 'NAME'}",
    )


def forwarded(request: Request, what: str) -> str:
    """What the proxy nearest to the browser says of its request: `proto`, `host` or `prefix`."""
    return request.headers.get(f"x-forwarded-{what}", "").partition(",")[0].strip()


async def identify(request: Request, settings: Settings, sessions: Sessions) -> Session | None:
    """Return who asks. A session without an id can read, but not write: it has no cookie yet."""
    held = sessions.unseal(request.cookies.get(sessions.cookie, ""))
    if settings.token is not None:
        return held or _bearer(request, sessions)
    if settings.auth is None:
        return held or Session("", settings.user, 0)
    answer = settings.auth(request)
    user = await answer if inspect.isawaitable(answer) else answer
    if not user:
        return None
    return held if held is not None and held.user == user else Session("", str(user), 0)


def _bearer(request: Request, sessions: Sessions) -> Session | None:
    """For programs that read, such as a scraper of metrics."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if request.method in READS and scheme.lower() == "bearer" and sessions.knows(token):
        return Session("", "bearer", 0)
    return None
