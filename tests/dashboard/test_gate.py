"""Who gets in, and what a request must bring: tried over HTTP, without a browser, as an attacker would."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.dashboard.serving import TOKEN, Visitor, dashboard, serving
from tests.support.workers import Inbox

from holdfast import ConfigurationError, Holdfast
from holdfast.dashboard.access import Sessions
from holdfast.dashboard.application import Dashboard
from holdfast.dashboard.settings import check_address, named, settings

PAUSE = "/api/queues/mail/pause"


@pytest.fixture
def visitor(inbox: Inbox) -> Iterator[Visitor]:
    with dashboard(inbox.url, user="ann@web-1") as address:
        yield Visitor(address)


def paused(inbox: Inbox) -> bool:
    return bool(inbox.rows("select 1 from holdfast.queues where paused_at is not null"))


def test_a_write_needs_all_that_only_our_page_has(inbox: Inbox, visitor: Visitor) -> None:
    page = visitor.enter()
    assert visitor.ask("/api/queues").status == 200, "on loopback, everybody may read"
    own = page.headers
    for name, value, status in (
        ("x-holdfast-csrf", "", 403),
        ("x-holdfast-csrf", "0" * 43, 403),
        ("cookie", "", 403),
        ("cookie", own["cookie"][:-2] + "zz", 403),
        ("origin", "", 403),
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("origin", own["origin"].rpartition(":")[0] + ":1", 403),
        ("content-type", "text/plain", 415),
        ("content-type", "application/x-www-form-urlencoded", 415),
    ):
        headers = {**own, name: value} if value else {k: v for k, v in own.items() if k != name}
        assert Visitor(visitor.address, headers).ask(PAUSE, {}).status == status, (name, value)
    assert not paused(inbox)
    assert page.ask(PAUSE, {}).status == 200
    assert paused(inbox)
    assert inbox.one("select actor from holdfast.journal where what = 'queue.paused'") == "ann@web-1"


def test_another_sites_session_does_not_fit(inbox: Inbox, visitor: Visitor) -> None:
    """The secret of one session is of no use in another."""
    one, two = visitor.enter(), visitor.enter()
    mixed = Visitor(visitor.address, {**one.headers, "cookie": two.headers["cookie"]})
    assert mixed.ask(PAUSE, {}).status == 403
    assert not paused(inbox)


def test_only_listed_hosts_are_answered(visitor: Visitor, inbox: Inbox) -> None:
    answer = visitor.ask("/api/queues", host="evil.example")
    assert answer.status == 403
    assert "Host" in answer.json["problem"] and "--allow-host evil.example" in answer.json["problem"]
    assert visitor.ask("/", host="evil.example").status == 403
    assert visitor.ask("/api/queues", host="localhost:9").status == 200
    with dashboard(inbox.url, allowed_hosts=["ops.example"]) as address:
        behind = Visitor(address).enter()
        assert behind.ask("/api/queues", host="ops.example").status == 200
        # A proxy that does not pass the host on: the name that people use is listed.
        assert behind.ask(PAUSE, {}, origin="https://ops.example").status == 200
        assert behind.ask(PAUSE, {}, origin="https://ops.example:8443").status == 403


def test_every_answer_has_the_headers(visitor: Visitor) -> None:
    for path in ("/", "/static/app.js", "/api/queues", "/api/jobs/nothing", "/static/../application.py", "/nowhere"):
        headers = visitor.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "'unsafe" not in policy, path
        assert "require-trusted-types-for 'script'" in policy and "trusted-types 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert visitor.ask("/static/..%2fapplication.py").status == 404
    assert visitor.ask("/static/%2e%2e/application.py").status == 404


def test_a_token_lets_in(inbox: Inbox) -> None:
    with dashboard(inbox.url, token=TOKEN) as address:
        visitor = Visitor(address)
        assert visitor.ask("/").status == 200, "the page itself shows nothing"
        assert visitor.ask("/api/session").json == {"login": True}
        for path in ("/api/queues", "/api/live", "/api/jobs", "/api/doctor"):
            assert visitor.ask(path).status == 401, path
        assert visitor.ask(PAUSE, {}, **visitor.own).status == 401
        stranger = {**visitor.own, "origin": "http://evil.example"}
        assert visitor.ask("/api/login", {"token": TOKEN}, **stranger).status == 403
        assert visitor.ask("/api/login", {"token": TOKEN[:-1] + "x"}, **visitor.own).status == 403
        assert visitor.ask("/api/login", {"token": ""}, **visitor.own).status == 403
        came = visitor.ask("/api/login", {"token": TOKEN, "name": "ann"}, **visitor.own)
        cookie = came.headers["set-cookie"]
        assert came.status == 200
        assert {"httponly", "samesite=strict", "max-age=43200"} <= {part.strip().lower() for part in cookie.split(";")}
        assert "secure" not in cookie.lower()
        page = Visitor(address, {"cookie": cookie.partition(";")[0]}).enter()
        assert page.ask(PAUSE, {}).status == 200
        assert inbox.one("select actor from holdfast.journal where what = 'queue.paused'") == "ann"
        # Programs that read bring the token itself; they cannot write.
        bearer = {"authorization": f"Bearer {TOKEN}"}
        assert visitor.ask("/api/queues", **bearer).status == 200
        assert visitor.ask(PAUSE, {}, **bearer, **visitor.own).status == 401
        assert visitor.ask("/api/queues", authorization=f"Bearer {TOKEN}x").status == 401


def test_behind_https_the_cookie_is_secure(inbox: Inbox) -> None:
    with dashboard(inbox.url) as address:
        assert "secure" not in Visitor(address).ask("/api/session").headers["set-cookie"].lower()
        passed = Visitor(address).ask("/api/session", **{"x-forwarded-proto": "https"})
        assert "; secure" in passed.headers["set-cookie"].lower()
    with dashboard(inbox.url, secure=True) as address:
        assert "; secure" in Visitor(address).ask("/api/session").headers["set-cookie"].lower()


def test_an_application_says_who_it_is(inbox: Inbox) -> None:
    """Mounted under a prefix, with the application's own authentication."""

    async def who(request: object) -> str | None:
        return getattr(request, "headers", {}).get("x-user")

    made = Holdfast(inbox.url).dashboard(auth=who)
    with serving(made, Starlette(routes=[Mount("/ops/holdfast", made)])) as address:
        visitor = Visitor(address)
        assert visitor.ask("/ops/holdfast/api/session").status == 401
        assert visitor.ask("/ops/holdfast/api/queues").status == 401
        visitor.headers["x-user"] = "bob"
        assert visitor.ask("/ops/holdfast").status == 200, "sent on to the address with a slash"
        assert b"static/app.js" in visitor.ask("/ops/holdfast/").body
        assert visitor.ask("/ops/holdfast/static/app.js").status == 200
        found = visitor.ask("/ops/holdfast/api/session")
        cookie = found.headers["set-cookie"]
        assert "path=/ops/holdfast" in cookie.lower()
        own = {**visitor.own, "cookie": cookie.partition(";")[0], "x-holdfast-csrf": found.json["csrf"]}
        other = Visitor(address, {**own, "x-user": "eve"})
        assert other.ask(f"/ops/holdfast{PAUSE}", {}).status == 403, "bob's session is not eve's"
        assert visitor.ask(f"/ops/holdfast{PAUSE}", {}, **own).status == 200
    assert inbox.one("select actor from holdfast.journal where what = 'queue.paused'") == "bob"


def test_read_only_refuses_every_action(inbox: Inbox) -> None:
    with dashboard(inbox.url, read_only=True) as address:
        page = Visitor(address).enter()
        assert page.ask("/api/queues").status == 200
        posts = [route.path for route in _routes(inbox) if "POST" in (route.methods or ())]
        assert len(posts) > 12
        for path in posts:
            answer = page.ask(f"/api{re.sub('{[^}]*}', 'x', path)}", {})
            assert answer.status == 403 and "read-only" in answer.json["problem"], path
    assert not paused(inbox)


def _routes(inbox: Inbox) -> list:  # type: ignore[type-arg]
    made = Dashboard(Holdfast(inbox.url), settings())
    mount = next(each for each in made._asgi._app.routes if getattr(each, "path", "") == "/api")  # type: ignore[attr-defined]
    return list(mount.app._app.routes)


def test_it_does_not_start_open_to_others() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.7", "ops.example"):
        with pytest.raises(ConfigurationError, match="without authentication"):
            check_address(host, settings())
        check_address(host, settings(token=TOKEN))
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.9"):
        check_address(host, settings())
    with pytest.raises(ConfigurationError, match="at least 32"):
        settings(token="short")
    with pytest.raises(ConfigurationError, match="not both"):
        settings(token=TOKEN, auth=lambda request: "x")
    with pytest.raises(ConfigurationError, match="token= or auth="):
        Holdfast("postgresql://nowhere/x").dashboard()
    with pytest.raises(ConfigurationError, match="list of names"):
        settings(allowed_hosts="ops.example")


def test_hosts_are_compared_without_port_and_case() -> None:
    assert named("OPS.Example:8321") == "ops.example"
    assert named("[::1]:80") == "[::1]"
    assert named("::1") == "[::1]"
    assert named(urlsplit("http://a.example").netloc) == "a.example"


def test_a_session_ends_and_cannot_be_forged(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(TOKEN)
    sealed = sessions.seal(sessions.begin("ann"))
    found = sessions.unseal(sealed)
    assert found is not None and found.user == "ann"
    assert Sessions(TOKEN).unseal(sealed) == found, "a second process knows it"
    assert Sessions(TOKEN + "x").unseal(sealed) is None
    body, _, signature = sealed.partition(".")
    parts = ("", body, signature, f"{body}x", signature[::-1], "é")
    for forged in {f"{one}.{two}" for one in parts for two in parts} - {sealed}:
        assert sessions.unseal(forged) is None, forged
    monkeypatch.setattr("holdfast.dashboard.access.time.time", lambda: found.until + 1.0)
    assert sessions.unseal(sealed) is None
