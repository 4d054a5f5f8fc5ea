"""What people do with endpoints, in Python."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.inbox import Session, session
from tests.support.waiting import until_blocked
from tests.support.workers import Inbox
from tests.webhooks.conftest import ANY, SECRET, Outbox
from tests.webhooks.servers import answering, serving

from holdfast import Holdfast
from holdfast.errors import ConfigurationError, InvalidInput, NotFound
from holdfast.inbox import ending
from holdfast.model.ids import new_id
from holdfast.model.outcome import AttemptFailed, Completed
from holdfast.webhooks import Webhooks, operating
from holdfast.webhooks.fanning import QUEUE, fan_out, postpone

HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)
LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
async def app(inbox: Inbox) -> AsyncIterator[Holdfast]:
    made = Holdfast(inbox.url)
    yield made
    await made.close()


async def test_the_life_of_an_endpoint(app: Holdfast) -> None:
    added = await app.add_endpoint(
        "https://example.com/hook", types=["order.*"], tenant="acme", description="orders", ordered=True
    )
    assert added.secret.startswith("whsec_")
    state = await app.endpoint(added.id)
    assert (state.url, state.types, state.tenant, state.status, state.ordered, state.description, state.held) == (
        "https://example.com/hook", ["order.*"], "acme", "active", True, "orders", 0,
    )  # fmt: skip
    assert len(state.secrets) == 1
    assert [each.id for each in await app.list_endpoints()] == [added.id]
    assert await app.list_endpoints("globex") == []
    assert await app.pause_endpoint(added.id) == 0
    assert (await app.endpoint(added.id)).status == "paused"
    assert await app.resume_endpoint(added.id) == 0
    assert await app.disable_endpoint(added.id, "they left") == 0
    state = await app.endpoint(added.id)
    assert (state.status, state.disabled_reason, state.disabled_at is not None) == ("disabled", "they left", True)
    with pytest.raises(ConfigurationError, match=r"is disabled; to use it again: holdfast endpoint enable"):
        await app.resume_endpoint(added.id)
    with pytest.raises(ConfigurationError, match="enable it first"):
        await app.pause_endpoint(added.id)
    assert await app.enable_endpoint(added.id) == 0
    assert (await app.endpoint(added.id)).disabled_reason is None
    assert await app.endpoint_attempts(added.id) == []
    recovered = await app.recover_endpoint(added.id, since="1d")
    assert (recovered.revived, recovered.missed) == (0, 0)


def test_for_code_that_does_not_await(inbox: Inbox) -> None:
    app = Holdfast(inbox.url)
    added = app.add_endpoint_sync("https://example.com/hook")
    assert app.endpoint_sync(added.id).status == "active"
    assert len(app.list_endpoints_sync()) == 1
    assert app.pause_endpoint_sync(added.id) == app.resume_endpoint_sync(added.id) == 0
    assert app.disable_endpoint_sync(added.id) == app.enable_endpoint_sync(added.id) == 0
    assert app.rotate_endpoint_secret_sync(added.id) != added.secret
    assert app.endpoint_attempts_sync(added.id) == []
    assert app.recover_endpoint_sync(added.id, since=HOUR_AGO).missed == 0
    assert app.replay_endpoint_sync(added.id, since=HOUR_AGO) == 0
    with pytest.raises(InvalidInput, match="which events are meant"):
        app.replay_endpoint_sync(added.id)
    assert not app.test_endpoint_sync(added.id, Webhooks(ports=(1,))).delivered
    app.close_sync()


async def test_mistakes(app: Holdfast) -> None:
    wrong: list[dict[str, Any]] = [
        {"url": "http://example.com/"}, {"url": "https://127.0.0.1/"}, {"types": []}, {"types": "order.*"},
        {"types": ["a*b"]}, {"types": [""]}, {"types": ["a b"]}, {"tenant": ""}, {"tenant": "x" * 257},
        {"description": "x" * 1001}, {"secret": "hunter2"}, {"ordered": "yes"},
    ]  # fmt: skip
    for each in wrong:
        options = {"url": "https://example.com/", **each}
        with pytest.raises(InvalidInput) as raised:
            await app.add_endpoint(options.pop("url"), **options)
        assert raised.value.field == next(iter(each)), each
    assert await app.list_endpoints() == []
    nobody = new_id()
    for verb in (
        app.endpoint, app.pause_endpoint, app.resume_endpoint, app.disable_endpoint, app.enable_endpoint,
        app.rotate_endpoint_secret, app.test_endpoint,
    ):  # fmt: skip
        with pytest.raises(NotFound, match=f"There is no endpoint {nobody}"):
            await verb(nobody)
    with pytest.raises(NotFound):
        await app.recover_endpoint(nobody, since="1d")
    with pytest.raises(InvalidInput, match="time zone"):
        await app.endpoint_attempts(nobody, since=datetime(2031, 1, 1))  # noqa: DTZ001


async def test_a_url_once_per_tenant(app: Holdfast) -> None:
    for tenant in (None, "acme", "globex"):
        await app.add_endpoint("https://example.com/", tenant=tenant)
        with pytest.raises(InvalidInput, match="there is already an endpoint"):
            await app.add_endpoint("https://example.com/", tenant=tenant)


async def test_an_addition_that_is_repeated_finds_itself(outbox: Outbox) -> None:
    arguments = (new_id(), None, "https://example.com/", ["*"], False, SECRET, None, "ann")
    for _ in range(2):
        assert (await outbox.session.run("webhooks", "add", *arguments))[0][0] == arguments[0]


async def test_rotation(app: Holdfast, one: Session) -> None:
    added = await app.add_endpoint("https://example.com/")
    first = await app.rotate_endpoint_secret(added.id)
    assert first != added.secret
    with pytest.raises(InvalidInput, match="--force"):
        await app.rotate_endpoint_secret(added.id)
    second = await app.rotate_endpoint_secret(added.id, force=True, overlap="1h")
    (row,) = await one.run("webhooks", "load", [added.id])
    assert row["secrets"] == [second, first], "the one before the last is gone"
    # A call whose answer was lost changes nothing when it is repeated.
    for _ in range(2):
        assert await app.rotate_endpoint_secret(added.id, force=True, secret=SECRET) == SECRET
    (row,) = await one.run("webhooks", "load", [added.id])
    assert row["secrets"] == [SECRET, second]
    await one.connection.execute(
        "update holdfast.endpoints set secrets = jsonb_set(secrets, '{1,expires_at}', to_jsonb(now() - interval '1 s'))"
    )
    (row,) = await one.run("webhooks", "load", [added.id])
    assert row["secrets"] == [SECRET]
    assert len((await app.endpoint(added.id)).secrets) == 1
    assert await app.rotate_endpoint_secret(added.id)


async def test_secrets_are_not_shown(app: Holdfast) -> None:
    added = await app.add_endpoint("https://example.com/")
    assert added.secret not in repr(await app.list_endpoints())


async def test_a_test(app: Holdfast) -> None:
    local = Webhooks(allow_private=True, allow_http=True, ports=None)
    async with serving(answering(200, b"hello")) as server:
        added = await app.add_endpoint(server.url, policy=ANY)
        await app.pause_endpoint(added.id)  # whatever its status
        attempt = await app.test_endpoint(added.id, local)
        assert (attempt.delivered, attempt.status, attempt.response, attempt.error) == (True, 200, "hello", None)
        refused = await app.test_endpoint(added.id)
        assert not refused.delivered and refused.error is not None and "https" in refused.error
    assert json.loads(server.requests[0].body)["type"] == "holdfast.endpoint.test"


async def _fail(outbox: Outbox, times: int = 1, give_up: bool = False) -> None:
    for _ in range(times):
        details = {"status": 503, "ms": 12.5, "address": "10.0.0.1", "response": "busy"}
        claims = await outbox.endpoints()
        failed = AttemptFailed("Refused", "HTTP 503", delay=0.0, give_up=give_up)
        await ending.write(outbox.session, [(claim, failed) for claim in claims])
        await outbox.connection.execute(  # as the relay writes it
            "update holdfast.inbox set errors = (select jsonb_agg(e || jsonb_build_object('details', $1::jsonb)) "
            "from jsonb_array_elements(errors) e)", json.dumps(details),
        )  # fmt: skip


async def test_every_attempt_is_visible(outbox: Outbox) -> None:
    endpoint = await outbox.add()
    await outbox.add("https://other.example/", types=["user.*"])
    event = await outbox.publish()
    await outbox.fan_out()
    await _fail(outbox, 2)
    found = await operating.attempts(outbox.session, endpoint.id, HOUR_AGO, 10)
    assert [(each.attempt, each.status, each.delivered, each.error) for each in found] == [
        (2, 503, False, "HTTP 503"), (1, 503, False, "HTTP 503"),
    ]  # fmt: skip
    assert (found[0].ms, found[0].address, found[0].response, found[0].event) == (12.5, "10.0.0.1", "busy", event)
    (claim,) = await outbox.endpoints()
    result = json.dumps({"status": 200, "ms": 7.0, "address": "10.0.0.1"})
    await ending.write(outbox.session, [(claim, Completed(result))])
    found = await operating.attempts(outbox.session, endpoint.id, HOUR_AGO, 10)
    assert [(each.attempt, each.status, each.delivered) for each in found] == [
        (3, 200, True), (2, 503, False), (1, 503, False),
    ]  # fmt: skip
    assert len(await operating.attempts(outbox.session, endpoint.id, HOUR_AGO, 1)) == 1
    assert await operating.attempts(outbox.session, endpoint.id, datetime.now(UTC) + timedelta(hours=1), 10) == []


@pytest.mark.parametrize("paused", [False, True])
async def test_recover(outbox: Outbox, paused: bool) -> None:
    endpoint = await outbox.add(types=["order.*"])
    other = await outbox.add("https://other.example/")
    delivered = await outbox.publish()
    await outbox.fan_out()
    claims = await outbox.endpoints()
    await ending.write(outbox.session, [(claim, Completed()) for claim in claims])
    await outbox.publish()
    await outbox.fan_out()
    await _fail(outbox, give_up=True)  # two dead letters, one of them of the other endpoint
    await operating.disable(outbox.session, endpoint.id, "test")
    missed = [await outbox.publish(f"order.{n}") for n in range(3)]
    await outbox.publish("user.added")
    await outbox.fan_out()
    await operating.enable(outbox.session, endpoint.id)
    queue = QUEUE
    if paused:
        await operating.pause(outbox.session, endpoint.id)
        queue = f"hold.{endpoint.id}"

    recovered = await operating.recover(outbox.session, endpoint.id, HOUR_AGO)
    assert (recovered.revived, recovered.missed) == (1, 3)
    rows = await outbox.connection.fetch(
        "select payload ->> 'event' as event, status::text, attempts, queue, id from holdfast.inbox "
        "where payload ->> 'endpoint' = $1 order by seq", str(endpoint.id),
    )  # fmt: skip
    assert [row["event"] for row in rows][1:] == [str(each) for each in missed]
    assert {(row["status"], row["attempts"], row["queue"]) for row in rows} == {("pending", 0, queue)}
    assert str(delivered) not in {row["event"] for row in rows}
    again = await operating.recover(outbox.session, endpoint.id, HOUR_AGO)
    assert (again.revived, again.missed) == (0, 0)
    dead = await outbox.connection.fetch("select payload from holdfast.inbox where status = 'dead_letter'")
    assert [json.loads(row[0])["endpoint"] for row in dead] == [str(other.id)]
    assert (await operating.recover(outbox.session, other.id, datetime.now(UTC) + timedelta(hours=1))).revived == 0


async def test_a_delivery_that_ends_while_the_missed_ones_are_made_was_not_missed(
    outbox: Outbox, two: Session, inbox: Inbox
) -> None:
    endpoint = await outbox.add()
    await outbox.publish()
    await outbox.fan_out()
    (claim,) = await outbox.endpoints()
    async with session(inbox.url, "three") as three:
        async with three.connection.transaction():
            await three.connection.execute("select from holdfast.endpoints for update")
            missed = asyncio.create_task(two.run("webhooks", "recover_missed", endpoint.id, HOUR_AGO, 10, None))
            await until_blocked(outbox.connection)
            await ending.write(outbox.session, [(claim, Completed())])
        assert [row["made"] for row in await missed] == [0]
    assert await outbox.waiting() == {}


@pytest.mark.parametrize("paused", [False, True])
async def test_replay(outbox: Outbox, paused: bool) -> None:
    """Of what it has taken, one event or those of a time, to this endpoint alone."""
    endpoint = await outbox.add(types=["order.*"], ordered=True)
    other = await outbox.add("https://other.example/")
    events = [await outbox.publish(f"order.{n}", key="k") for n in range(3)]
    await outbox.publish("user.added")
    await outbox.publish("order.1", tenant="acme")
    await outbox.fan_out()
    await outbox.connection.execute("delete from holdfast.inbox")  # they were delivered
    if paused:
        await operating.pause(outbox.session, endpoint.id)

    async def replay(*arguments: Any) -> int:
        counts = [n async for n in operating.replay(outbox.session, endpoint.id, HOUR_AGO, LATER, *arguments)]
        return counts[-1] if counts else 0

    async def rows() -> list[Any]:
        return await outbox.connection.fetch(
            "select payload ->> 'event' as event, queue, partition_key, ordered, payload ->> 'endpoint' as endpoint, "
            "max_attempts from holdfast.inbox order by seq"
        )

    assert await replay((), None, True) == 3, "only counted"
    assert await rows() == []
    assert await replay((), events[1]) == 1
    assert await replay(("order.2", "user.*")) == 1
    assert await replay() == 3
    found = await rows()
    assert [row["event"] for row in found] == [str(each) for each in (events[1], events[2], *events)]
    assert {row["endpoint"] for row in found} == {str(endpoint.id)} != {str(other.id)}
    assert {row["queue"] for row in found} == {f"hold.{endpoint.id}" if paused else QUEUE}
    assert len({row["partition_key"] for row in found}) == 1 and all(row["ordered"] for row in found)
    assert [n async for n in operating.replay(outbox.session, endpoint.id, LATER, LATER)] == []
    with pytest.raises(NotFound):
        [n async for n in operating.replay(outbox.session, events[0], HOUR_AGO, LATER)]


async def test_a_replay_of_many_goes_in_batches(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = await outbox.add()
    events = [await outbox.publish() for _ in range(5)]
    monkeypatch.setattr(operating, "BATCH", 2)
    assert [n async for n in operating.replay(outbox.session, endpoint.id, HOUR_AGO, LATER)] == [2, 4, 5]
    rows = await outbox.connection.fetch(
        "select payload ->> 'event' as event from holdfast.inbox where payload ? 'endpoint' order by seq"
    )
    assert [row["event"] for row in rows] == [str(each) for each in events]


async def test_nothing_is_lost_while_an_endpoint_is_paused_and_resumed(
    outbox: Outbox, one: Session, two: Session, migrated_url: str
) -> None:
    """Producers, fan-out, claims and an operator at the same time, for a few seconds of statements."""
    from tests.support.inbox import session

    endpoint = await outbox.add()
    total, chosen, seen = 150, random.Random(7), set[str]()
    finished = asyncio.Event()

    async def produce(session: Session) -> None:
        for _ in range(total):
            await session.connection.execute("select holdfast.publish('order.paid', '{}')")

    async def relay(session: Session, worker: str) -> None:
        while len(seen) < total:
            claims = await session.claim(worker, 20, queues=["out.webhooks"], known={"@deliver": (1, 1)})
            await fan_out(session, claims)
            claims = await session.claim(worker, 20, queues=[QUEUE], known={"@deliver": (1, 1)})
            states = {row["status"] for row in await session.run("webhooks", "load", [endpoint.id])}
            if "active" in states and claims:
                kept, back = claims[: len(claims) // 2 + 1], claims[len(claims) // 2 + 1 :]
                await postpone(session, [(claim, 0.0) for claim in back])
                await ending.write(session, [(claim, Completed()) for claim in kept])
                seen.update(json.loads(claim.payload)["event"] for claim in kept)
            else:
                await postpone(session, [(claim, 0.0) for claim in claims])
            await asyncio.sleep(0)
        finished.set()

    async def operate(session: Session) -> None:
        while not finished.is_set():
            await operating.pause(session, endpoint.id)
            await asyncio.sleep(chosen.random() * 0.02)
            await operating.resume(session, endpoint.id)
            await asyncio.sleep(chosen.random() * 0.02)

    async with session(migrated_url, "three") as three, session(migrated_url, "four") as four, asyncio.timeout(100):
        await asyncio.gather(produce(one), relay(two, "w2"), relay(three, "w3"), operate(four))
    assert len(seen) == total
    left = await outbox.waiting()
    assert left == {}, left
    assert await outbox.connection.fetchval(
        "select count(*) from holdfast.archive where payload ? 'endpoint' and status = 'completed'"
    ) == total  # fmt: skip
