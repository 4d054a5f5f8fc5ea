"""Publish: an event and its deliveries commit with the caller's work, or not at all."""

import asyncio
from datetime import UTC
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from tests.outbox.conftest import Sink
from tests.support.pooler import direct
from tests.support.proxy import proxied
from tests.support.workers import Inbox

from holdfast import Holdfast, IdempotencyConflict, InvalidInput, NotInTransaction
from holdfast.errors import ConfigurationError


def events(inbox: Inbox) -> list[dict[str, Any]]:
    return inbox.rows("select * from holdfast.events order by seq")


def deliveries(inbox: Inbox) -> list[dict[str, Any]]:
    return inbox.rows("select * from holdfast.outbox order by published_at, route")


async def test_an_event_is_stored_once_with_a_delivery_for_each_route(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True, max_attempts=7)
    hf.relay("order.paid", "refund.*", to=Sink(), name="billing")
    hf.relay("refund.*", to=Sink(), name="other")
    made = await hf.publish(
        "order.paid", {"n": 1}, key="order:1", version=2, tenant="acme", headers={"traceparent": "00-ab"}
    )
    assert (made.existed, made.deliveries) == (False, 2)
    (event,) = events(inbox)
    assert (event["id"], event["type"], event["version"], event["key"]) == (made.id, "order.paid", 2, "order:1")
    assert (event["tenant"], event["headers"], event["data"]) == ("acme", {"traceparent": "00-ab"}, {"n": 1})
    billing, bus = deliveries(inbox)
    assert (billing["route"], bus["route"]) == ("billing", "bus")
    assert {row["event"] for row in (billing, bus)} == {made.id}
    (row,) = inbox.rows("select * from holdfast.inbox where queue = 'out.bus'")
    assert (row["ordered"], row["max_attempts"], row["partition_key"]) == (True, 7, "order:1")
    day = event["published_at"].astimezone(UTC).date()
    assert row["payload"] == {"type": "@deliver", "event": str(made.id), "on": day.isoformat()}


async def test_an_event_without_a_route_is_kept(hf: Holdfast, inbox: Inbox) -> None:
    assert (await hf.publish("order.paid", {})).deliveries == 0
    assert len(events(inbox)) == 1
    assert deliveries(inbox) == []


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
async def test_it_commits_with_the_work_on_asyncpg(hf: Holdfast, inbox: Inbox, sink: Sink, commits: bool) -> None:
    hf.relay("*", to=sink, name="bus")
    inbox.rows("create table orders (id int)")
    connection = await asyncpg.connect(direct(inbox.url))
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("insert into orders values (1)")
    await hf.on(connection).publish("order.paid", {"n": 1})
    assert events(inbox) == [], "not before the commit"
    await (transaction.commit if commits else transaction.rollback)()
    await connection.close()
    assert len(events(inbox)) == len(deliveries(inbox)) == inbox.one("select count(*) from orders") == commits


def test_it_commits_with_the_work_on_psycopg(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("*", to=sink, name="bus")
    with psycopg.connect(direct(inbox.url)) as connection:
        hf.on(connection).publish("order.paid", {"n": 1}, key="k")
        connection.rollback()
        hf.on(connection).publish("order.paid", {"n": 2}, key="k")
    assert [row["data"] for row in deliveries(inbox)] == [{"n": 2}]
    with (
        psycopg.connect(direct(inbox.url), autocommit=True) as connection,
        pytest.raises(NotInTransaction, match="autocommit"),
    ):
        hf.on(connection).publish("order.paid", {})


async def test_it_commits_with_the_work_on_sqlalchemy(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("*", to=sink, name="bus")
    engine = create_async_engine(direct(inbox.url).replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session, session.begin():
        made = await hf.on(session).publish("order.paid", {"n": 1}, headers={"a": "b"})
    await engine.dispose()
    assert [row["event"] for row in deliveries(inbox)] == [made.id]


def test_publish_sync(hf: Holdfast, inbox: Inbox) -> None:
    made = hf.publish_sync("order.paid", [1, 2])
    assert [row["id"] for row in events(inbox)] == [made.id]


def test_it_is_a_function_of_the_database(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("*", to=sink, name="bus")
    hf.publish_sync("first", {})  # stores the route
    id = inbox.one(
        """select holdfast.publish('order.paid', '{"n": 1}', key => 'order:1', version => 3, tenant => 'acme',
                                   headers => '{"trace": "1"}', source => 'legacy')"""
    )
    row = events(inbox)[-1]
    assert (row["id"], row["source"], row["version"], row["tenant"]) == (id, "legacy", 3, "acme")
    assert deliveries(inbox)[-1]["event"] == id


@pytest.mark.parametrize(
    "arguments, field",
    [
        ("'', '{}'", "type"), ("'a b', '{}'", "type"), ("null, '{}'", "type"), ("'t', null", "data"),
        ("'t', '{}', version => 0", "version"), ("'t', '{}', key => ''", "key"), ("'t', '{}', tenant => ''", "tenant"),
        ("'t', '{}', headers => '[]'", "headers"), ("""'t', '{}', headers => '{"Id": "1"}'""", "headers"),
        ("""'t', '{}', headers => '{"id": "1"}'""", "headers"), ("""'t', '{}', headers => '{"a": 1}'""", "headers"),
        ("""'t', '{}', headers => '{"a": "1\\n"}'""", "headers"), ("'t', '{}', key => E'a\\nb'", "key"),
        ("'t', '{}', tenant => E'\\u0085'", "tenant"), ("'t', '{}', source => E'\\r'", "source"),
    ],
)  # fmt: skip
def test_the_function_rejects_bad_input(inbox: Inbox, arguments: str, field: str) -> None:
    with pytest.raises(psycopg.Error, match=f"{field}: ") as refused:
        inbox.one(f"select holdfast.publish({arguments})")
    assert refused.value.sqlstate == "HF001"
    assert events(inbox) == []


@pytest.mark.parametrize(
    "field, type, options",
    [
        ("type", "", {}), ("type", "a b", {}), ("type", "é", {}), ("type", "x" * 129, {}), ("event", 1, {}),
        ("key", "t", {"key": ""}), ("key", "t", {"key": "x" * 513}), ("tenant", "t", {"tenant": "a\0"}),
        ("version", "t", {"version": 0}), ("version", "t", {"version": True}), ("id", "t", {"id": "x"}),
        ("headers", "t", {"headers": {"Trace": "x"}}), ("headers", "t", {"headers": {"source": "x"}}),
        ("headers.a", "t", {"headers": {"a": 1}}), ("headers.a", "t", {"headers": {"a": "1\r\nx: y"}}),
        ("key", "t", {"key": "a\nb"}), ("tenant", "t", {"tenant": "\x85"}), ("delay", "t", {"delay": 1}),
    ],
)  # fmt: skip
async def test_bad_input_is_rejected_before_anything_is_sent(
    hf: Holdfast, field: str, type: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await hf.publish(type, {}, **options)
    assert refused.value.field == field


async def test_data_must_be_storable_and_not_too_large(hf: Holdfast) -> None:
    for data, words in (({"a": object()}, "a"), ({"a": float("nan")}, "a"), ({"a": "x" * 2**20}, "the limit is")):
        with pytest.raises(InvalidInput, match=words):
            await hf.publish("order.paid", data)


async def test_an_id_stands_for_one_event(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("*", to=sink, name="bus")
    id = uuid4()
    first = await hf.publish("order.paid", {"n": 1}, id=id)
    again = await hf.publish("order.paid", {"n": 1}, id=id)
    assert (first.existed, again.existed, again.id, again.deliveries) == (False, True, id, 0)
    for type, n, key in (("order.paid", 2, None), ("order.lost", 1, None), ("order.paid", 1, "k")):
        with pytest.raises(IdempotencyConflict, match="use a new id for a new event"):
            await hf.publish(type, {"n": n}, id=id, key=key)
    assert len(events(inbox)) == len(deliveries(inbox)) == 1


async def test_an_id_of_long_ago_still_stands_for_its_event(hf: Holdfast, inbox: Inbox) -> None:
    id = uuid4()
    await hf.publish("order.paid", {"n": 1}, id=id)
    inbox.rows("update holdfast.events set published_at = now() - interval '20 days'")
    assert (await hf.publish("order.paid", {"n": 1}, id=id)).existed


async def test_many_at_once_with_one_id_make_one_event(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("*", to=sink, name="bus")
    id = uuid4()
    made = await asyncio.gather(*(hf.publish("order.paid", {"n": 1}, id=id) for _ in range(20)))
    assert [each.existed for each in made].count(False) == 1
    assert len(events(inbox)) == len(deliveries(inbox)) == 1


@pytest.mark.direct
@pytest.mark.parametrize("how", ["answer lost", "request late"])
async def test_a_call_that_gets_no_answer_makes_no_second_event(inbox: Inbox, sink: Sink, how: str) -> None:
    async with proxied(inbox.url) as proxy:
        hf = Holdfast(proxy.url)
        hf.relay("*", to=sink, name="bus")
        await hf.publish("warm.up", {})
        if how == "answer lost":
            proxy.cut_after(b"order.paid", b"SELECT 1")
        else:
            proxy.hold_back(b"order.paid")
        made = await hf.publish("order.paid", {"n": 1})
        assert not made.existed, "the caller does not see its own first try"
        if how == "answer lost":
            assert proxy.cuts == 1
        else:
            assert proxy.held_back
            proxy.deliver()
            await asyncio.sleep(0.3)
        await hf.close()
    assert [row["id"] for row in events(inbox) if row["type"] == "order.paid"] == [made.id]
    assert len(deliveries(inbox)) == 2


async def test_routes_of_the_code_are_there_before_the_first_worker_and_stay(
    hf: Holdfast, inbox: Inbox, sink: Sink
) -> None:
    hf.relay("order.*", to=sink, name="bus")
    await asyncio.gather(*(hf.publish("order.paid", {"n": n}) for n in range(10)))
    (route,) = inbox.rows("select * from holdfast.routes")
    assert (route["name"], route["types"], route["queue"], route["destination"]) == (
        "bus",
        ["order.*"],
        "out.bus",
        "sink",
    )
    assert len(deliveries(inbox)) == 10
    without = Holdfast(inbox.url)
    assert (await without.publish("order.paid", {})).deliveries == 1
    await without.close()


@pytest.mark.parametrize("types", [(), ("",), ("a b",), ("*.paid",), ("order.*.x",), (3,), ("order.**",)])
def test_patterns_are_types_or_beginnings(hf: Holdfast, sink: Sink, types: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match="types: expected"):
        hf.relay(*types, to=sink, name="bus")


def test_bad_routes_are_rejected(hf: Holdfast, sink: Sink) -> None:
    hf.relay("*", to=sink, name="bus")
    with pytest.raises(ConfigurationError, match="already a route 'bus'"):
        hf.relay("*", to=Sink(), name="bus")
    with pytest.raises(ConfigurationError, match="name: expected"):
        hf.relay("*", to=Sink(), name="Bus")
    with pytest.raises(ConfigurationError, match="to: expected a transport"):
        hf.relay("*", to="nats://bus", name="other")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "type, pattern, fits",
    [
        ("order.paid", "order.paid", True), ("order.paid", "order.*", True), ("order.paid", "*", True),
        ("order.paid", "order", False), ("order", "order.*", False), ("orders.paid", "order.*", False),
        ("order.paid", "order.pai", False), ("a_b", "a%*", False), ("axb", "a_b", False),
    ],
)  # fmt: skip
def test_what_a_pattern_matches(inbox: Inbox, type: str, pattern: str, fits: bool) -> None:
    assert inbox.one("select holdfast.matches(%s, array[%s, 'none'])", type, pattern) is fits


def test_the_id_of_a_delivery_is_stable_and_near_its_event(inbox: Inbox) -> None:
    event = UUID("01990000-1234-7abc-8def-0123456789ab")
    ids = [
        inbox.one("select holdfast.delivery_id(%s, %s, %s)", event, name, n)
        for name in ("bus", "other")
        for n in (0, 1)
    ]
    assert len(set(ids)) == 4
    assert {str(id)[:15] for id in ids} == {"01990000-1234-7"}, "they sort by time as their event does"
    assert {id.version for id in ids} == {7}
    assert ids[0] == inbox.one("select holdfast.delivery_id(%s, 'bus', 0)", event)
