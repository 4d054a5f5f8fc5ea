"""The dashboard where people put it: inside other applications, and behind a proxy."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from tests.dashboard.proxying import proxied
from tests.dashboard.serving import TOKEN, Visitor, dashboard, serving
from tests.support.browser import Chromium
from tests.support.pages import ROOT
from tests.support.pooler import direct
from tests.support.waiting import wait_until
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.dashboard.application import Dashboard
from holdfast.embedded.cluster import free_port

PAUSE = "/api/queues/mail/pause"
NGINX = {"Host": "$http_host", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/holdfast"}
"""As the page recommends it."""


def parts(cookie: str) -> set[str]:
    return {part.strip().lower() for part in cookie.split(";")}


# In other applications


class ByCookie(AuthenticationBackend):
    """The application's own login."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        name = conn.cookies.get("shop")
        return (AuthCredentials(["staff"] if name != "eve" else []), SimpleUser(name)) if name else None


def staff(request: Request) -> str | None:
    return request.user.username if "staff" in request.auth.scopes else None


def shop(made: Dashboard, prefix: str) -> Any:
    """An application with pages of its own."""

    async def home(request: Request) -> PlainTextResponse:
        return PlainTextResponse("the shop")

    login = Middleware(AuthenticationMiddleware, backend=ByCookie())
    return Starlette(routes=[Route("/", home), Mount(prefix, made)], middleware=[login])


@pytest.mark.parametrize("prefix", ["/holdfast", "/ops/api"])
def test_mounted_in_starlette_its_users_are_those_of_the_application(inbox: Inbox, prefix: str) -> None:
    made = Holdfast(inbox.url).dashboard(auth=staff)
    with serving(made, shop(made, prefix)) as address:
        home = Visitor(address)
        assert home.ask("/").body == b"the shop"
        assert "content-security-policy" not in home.ask("/").headers, "its rules are for its own pages"
        for who, status in (("", 401), ("shop=eve", 401), ("shop=ann", 200)):
            visitor = Visitor(address + prefix, {"cookie": who})
            assert visitor.ask("/api/queues").status == visitor.ask("/api/session").status == status, who
        assert visitor.ask("/static/app.js").headers["content-type"].startswith("text/javascript")
        came = visitor.ask("/api/session")
        assert f"path={prefix}" in parts(came.headers["set-cookie"])
        own = came.headers["set-cookie"].partition(";")[0]
        headers = {**visitor.own, "cookie": f"shop=ann; {own}", "x-holdfast-csrf": came.json["csrf"]}
        page = Visitor(address + prefix, headers)
        assert page.ask(PAUSE, {}).status == 200
        gone = page.ask("/api/logout", {}).headers["set-cookie"]
        assert f"path={prefix}" in parts(gone), "or the browser would keep it"
    assert inbox.one("select actor from holdfast.journal where what = 'queue.paused'") == "ann"


@contextmanager
def django(url: str) -> Iterator[str]:
    """The example's project, with the dashboard beside it, as uvicorn serves it."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "examples.django.asgi:application", "--port", str(port)]
    process = subprocess.Popen([*command, "--log-level", "warning"], cwd=ROOT, env=of_django(url))
    try:
        address = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert process.poll() is None, "the server ended"
            try:
                return Visitor(address).ask("/orders/").status == 200
            except OSError:
                return False

        wait_until(answers)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def of_django(url: str) -> dict[str, str]:
    found = urlsplit(direct(url))
    place = {"PGHOST": found.hostname, "PGPORT": found.port, "PGUSER": found.username, "PGPASSWORD": found.password}
    given = {name: str(value) for name, value in place.items() if value is not None}
    return {**os.environ, **given, "PGDATABASE": found.path.lstrip("/"), "HOLDFAST_DATABASE_URL": ""}


LOGINS = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "examples.django.settings"
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
call_command("migrate", run_syncdb=True, verbosity=0)
for name, staff, active in (("ann", True, True), ("eve", False, True), ("old", True, False)):
    user = User.objects.create_user(name, is_staff=staff, is_active=True)
    client = Client()
    client.force_login(user)
    User.objects.filter(pk=user.pk).update(is_active=active)
    print(name, client.cookies["sessionid"].value)
"""


def logins(url: str) -> dict[str, str]:
    """The sessions of people who are logged in to the project."""
    done = subprocess.run(
        [sys.executable, "-c", LOGINS], cwd=ROOT, env=of_django(url), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def of_orm(inbox: Inbox) -> set[int]:
    """Django's connections; Holdfast's have names."""
    sql = "select pid from pg_stat_activity where datname = current_database() and application_name = ''"
    return {row["pid"] for row in inbox.rows(f"{sql} and pid <> pg_backend_pid() and backend_type = 'client backend'")}


def test_beside_django_its_staff_may_use_it(inbox: Inbox) -> None:
    sessions = {name: f"sessionid={key}" for name, key in logins(inbox.url).items()}
    with django(inbox.url) as address:
        assert Visitor(address, {"cookie": sessions["ann"]}).ask("/orders/").body == b"0 orders, ann, /orders/"
        before = of_orm(inbox)
        assert Visitor(address).ask("/holdfast").status == 200, "sent on to the address with a slash"
        assert b"static/app.js" in Visitor(address).ask("/holdfast/").body
        assert Visitor(address).ask("/holdfast/static/app.js").status == 200
        for cookie in ("", "sessionid=forged", sessions["eve"], sessions["old"]):
            assert Visitor(address, {"cookie": cookie}).ask("/holdfast/api/queues").status == 401, cookie
        visitor = Visitor(f"{address}/holdfast", {"cookie": sessions["ann"]})
        came = visitor.ask("/api/session")
        assert came.json["user"] == "ann" and "path=/holdfast" in parts(came.headers["set-cookie"])
        cookie = f"{sessions['ann']}; {came.headers['set-cookie'].partition(';')[0]}"
        page = Visitor(visitor.address, {**visitor.own, "cookie": cookie, "x-holdfast-csrf": came.json["csrf"]})
        assert page.ask(PAUSE, {}).status == 200
        assert of_orm(inbox) <= before, "nothing else would close those that it opens in Django"
    assert inbox.one("select actor from holdfast.journal where what = 'queue.paused'") == "ann"


# Behind a proxy


@pytest.fixture
def upstream(inbox: Inbox) -> Iterator[str]:
    """`holdfast dashboard --allow-host ops.example`, with a token."""
    with dashboard(inbox.url, token=TOKEN, allowed_hosts=["ops.example"]) as address:
        yield address


@pytest.mark.parametrize(
    ("public", "headers", "path"),
    [
        ("ops.example", NGINX, "/holdfast"),
        ("ops.example:8443", NGINX, "/holdfast"),
        ("ops.example:8443", {**NGINX, "Host": "$host", "X-Forwarded-Host": "$http_host"}, "/holdfast"),
        ("ops.example:8443", {"X-Forwarded-Host": "$http_host, inner:80", "X-Forwarded-Proto": "HTTPS, http"}, "/"),
        ("ops.example", {"X-Forwarded-Proto": "https"}, "/"),
        ("ops.example", {**NGINX, "X-Forwarded-Prefix": "/x; domain=example"}, "/"),
    ],
    ids=["as recommended", "on a port", "host without its port", "through two", "host not passed", "no path"],
)
def test_login_and_writes_behind_a_proxy(
    inbox: Inbox, upstream: str, public: str, headers: dict[str, str], path: str
) -> None:
    with proxied(upstream, "/holdfast", headers) as address:
        own = {"host": public, "origin": f"https://{public}", "content-type": "application/json"}
        visitor = Visitor(address, own)
        assert b"static/app.js" in visitor.ask("/").body
        assert visitor.ask("/static/pages/queues.js").status == 200
        assert visitor.ask("/api/session").json == {"login": True}
        for origin in ("https://evil.example", "https://ops.example:1", "null", "https://localhost"):
            assert visitor.ask("/api/login", {"token": TOKEN}, origin=origin).status == 403, origin
        came = visitor.ask("/api/login", {"token": TOKEN, "name": "ann"})
        assert came.status == 200, came.body
        cookie = came.headers["set-cookie"]
        assert {"secure", "httponly", "samesite=strict", f"path={path}"} <= parts(cookie)
        assert not any(part.startswith("domain") for part in parts(cookie))
        visitor.headers["cookie"] = cookie.partition(";")[0]
        visitor.headers["x-holdfast-csrf"] = visitor.ask("/api/session").json["csrf"]
        assert visitor.ask(PAUSE, {}, origin="https://evil.example").status == 403
        assert visitor.ask(PAUSE, {}).status == 200
        assert visitor.ask("/api/queues", host="evil.example").status == (403 if "Host" in headers else 200)
    assert inbox.one("select actor from holdfast.journal where what = 'queue.paused'") == "ann"


def test_what_a_proxy_says_of_the_host_lets_no_other_page_in(upstream: str) -> None:
    """The header is believed about the port, not about who may ask."""
    with proxied(upstream, "/holdfast", {"X-Forwarded-Host": "$http_host"}) as address:
        other = {"host": "evil.example", "origin": "https://evil.example", "content-type": "application/json"}
        assert Visitor(address, other).ask("/api/login", {"token": TOKEN}).status == 403


def test_in_a_browser_over_https_under_a_prefix(chromium: Chromium, inbox: Inbox, upstream: str) -> None:
    inbox.rows("insert into holdfast.queues (name) values ('mail') on conflict do nothing")

    async def story(page: Page) -> None:
        await page.get_by_label("Token").fill(TOKEN)
        await page.get_by_label("Your name").fill("ann")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_text("● live")).to_be_visible()
        (cookie,) = await page.context.cookies()
        assert (cookie["secure"], cookie["path"]) == (True, "/holdfast"), cookie
        await page.goto(f"{address}/#/queues")
        await page.get_by_role("button", name="Pause").first.click()
        await expect(page.get_by_role("button", name="Resume").first).to_be_visible()
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_role("button", name="Log in")).to_be_visible()
        assert not await page.context.cookies()

    with ExitStack() as stack:
        address = stack.enter_context(proxied(upstream, "/holdfast", NGINX, tls=True))
        chromium.visit(f"{address}/", story, allowed=("status of 401",), ignore_https_errors=True)
    assert inbox.one("select actor from holdfast.journal where what = 'queue.paused'") == "ann"
