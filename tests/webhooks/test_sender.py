"""Hostile servers and names: each request ends in time, goes nowhere that it must not, and costs little memory."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from email.utils import formatdate
from typing import Any

import pytest
from tests.webhooks import servers
from tests.webhooks.servers import CERTIFICATE, Behaviour, answering, serving

from holdfast.webhooks import sender as module
from holdfast.webhooks.addresses import Policy
from holdfast.webhooks.limits import Busy
from holdfast.webhooks.names import LOOKUPS
from holdfast.webhooks.sender import Answer, Sender

OPEN = Policy(allow_private=True, allow_http=True, ports=None)
GUARDED = Policy(allow_http=True, ports=None)
DEADLINE = 1.5
"""Of requests that must not be answered in time; others may take as long as a busy machine needs."""
ENOUGH = 20.0


async def post(url: str, policy: Policy = OPEN, deadline: float = ENOUGH, tls: ssl.SSLContext | None = None) -> Answer:
    async with Sender(policy, deadline, tls) as sender:
        return await sender.post(url, {"webhook-id": "e1"}, b"{}")


class Names:
    """What names stand for; each look-up takes the next answer, and the last one stays."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Sequence[str]]] = {}
        self.asked: list[str] = []

    def look_up(self, host: str, port: int, family: int) -> list[Any]:
        self.asked.append(host)
        if host not in self.answers:
            return socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        answers = self.answers[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in addresses
        ]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    names = Names()
    monkeypatch.setattr(module, "_look_up", names.look_up)
    yield names


async def test_a_request() -> None:
    async with serving(answering(200, b"taken \0 \xff" + b"x" * 5000)) as server:
        answer = await post(server.url)
    assert (answer.status, answer.address, answer.error) == (200, "127.0.0.1", None)
    assert answer.text is not None and answer.text.startswith("taken \\0 \ufffdx") and len(answer.text) <= 1030
    assert answer.details.keys() == {"status", "ms", "address", "response"}
    (request,) = server.requests
    assert request.line == "POST /hook HTTP/1.1" and request.body == b"{}"
    assert request.headers["webhook-id"] == "e1" and request.headers["accept-encoding"] == "identity"
    assert request.headers["user-agent"].startswith("Holdfast/")


async def test_connections_are_kept_and_one_that_was_closed_meanwhile_is_replaced() -> None:
    async with serving() as server, Sender(OPEN, ENOUGH) as sender:
        for _ in range(3):
            assert (await sender.post(server.url, {}, b"{}")).status == 204
        assert server.connections == 1

    answered = 0

    async def once(request: servers.Request, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        answered += 1
        if answered == 2:
            writer.close()  # as a server does whose patience with an idle connection is over
        else:
            await answering(204)(request, writer)

    async with serving(once) as server, Sender(OPEN, ENOUGH) as sender:
        assert (await sender.post(server.url, {}, b"{}")).status == 204
        assert (await sender.post(server.url, {}, b"{}")).status == 204
        assert server.connections == 2


LITERALS = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "0",
    "0.0.0.0", "127.0.0.1.", "localhost", "localhost.", "LOCALHOST", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
    "[::127.0.0.1]", "①②⑦.⓪.⓪.①", "%31%32%37.0.0.1", "127。0。0。1",
]  # fmt: skip


@pytest.mark.parametrize("host", LITERALS)
async def test_every_spelling_of_loopback_is_refused(host: str) -> None:
    async with serving() as server:
        answer = await post(f"http://{host}:{server.port}/", GUARDED)
    assert answer.status is None and answer.error
    assert server.connections == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254", "10.0.0.1"])
async def test_names_of_private_addresses_are_refused(names: Names, address: str) -> None:
    names.answers["inside.test"] = [[address]]
    async with serving() as server:
        answer = await post(f"http://inside.test:{server.port}/", GUARDED)
    assert answer.error is not None and "is not a public address" in answer.error
    assert server.connections == 0


async def test_a_name_with_one_private_address_is_refused_as_a_whole(names: Names) -> None:
    names.answers["both.test"] = [["8.8.8.8", "127.0.0.1"]]
    answer = await post("http://both.test:9/", GUARDED)
    assert answer.error is not None and "127.0.0.1 is not a public address" in answer.error


async def test_rebinding(names: Names) -> None:
    """127.0.0.2 stands for a public address: the name moves from there to 127.0.0.1 between two requests."""
    names.answers["moves.test"] = [["127.0.0.2"], ["127.0.0.1"]]
    policy = Policy(allow_private=["127.0.0.2/32"], allow_http=True, ports=None)
    bye = answering(204, headers="connection: close\r\n")
    async with serving(bye, "127.0.0.2") as outside, Sender(policy, ENOUGH) as sender:
        url = f"http://moves.test:{outside.port}/"
        first = await sender.post(url, {}, b"{}")
        assert (first.status, first.address) == (204, "127.0.0.2")
        second = await sender.post(url, {}, b"{}")
    assert second.status is None
    assert second.error is not None and "127.0.0.1 is not a public address" in second.error
    assert len(outside.requests) == 1


async def test_the_connection_itself_is_guarded_whatever_the_resolver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(self: Any, host: str, port: int = 0, family: Any = 0) -> list[dict[str, Any]]:
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 6, "flags": 0}]

    monkeypatch.setattr(module._Resolver, "resolve", resolve)
    async with serving() as server:
        answer = await post(f"http://tricky.test:{server.port}/", GUARDED)
    assert answer.error is not None and "127.0.0.1 is not a public address" in answer.error
    assert (server.connections, answer.address) == (0, "127.0.0.1")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    async with serving() as inside:
        moved = answering(status, b"over there", f"location: {inside.url}\r\n")
        async with serving(moved) as server:
            answer = await post(server.url)
    assert (answer.status, answer.text) == (status, "over there")
    assert inside.connections == 0


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (servers.silent, "no whole answer within 1.5 s"),
        (servers.dripping, "no whole answer within 1.5 s"),
        (servers.dripping_headers, "no whole answer within 1.5 s"),
        (servers.endless_headers, "Got more than|400|too"),
        (servers.long_header, "Got more than|400|too"),
        (servers.nonsense, "400|Bad|Expected|disconnected|invalid"),
        (servers.closing, "closed the connection"),
    ],
)
async def test_answers_that_are_no_answers(behave: Behaviour, words: str) -> None:
    began = time.monotonic()
    async with serving(behave) as server:
        answer = await post(server.url, deadline=DEADLINE if str(DEADLINE) in words else ENOUGH)
    assert answer.status is None and answer.error is not None
    assert re.search(words, answer.error), answer.error
    assert answer.address == "127.0.0.1"
    assert time.monotonic() - began < ENOUGH / 2


@pytest.mark.parametrize("behave", [servers.endless, servers.bomb])
async def test_huge_answers_are_cut(behave: Behaviour) -> None:
    """The server has taken the event. What else it says is not read."""
    async with serving(behave) as server:
        await post(server.url)  # imports, and buffers that stay
        tracemalloc.start()
        try:
            answer = await post(server.url)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert answer.status == 200 and answer.ms < ENOUGH * 500
    assert answer.text is not None and len(answer.text) <= 1024
    assert peak < 30 * 1024 * 1024 if behave is servers.bomb else peak < 2 * 1024 * 1024  # the bomb is made here, too


async def test_nobody_listens_and_unknown_names() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        refused = await post(f"http://127.0.0.1:{taken.getsockname()[1]}/")
        assert refused.error is not None and refused.status is None
    unknown = await post("http://nowhere.invalid/")
    assert unknown.error is not None and "could not be resolved" in unknown.error


async def test_a_slow_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def look_up(host: str, port: int, family: int) -> list[Any]:
        if host == "slow.test":
            over.wait(ENOUGH)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(module, "_look_up", look_up)
    async with serving() as server, Sender(OPEN, 4.0) as sender:
        slow = [asyncio.create_task(sender.post("http://slow.test/", {}, b"{}")) for _ in range(8)]
        fine = await sender.post(f"http://fine.test:{server.port}/", {}, b"{}")
        answers = await asyncio.gather(*slow)
        over.set()
    assert fine.status == 204
    assert {each.error for each in answers} == {"no whole answer within 4 s"}


def slow_names(over: threading.Event) -> Callable[[str, int, int], list[Any]]:
    """Names that begin with "slow" are found when this is over, all others at once."""

    def look_up(host: str, port: int, family: int) -> list[Any]:
        if host.startswith("slow"):
            over.wait(ENOUGH)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    return look_up


async def test_names_that_nobody_answers_for_hold_up_no_name_that_was_found_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()
    monkeypatch.setattr(module, "_look_up", slow_names(over))
    bye = answering(204, headers="connection: close\r\n")
    async with serving(bye) as server, Sender(OPEN, ENOUGH) as sender:
        fine = f"http://fine.test:{server.port}/"
        assert (await sender.post(fine, {}, b"{}")).status == 204
        urls = [f"http://slow{n}.test:{server.port}/" for n in range(3 * LOOKUPS)]
        slow = [asyncio.create_task(sender.post(url, {}, b"{}", ENOUGH)) for url in urls]
        await asyncio.sleep(0.1)
        assert (await sender.post(fine, {}, b"{}")).status == 204
        with pytest.raises(Busy, match="too many names are looked up"):
            await sender.post(f"http://new.test:{server.port}/", {}, b"{}", 0.5)
        assert not any(task.done() for task in slow)
        over.set()
        assert {(await task).status for task in slow} == {204}


async def test_waiting_for_a_look_up_is_not_the_servers_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(module, "_look_up", slow_names(over))
    async with serving() as server, Sender(OPEN, 1.5) as sender:
        slow = [asyncio.create_task(sender.post(f"http://slow{n}.test/", {}, b"{}")) for n in range(LOOKUPS)]
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(sender.post(f"http://new.test:{server.port}/", {}, b"{}", ENOUGH))
        answers = await asyncio.gather(*slow)
        await asyncio.sleep(1.5)
        over.set()
        answer = await waiting
    assert {each.error for each in answers} == {"no whole answer within 1.5 s"}
    assert answer.status == 204 and answer.ms < 1500


async def test_one_look_up_of_a_name_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    asked: list[str] = []
    found = slow_names(over)

    def look_up(host: str, port: int, family: int) -> list[Any]:
        asked.append(host)
        return found(host, port, family)

    monkeypatch.setattr(module, "_look_up", look_up)
    async with serving() as server, Sender(OPEN, ENOUGH) as sender:
        slow = [
            asyncio.create_task(sender.post(f"http://slow.test:{server.port}/", {}, b"{}")) for _ in range(2 * LOOKUPS)
        ]
        await asyncio.sleep(0.1)
        slow[0].cancel()
        assert (await sender.post(f"http://new.test:{server.port}/", {}, b"{}")).status == 204
        over.set()
        assert {(await task).status for task in slow[1:]} == {204}
    assert asked == ["slow.test", "new.test"]


async def test_waiting_for_other_requests_is_not_the_servers_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 2)
    async with serving(servers.silent) as silent, serving() as server, Sender(OPEN, 1.5) as sender:
        slow = [asyncio.create_task(sender.post(silent.url, {}, b"{}")) for _ in range(2)]
        while len(silent.requests) < 2:
            await asyncio.sleep(0.01)
        with pytest.raises(Busy, match="too many requests are under way"):
            await sender.post(server.url, {}, b"{}", 0.2)
        answer = await sender.post(server.url, {}, b"{}", ENOUGH)
        assert {(await task).status for task in slow} == {None}
    assert answer.status == 204 and answer.ms < 1500


async def test_tls(names: Names) -> None:
    names.answers["hooks.test"] = names.answers["other.test"] = [["127.0.0.1"]]
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    async with serving(tls=True) as server:
        right = await post(f"https://hooks.test:{server.port}/", tls=trusting)
        wrong = await post(f"https://other.test:{server.port}/", tls=trusting)
        untrusted = await post(f"https://hooks.test:{server.port}/")
        plain = await post(f"http://hooks.test:{server.port}/")
    assert right.status == 204, right.error
    assert wrong.error is not None and "TLS" in wrong.error and "ostname mismatch" in wrong.error
    assert untrusted.error is not None and "TLS" in untrusted.error and "self" in untrusted.error
    assert plain.status is None
    async with serving() as unsafe:
        no_tls = await post(f"https://hooks.test:{unsafe.port}/", tls=trusting, deadline=DEADLINE)
    assert no_tls.status is None and no_tls.error
    assert len(server.requests) == 1 and unsafe.requests == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as proxy, serving() as server:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await post(server.url)).status == 204
    assert (proxy.connections, server.connections) == (0, 1)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("120", 120.0), ("0", 0.0), ("-1", None), ("soon", None), ("9" * 400, 999999999.0), ("1.5", None)],
)
async def test_retry_after(value: str, seconds: float | None) -> None:
    async with serving(answering(503, headers=f"retry-after: {value}\r\n")) as server:
        assert (await post(server.url)).retry_after == seconds


async def test_retry_after_as_a_date() -> None:
    told = int(time.time()) + 90
    async with serving(answering(429, headers=f"retry-after: {formatdate(told, usegmt=True)}\r\n")) as server:
        before = time.time()
        answer = await post(server.url)
        after = time.time()
    assert answer.retry_after is not None and told - after <= answer.retry_after <= told - before


async def test_a_sender_that_is_closed_in_the_middle() -> None:
    async with serving(servers.silent) as server:
        sender = Sender(OPEN, ENOUGH)
        task = asyncio.create_task(sender.post(server.url, {}, b"{}"))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await sender.close()
