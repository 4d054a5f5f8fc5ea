"""What becomes of a message: delivered, refused, postponed; and of its endpoint."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from standardwebhooks.webhooks import Webhook
from tests.support.inbox import Session
from tests.support.stopwatch import Stopwatch
from tests.webhooks import servers
from tests.webhooks.conftest import Outbox
from tests.webhooks.servers import Request, answering, serving

from holdfast.errors import ConfigurationError
from holdfast.model.event import Delivered, Message, Postponed, Refused, Verdict
from holdfast.model.ids import new_id
from holdfast.model.occurrences import Occurrences, Subscriber
from holdfast.transports import Transport
from holdfast.webhooks import Webhooks, limits, operating, sender, transport
from holdfast.webhooks.fanning import QUEUE
from holdfast.webhooks.limits import Breaker, Slots
from holdfast.webhooks.names import LOOKUPS
from holdfast.webhooks.schedule import ATTEMPTS, DELAYS, delay
from holdfast.webhooks.transport import EndpointTransport

LOCAL = {"allow_private": True, "allow_http": True, "ports": None}


def message(destination: UUID | None, attempt: int = 1, **more: Any) -> Message:
    id = new_id()
    given = {
        "delivery": id, "id": str(id), "event_id": str(id), "source": "shop", "type": "order.paid", "data": b'{"n":1}',
        "version": 2, "key": "k", "tenant": None, "at": datetime.now(UTC), "headers": {"trace": "abc"},
        "attempt": attempt, "destination": str(destination) if destination is not None else None, **more,
    }  # fmt: skip
    return Message(**given)


class Sending:
    """A transport, and the verdicts that it gave."""

    def __init__(self, transport: EndpointTransport) -> None:
        self.transport = transport
        self.settled: dict[UUID, Verdict] = {}

    async def __call__(self, *batch: Message) -> list[Verdict]:
        await self.transport.send(batch, self._settle)
        return [self.settled[each.delivery] for each in batch]

    def _settle(self, message: Message, verdict: Verdict) -> None:
        assert message.delivery not in self.settled, "settled twice"
        self.settled[message.delivery] = verdict


class OneAtATime:
    """A session that several batches share."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = asyncio.Lock()

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        async with self._lock:
            return await self._session.run(room, name, *arguments)


@asynccontextmanager
async def sending(outbox: Outbox, *subscribers: Subscriber, **options: Any) -> AsyncIterator[Sending]:
    webhooks = Webhooks(**{**LOCAL, "timeout": 20.0, **options})
    opened = webhooks.bound(OneAtATime(outbox.session), Occurrences(*subscribers))
    await opened.open()
    try:
        yield Sending(opened)
    finally:
        await opened.close()


class Told(Subscriber):
    def __init__(self) -> None:
        self.disabled: list[tuple[UUID, str]] = []

    def endpoint_disabled(self, endpoint: UUID, why: str) -> None:
        self.disabled.append((endpoint, why))


async def of(outbox: Outbox, endpoint: UUID) -> operating.EndpointState:
    return await operating.state(outbox.session, endpoint)


async def test_delivered_signed_and_readable(outbox: Outbox) -> None:
    async with serving(answering(200, b"thanks")) as server, sending(outbox) as send:
        endpoint = await outbox.add(server.url)
        first = message(endpoint.id)
        (verdict,) = await send(first)
    assert isinstance(verdict, Delivered)
    assert verdict.details == {
        "status": 200, "ms": verdict.details["ms"], "address": "127.0.0.1", "response": "thanks",
    }  # fmt: skip
    (request,) = server.requests
    assert request.headers["webhook-id"] == first.event_id
    assert request.headers["content-type"] == "application/cloudevents+json"
    Webhook(endpoint.secret).verify(request.body, request.headers)
    event = JSONFormat().read(CloudEvent, request.body)
    assert (event.get_id(), event.get_source(), event.get_type()) == (first.event_id, "shop", "order.paid")
    assert event.get_data() == {"n": 1}
    assert {name: event.get_extension(name) for name in ("partitionkey", "schemaversion", "trace")} == {
        "partitionkey": "k", "schemaversion": 2, "trace": "abc",
    }  # fmt: skip


async def test_rotation_signs_with_both_until_the_old_one_expires(outbox: Outbox) -> None:
    async with serving() as server, sending(outbox) as send:
        endpoint = await outbox.add(server.url)
        newer = await operating.rotate(outbox.session, endpoint.id, "24h", False)
        await send(message(endpoint.id))
        newest = await operating.rotate(outbox.session, endpoint.id, 0, True)
        await send(message(endpoint.id))
    both, last = server.requests
    for secret in (endpoint.secret, newer):
        Webhook(secret).verify(both.body, both.headers)
    Webhook(newest).verify(last.body, last.headers)
    assert (both.headers["webhook-signature"].count("v1,"), last.headers["webhook-signature"].count("v1,")) == (2, 1)


@pytest.mark.parametrize("status", [300, 302, 400, 401, 404, 500, 502])
async def test_failures_are_refused_by_the_schedule(outbox: Outbox, status: int) -> None:
    async with serving(answering(status, b"no", "location: /elsewhere\r\n")) as server, sending(outbox) as send:
        endpoint = await outbox.add(server.url)
        for attempt in (1, 3, 9):
            (verdict,) = await send(message(endpoint.id, attempt))
            assert isinstance(verdict, Refused) and verdict.reason.startswith(f"HTTP {status}") and not verdict.final
            assert verdict.delay is not None and DELAYS[attempt - 1] <= verdict.delay <= DELAYS[attempt - 1] * 1.2
            assert (verdict.details["status"], verdict.details["response"]) == (status, "no")
    assert len(server.requests) == 3


def test_the_schedule() -> None:
    assert [each / 60 for each in DELAYS] == [5 / 60, 5, 30, 120, 300, 600, 840, 1200, 1440]
    assert ATTEMPTS == 10
    assert 86400 <= delay(50) <= 86400 * 1.2
    assert 100 <= delay(1, retry_after=100) <= 120  # more time than planned,
    assert 300 <= delay(2, retry_after=1) <= 360  # not less,
    assert delay(1, retry_after=1e9) <= 86400 * 1.2  # and not forever


async def test_retry_after_holds_for_the_whole_endpoint(outbox: Outbox) -> None:
    async with serving(answering(429, headers="retry-after: 60\r\n")) as server, sending(outbox) as send:
        endpoint = await outbox.add(server.url)
        (first,) = await send(message(endpoint.id))
        (second,) = await send(message(endpoint.id))
    assert isinstance(first, Refused) and first.delay is not None and first.delay >= 60
    assert isinstance(second, Postponed) and 55 < second.delay <= 125
    assert len(server.requests) == 1


async def test_410_disables_the_endpoint_and_holds_its_deliveries(outbox: Outbox) -> None:
    told = Told()
    async with serving(answering(410)) as server, sending(outbox, told) as send:
        endpoint = await outbox.add(server.url)
        for _ in range(3):
            await outbox.publish()
        await outbox.fan_out()
        (verdict,) = await send(message(endpoint.id))
        assert isinstance(verdict, Refused) and verdict.reason == "HTTP 410"
        state = await of(outbox, endpoint.id)
        assert (state.status, state.disabled_reason, state.held) == ("disabled", "it answered 410 Gone", 3)
        (held,) = await send(message(endpoint.id))
        assert isinstance(held, Postponed)
    assert len(server.requests) == 1
    assert told.disabled == [(endpoint.id, "it answered 410 Gone")]
    data = await outbox.connection.fetchval(
        "select data from holdfast.events where type = 'holdfast.endpoint.disabled'"
    )
    assert json.loads(data) == {
        "endpoint": str(endpoint.id), "tenant": None, "url": server.url, "reason": "it answered 410 Gone",
        "failing_since": None,
    }  # fmt: skip


async def test_only_the_beginning_and_the_end_of_failing_are_written(outbox: Outbox) -> None:
    failing = True

    async def sometimes(request: Request, writer: asyncio.StreamWriter) -> None:
        await answering(500 if failing else 204)(request, writer)

    async def version() -> str:
        return str(await outbox.connection.fetchval("select xmin || ' ' || ctid::text from holdfast.endpoints"))

    async with serving(sometimes) as server, sending(outbox) as send:
        endpoint = await outbox.add(server.url)
        await send(message(endpoint.id))
        since = (await of(outbox, endpoint.id)).failing_since
        assert since is not None
        before = await version()
        await send(message(endpoint.id), message(endpoint.id))
        assert await version() == before
        failing = False
        await send(message(endpoint.id))
        assert (await of(outbox, endpoint.id)).failing_since is None
        before = await version()
        await send(message(endpoint.id))
        assert await version() == before


@pytest.mark.parametrize("days", [4, 6])
async def test_five_days_without_a_success(outbox: Outbox, days: int) -> None:
    told = Told()
    async with serving(answering(500)) as server, sending(outbox, told) as send:
        endpoint = await outbox.add(server.url)
        await outbox.connection.execute(
            "update holdfast.endpoints set failing_since = now() - $1::interval", timedelta(days=days)
        )
        await send(message(endpoint.id))
    state = await of(outbox, endpoint.id)
    assert state.status == ("disabled" if days == 6 else "active")
    assert [each for each, _ in told.disabled] == ([endpoint.id] if days == 6 else [])
    assert (state.disabled_reason or "").startswith("no delivery has succeeded for 5 days" if days == 6 else "")


async def test_a_success_elsewhere_keeps_it_from_being_disabled(outbox: Outbox) -> None:
    endpoint = await outbox.add()
    old = datetime.now(UTC) - timedelta(days=6)
    assert not await transport.disable(outbox.session, endpoint.id, "too late", old)
    assert (await of(outbox, endpoint.id)).status == "active"


async def test_paused_disabled_and_unknown_endpoints(outbox: Outbox) -> None:
    async with serving() as server, sending(outbox) as send:
        paused, disabled = [await outbox.add(f"{server.url}/{n}") for n in range(2)]
        await operating.pause(outbox.session, paused.id)
        await operating.disable(outbox.session, disabled.id, "test")
        verdicts = await send(message(paused.id), message(disabled.id), message(new_id()), message(None))
    assert [type(each) for each in verdicts] == [Postponed, Postponed, Refused, Refused]
    assert [each.final for each in verdicts if isinstance(each, Refused)] == [True, True]
    assert server.requests == []


async def test_a_batch_has_one_verdict_for_each_message(outbox: Outbox) -> None:
    async with (
        serving() as good, serving(answering(500)) as bad, serving(servers.silent) as silent,
        sending(outbox, timeout=4.0) as send, asyncio.timeout(60),
    ):  # fmt: skip
        endpoints = [await outbox.add(server.url) for server in (good, bad, silent)]
        watch = Stopwatch()
        verdicts = await send(*(message(endpoint.id) for endpoint in endpoints for _ in range(4)))
        watch.check(1.5 * 4, "a batch with an endpoint that takes 4 s and does not answer")
    assert [type(each) for each in verdicts] == [Delivered] * 4 + [Refused] * 8
    assert good.most <= 4
    assert silent.most == 4, "they wait together, not one after the other"


@pytest.mark.parametrize(("patience", "delivered"), [(60.0, 40), (1.5, 4)])
async def test_four_requests_per_host_and_the_others_wait_or_are_postponed(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, patience: float, delivered: int
) -> None:
    monkeypatch.setattr(transport, "PATIENCE", patience)
    answers = asyncio.Event()

    async def slow(request: Request, writer: asyncio.StreamWriter) -> None:
        await answers.wait()
        await answering(204)(request, writer)

    async with serving(slow) as server, serving() as quick, sending(outbox) as send, asyncio.timeout(60):
        endpoints = [await outbox.add(f"{server.url}/{n}") for n in range(2)]
        neighbour = await outbox.add(quick.url)
        batch = asyncio.create_task(send(*(message(endpoints[n % 2].id) for n in range(40))))
        while len(server.requests) < 4:
            await asyncio.sleep(0.01)
        (verdict,) = await send(message(neighbour.id))
        assert isinstance(verdict, Delivered), "a neighbour waited"
        assert len(server.requests) == 4
        if delivered < 40:
            await asyncio.sleep(patience)  # until there is none left
        answers.set()
        verdicts = await batch
    assert server.most == 4
    assert sum(isinstance(each, Delivered) for each in verdicts) == delivered
    assert sum(isinstance(each, Postponed) for each in verdicts) == 40 - delivered


async def test_what_waits_for_the_names_of_others_loses_no_attempt(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def look_up(host: str, port: int, family: int) -> list[Any]:
        if host.startswith("slow"):
            over.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(sender, "_look_up", look_up)
    monkeypatch.setattr(transport, "PATIENCE", 0.5)
    async with serving() as server, sending(outbox, timeout=2.0) as send:
        slow = [await outbox.add(f"http://slow{n}.test:{server.port}/") for n in range(LOOKUPS)]
        new = await outbox.add(f"http://new.test:{server.port}/")
        verdicts = await send(*(message(each.id) for each in (*slow, new)))
        assert [type(each) for each in verdicts] == [Refused] * LOOKUPS + [Postponed]
        assert isinstance(verdicts[-1], Postponed) and verdicts[-1].delay >= 1
        assert (await of(outbox, new.id)).failing_since is None
        over.set()
        await asyncio.sleep(0.2)
        (verdict,) = await send(message(new.id))
    assert isinstance(verdict, Delivered)


async def test_an_endpoint_that_cannot_be_reached_is_left_alone(outbox: Outbox) -> None:
    async with serving(servers.closing) as server, sending(outbox) as send:
        endpoint = await outbox.add(server.url)
        verdicts = await send(*(message(endpoint.id) for _ in range(30)))
        kinds = [type(each) for each in verdicts]
        assert kinds.count(Refused) <= limits.OPENS_AFTER + limits.PER_HOST
        assert kinds.count(Postponed) >= 20
        assert all(each.delay > 1 for each in verdicts if isinstance(each, Postponed))


def test_the_breaker() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.failed(100.0)
    assert breaker.refuses(100.0) is None
    breaker.failed(100.0)
    assert 5 < (breaker.refuses(100.0) or 0) <= 10
    assert breaker.refuses(105.1) is None, "one tries"
    assert breaker.refuses(105.1) is not None, "and the others wait for it"
    waits = []
    now = 105.1
    for _ in range(10):
        breaker.failed(now)
        assert breaker.refuses(now) is not None
        now = breaker._until + 0.01
        waits.append(breaker._wait)
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600, 600]


async def test_slots() -> None:
    slots = Slots(1)
    await slots.acquire(0.05)
    with pytest.raises(TimeoutError):
        await slots.acquire(0.05)
    waiting = asyncio.create_task(slots.acquire(30))
    cancelled = asyncio.create_task(slots.acquire(30))
    await asyncio.sleep(0)
    cancelled.cancel()
    slots.give_back()
    await waiting
    waiting = asyncio.create_task(slots.acquire(30))
    await asyncio.sleep(0)
    slots.give_back()  # given to it,
    waiting.cancel()  # in the moment in which it stops waiting
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await slots.acquire(30)


async def test_the_value_of_the_application_sends_nothing(outbox: Outbox) -> None:
    value = Webhooks()
    transports: list[object] = [value, value.bound(outbox.session, Occurrences())]
    assert all(isinstance(each, Transport) for each in transports)
    with pytest.raises(ConfigurationError, match="sends nothing by itself"):
        await value.send([], lambda message, verdict: None)
    await value.close()


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": 60}, {"timeout": float("nan")}, {"per_host": 0}])
def test_settings_that_cannot_work(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Webhooks(**options)


@pytest.mark.parametrize(
    "change", ["secrets = '[{\"secret\": \"hunter2\"}]'", "secrets = '[{}]'", "url = 'gopher://x'",
               "secrets = '[{\"secret\": \"x\", \"expires_at\": \"2001-01-01T00:00:00Z\"}]'"],
)  # fmt: skip
async def test_a_row_that_was_changed_by_hand_does_not_stop_the_others(outbox: Outbox, change: str) -> None:
    async with serving() as server, sending(outbox) as send:
        good = await outbox.add(server.url)
        bad = await outbox.add(f"{server.url}/bad")
        await outbox.connection.execute(f"update holdfast.endpoints set {change} where id = $1", bad.id)
        batch = [message(each.id) for each in (bad, good, bad, good)]
        verdicts = await send(*batch)
    assert [type(each) for each in verdicts] == [Refused, Delivered, Refused, Delivered]
    assert "hunter2" not in str(verdicts)
    assert (await of(outbox, bad.id)).failing_since is not None


async def test_a_database_that_is_away_settles_nothing(outbox: Outbox) -> None:
    class Away:
        async def run(self, room: str, name: str, *arguments: Any) -> Sequence[Any]:
            raise ConnectionError("away")

    opened = Webhooks().bound(Away(), Occurrences())  # type: ignore[arg-type]
    await opened.open()
    settled: list[Message] = []
    with pytest.raises(ConnectionError):
        await opened.send([message(new_id())], lambda message, verdict: settled.append(message))
    await opened.close()
    assert settled == []


async def test_from_publish_to_the_receiver(outbox: Outbox) -> None:
    """The whole way, with the statements of the relay in place of the relay."""
    from holdfast.inbox import ending
    from holdfast.model.outcome import Completed

    async with serving() as server, sending(outbox) as send:
        endpoint = await outbox.add(server.url)
        event = await outbox.publish()
        await outbox.fan_out()
        (claim,) = await outbox.claim(QUEUE)
        (verdict,) = await send(message(endpoint.id, delivery=claim.id, event_id=str(event)))
        assert isinstance(verdict, Delivered)
        await ending.write(outbox.session, [(claim, Completed(json.dumps(verdict.details)))])
    assert [request.headers["webhook-id"] for request in server.requests] == [str(event)]
    (attempt,) = await operating.attempts(outbox.session, endpoint.id, datetime.now(UTC) - timedelta(hours=1), 10)
    assert (attempt.event, attempt.delivered, attempt.status, attempt.attempt) == (event, True, 204, 1)
    assert attempt.address == "127.0.0.1" and attempt.ms is not None
