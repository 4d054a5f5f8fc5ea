"""One event, many endpoints: in one statement, once, and by the status that each endpoint has at that moment."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest
from tests.support.inbox import Session
from tests.support.waiting import PATIENCE, until_blocked
from tests.webhooks.conftest import Outbox

from holdfast.errors import Unreachable
from holdfast.webhooks import operating
from holdfast.webhooks.fanning import QUEUE, fan_out, postpone


async def test_each_endpoint_that_wants_it_gets_one(outbox: Outbox) -> None:
    everything = await outbox.add()
    orders = await outbox.add("https://example.com/orders", types=["order.*", "refund.made"])
    await outbox.add("https://example.com/users", types=["user.*"])
    await outbox.add("https://example.com/acme", tenant="acme")
    event = await outbox.publish()
    done = await outbox.fan_out()
    assert (len(done.done), done.missing, done.deliveries, done.late) == (1, [], 2, 0)

    rows = await outbox.connection.fetch("select * from holdfast.inbox order by seq")
    assert {json.loads(row["payload"])["endpoint"] for row in rows} == {str(everything.id), str(orders.id)}
    for row in rows:
        payload = json.loads(row["payload"])
        assert (payload["type"], payload["event"], payload.keys()) == (
            "@deliver", str(event), {"type", "event", "on", "endpoint"},
        )  # fmt: skip
        assert (row["queue"], row["kind"], row["status"], row["ordered"]) == (QUEUE, "@deliver", "pending", False)
        assert (row["max_attempts"], row["partition_key"]) == (10, str(row["id"]))
    archived = await outbox.session.archived(done.done[0])
    assert archived is not None and archived["status"] == "completed"
    assert json.loads(archived["result"]) == {"deliveries": 2}
    assert {row["created_at"] for row in rows} == {archived["created_at"]}, "the lag counts from the publish call"


async def test_tenants(outbox: Outbox) -> None:
    await outbox.add("https://a.example/", tenant="acme")
    await outbox.add("https://b.example/", tenant="globex")
    await outbox.add("https://c.example/")
    await outbox.add("https://d.example/", tenant="*")
    expected = {"acme": {"a", "d"}, "globex": {"b", "d"}, "initech": {"d"}, None: {"c", "d"}}
    for tenant, hosts in expected.items():
        await outbox.connection.execute("delete from holdfast.inbox")
        await outbox.publish(tenant=tenant)
        await outbox.fan_out()
        rows = await outbox.connection.fetch(
            "select e.url from holdfast.inbox i join holdfast.endpoints e on e.id::text = i.payload ->> 'endpoint'"
        )
        assert {row[0][8] for row in rows} == hosts, tenant


async def test_events_of_holdfasts_own_are_asked_for_by_their_first_word(outbox: Outbox) -> None:
    """They name the endpoints of other customers."""
    customer = await outbox.add("https://a.example/")
    all_tenants = await outbox.add("https://b.example/", tenant="*")
    operators = await outbox.add("https://c.example/", types=["holdfast.*", "order.*"])
    await operating.disable(outbox.session, (await outbox.add("https://d.example/")).id, "test")
    await outbox.fan_out()
    made = [json.loads(claim.payload)["endpoint"] for claim in await outbox.endpoints()]
    assert made == [str(operators.id)]
    lately, soon = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 1))
    for each in (customer, all_tenants, operators):
        again = [count async for count in operating.replay(outbox.session, each.id, lately, soon)]
        assert again == [1] * (each is operators)


async def test_many_at_once_keep_their_order(outbox: Outbox) -> None:
    endpoint = await outbox.add(ordered=True)
    other = await outbox.add("https://other.example", ordered=True)
    long = "k" * 512
    events = [await outbox.publish(key=key) for key in ["a", "b", "a", long, long] * 10]
    assert (await outbox.fan_out()).deliveries == 100
    rows = await outbox.connection.fetch(
        "select payload ->> 'event' as event, partition_key, ordered from holdfast.inbox "
        "where payload ->> 'endpoint' = $1 order by seq", str(endpoint.id),
    )  # fmt: skip
    assert [UUID(row["event"]) for row in rows] == events
    assert {row["ordered"] for row in rows} == {True}
    keys = {row["partition_key"] for row in rows}
    assert len(keys) == 3 and {f"{endpoint.id}:a", f"{endpoint.id}:b"} < keys
    assert all(key.startswith(str(endpoint.id)) and len(key) <= 512 for key in keys)
    assert not await outbox.connection.fetchval(
        "select count(*) from holdfast.inbox where payload ->> 'endpoint' = $1 and partition_key = any ($2)",
        str(other.id), list(keys),
    )  # fmt: skip


async def test_by_status(outbox: Outbox) -> None:
    active, paused, disabled = [await outbox.add(f"https://example.com/{n}") for n in range(3)]
    await operating.pause(outbox.session, paused.id)
    await operating.disable(outbox.session, disabled.id, "test")
    await outbox.connection.execute("delete from holdfast.inbox")  # the event that says so
    await outbox.publish()
    assert (await outbox.fan_out()).deliveries == 2
    assert await outbox.waiting() == {QUEUE: 1, f"hold.{paused.id}": 1}
    assert (await operating.resume(outbox.session, paused.id), await operating.enable(outbox.session, disabled.id)) == (
        1,
        0,
    )
    assert await outbox.waiting() == {QUEUE: 2}
    assert active.id != paused.id


async def test_nobody_wants_it(outbox: Outbox) -> None:
    await outbox.publish()
    done = await outbox.fan_out()
    assert (len(done.done), done.deliveries, await outbox.waiting()) == (1, 0, {})
    assert (await fan_out(outbox.session, [])).done == []


async def test_twice_adds_nothing(outbox: Outbox) -> None:
    await outbox.add()
    await outbox.publish()
    claims = await outbox.claim()
    assert (await fan_out(outbox.session, claims)).deliveries == 1
    again = await fan_out(outbox.session, claims)
    assert (again.done, again.missing, again.deliveries) == ([], [], 0)
    # The same event under another row, as after a restore: its deliveries have the same ids.
    await outbox.connection.execute(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, queue) "
        "select 'x', 1, payload - 'endpoint', 'out.webhooks' from holdfast.inbox"
    )
    second = await outbox.fan_out()
    assert (len(second.done), second.deliveries, await outbox.waiting()) == (1, 0, {QUEUE: 1})


async def test_a_replay_is_another_delivery(outbox: Outbox) -> None:
    await outbox.add()
    await outbox.publish()
    await outbox.fan_out()
    await outbox.connection.execute(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, queue) "
        "select 'x', 1, payload - 'endpoint' || '{\"replay\": 1}', 'out.webhooks' from holdfast.inbox"
    )
    assert (await outbox.fan_out()).deliveries == 1
    rows = await outbox.connection.fetch("select payload from holdfast.inbox order by seq")
    assert [json.loads(row[0]).get("replay") for row in rows] == [None, 1]


async def test_an_event_that_is_gone(outbox: Outbox) -> None:
    await outbox.add()
    await outbox.publish()
    await outbox.publish()
    claims = await outbox.claim()
    await outbox.connection.execute(
        "delete from holdfast.events where id = (select (payload ->> 'event')::uuid from holdfast.inbox where id = $1)",
        claims[0].id,
    )
    done = await fan_out(outbox.session, claims)
    assert (done.done, done.missing, done.deliveries) == ([claims[1].id], [claims[0].id], 1)
    assert (await outbox.session.row(claims[0].id))["status"] == "processing"


@pytest.mark.direct
@pytest.mark.parametrize("first", ["fan out", "pause", "resume", "disable"])
async def test_a_change_of_status_that_races_with_fan_out(
    outbox: Outbox, one: Session, two: Session, first: str
) -> None:
    """Whichever comes first, the other waits for it, and nothing is left in the wrong queue."""
    endpoint = await outbox.add()
    if first == "resume":
        await operating.pause(one, endpoint.id)
    await outbox.publish()
    claims = await outbox.claim()

    async def change(session: Session) -> object:
        match first:
            case "resume":
                return await operating.resume(session, endpoint.id)
            case "disable":
                return await operating.disable(session, endpoint.id, "test")
            case _:
                return await operating.pause(session, endpoint.id)

    observer = await asyncio.wait_for(_another(one), PATIENCE)
    transaction = one.connection.transaction()
    await transaction.start()
    second: asyncio.Task[object]
    if first == "fan out":
        await fan_out(one, claims)
        second = asyncio.create_task(change(two))
    else:
        await change(one)
        second = asyncio.create_task(fan_out(two, claims))
    try:
        await until_blocked(observer)
    finally:
        await transaction.commit()
        await second
        await observer.close()
    await outbox.connection.execute("delete from holdfast.inbox where payload ->> 'endpoint' is null")
    expected = {"resume": {QUEUE: 1}, "disable": {}}.get(first, {f"hold.{endpoint.id}": 1})
    assert await outbox.waiting() == expected


async def _another(session: Session) -> asyncpg.Connection[asyncpg.Record]:
    return await asyncpg.connect(session.database.url)


async def test_pause_and_resume_while_deliveries_are_claimed(outbox: Outbox, one: Session, two: Session) -> None:
    """What is claimed when the endpoint is paused comes to hold when the sender gives it back."""
    endpoint = await outbox.add()
    other = await outbox.add("https://other.example/")
    for _ in range(3):
        await outbox.publish()
    await outbox.fan_out()
    claims = await outbox.claim(QUEUE, limit=2)
    ours = [claim for claim in claims if json.loads(claim.payload)["endpoint"] == str(endpoint.id)]
    await operating.pause(two, endpoint.id)
    waiting = await outbox.waiting()
    assert waiting[f"hold.{endpoint.id}"] == 3 - len(ours)
    moved = await postpone(one, [(claim, 0.0) for claim in claims])
    assert {moved[claim.id] for claim in ours} == {f"hold.{endpoint.id}"}
    assert await outbox.waiting() == {f"hold.{endpoint.id}": 3, QUEUE: 3}
    rows = await outbox.connection.fetch("select attempts, claimed_by from holdfast.inbox")
    assert {tuple(row.values()) for row in rows} == {(0, None)}

    # Resumed in between: what the sender found paused goes back to the queue, not to hold.
    await operating.resume(two, endpoint.id)
    claims = await outbox.claim(QUEUE)
    await operating.pause(two, endpoint.id)
    await operating.resume(two, endpoint.id)
    assert set((await postpone(one, [(claim, 0.0) for claim in claims])).values()) == {QUEUE}
    assert await outbox.waiting() == {QUEUE: 6}
    assert other.id != endpoint.id


async def test_a_row_that_is_being_claimed_is_skipped_by_a_pause(outbox: Outbox, one: Session, two: Session) -> None:
    endpoint = await outbox.add()
    await outbox.publish()
    await outbox.fan_out()
    async with one.connection.transaction():
        claims = await outbox.claim(QUEUE)
        assert await asyncio.wait_for(operating.pause(two, endpoint.id), PATIENCE) == 0
    assert await postpone(one, [(claims[0], 0.0)]) == {claims[0].id: f"hold.{endpoint.id}"}


async def test_pause_and_disable_count_all_that_is_held_then(outbox: Outbox) -> None:
    """Not only what they have moved themselves."""
    endpoint, other = await outbox.add(), await outbox.add("https://other.example/", ordered=True)
    for _ in range(5):
        await outbox.publish(key="a")
    await outbox.fan_out()
    for each in (endpoint, other):
        assert await operating.pause(outbox.session, each.id) == 5
        assert await operating.pause(outbox.session, each.id) == 5
        assert await operating.disable(outbox.session, each.id, "test") == 5
        assert await operating.disable(outbox.session, each.id, "test") == 5
        assert await operating.enable(outbox.session, each.id) == 5


async def test_a_pause_that_took_effect_is_no_failure_even_if_the_server_is_gone_then(outbox: Outbox) -> None:
    endpoint = await outbox.add()
    for _ in range(3):
        await outbox.publish()
    await outbox.fan_out()

    class GoneAfterwards:
        async def run(self, room: str, name: str, *arguments: object) -> list[asyncpg.Record]:
            if name == "list":
                raise Unreachable("gone")
            return await outbox.session.run(room, name, *arguments)

    assert await operating.pause(GoneAfterwards(), endpoint.id) == 3
    assert (await operating.state(outbox.session, endpoint.id)).status == "paused"


async def test_what_an_endpoint_holds_has_the_route_of_all_deliveries_to_endpoints(outbox: Outbox) -> None:
    paused = await outbox.add("https://paused.example/")
    await outbox.add()
    await outbox.publish()
    await operating.pause(outbox.session, paused.id)
    await outbox.fan_out()
    assert await outbox.waiting() == {QUEUE: 1, f"hold.{paused.id}": 1}
    rows = await outbox.connection.fetch("select route, status from holdfast.outbox order by endpoint is not null, 1")
    assert [tuple(row) for row in rows] == [("webhooks", "completed"), *[("webhooks.endpoints", "pending")] * 2]


async def test_postponed_for_a_time(outbox: Outbox) -> None:
    await outbox.add()
    await outbox.publish()
    await outbox.fan_out()
    (claim,) = await outbox.endpoints()
    assert await postpone(outbox.session, [(claim, 60.0)]) == {claim.id: QUEUE}
    row = await outbox.session.row(claim.id)
    assert (row["status"], row["attempts"], row["claimed_by"]) == ("pending", 0, None)
    assert await outbox.connection.fetchval(
        "select available_at - clock_timestamp() between interval '50 s' and interval '60 s' from holdfast.inbox"
    )


async def test_resume_keeps_the_order_and_the_time_of_retries(outbox: Outbox) -> None:
    endpoint = await outbox.add(ordered=True)
    for _ in range(5):
        await outbox.publish(key="a")
    await outbox.fan_out()
    await outbox.connection.execute(
        "update holdfast.inbox set available_at = now() + interval '1 hour' "
        "where seq = (select min(seq) from holdfast.inbox)"
    )
    await outbox.connection.execute(
        "update holdfast.inbox set status = 'blocked' where seq = (select max(seq) from holdfast.inbox)"
    )
    before = await outbox.connection.fetch("select id from holdfast.inbox order by seq")
    assert await operating.pause(outbox.session, endpoint.id) == 5
    assert await operating.resume(outbox.session, endpoint.id) == 5
    rows = await outbox.connection.fetch(
        "select id, available_at > now() + interval '50 min' as late from holdfast.inbox order by seq"
    )
    assert [row["id"] for row in rows] == [row["id"] for row in before]
    assert [row["late"] for row in rows] == [True, False, False, False, False]
    # Of a disabled one, somebody has mended what was wrong: all are due now.
    await operating.disable(outbox.session, endpoint.id, "test")
    await operating.enable(outbox.session, endpoint.id)
    assert not await outbox.connection.fetchval(
        "select count(*) from holdfast.inbox where available_at > clock_timestamp() and queue = $1", QUEUE
    )
