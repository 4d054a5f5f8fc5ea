"""Any number of deliveries of a message make one job, and no message is lost."""

import asyncio
import base64
import json
import logging
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.waiting import until_blocked
from tests.support.workers import Inbox

from holdfast import Event, Holdfast, Received
from holdfast.receiving.arrivals import MOST_BODY, UNREADABLE, Message, Source, message_key
from holdfast.receiving.storing import store

SOURCE = Source("shop", lambda kind: None)


def event(id: str = "e1", body: bytes = b'{"order_id": 1}', **attributes: str) -> Message:
    found = {"specversion": "1.0", "id": id, "source": "shop", "type": "order.paid", **attributes}
    return Message(f"stream:{id}", body, "application/json", found)


async def keep(hf: Holdfast, *messages: Message, source: Source = SOURCE) -> list[Received]:
    return await store(hf._calls, source, [source.read(each) for each in messages])


def rows(inbox: Inbox) -> list[dict[str, Any]]:
    return inbox.rows("select * from holdfast.inbox order by seq")


async def test_a_batch_is_stored_in_its_order(hf: Holdfast, inbox: Inbox) -> None:
    received = await keep(hf, *(event(f"e{n}", type=f"t{n % 2}", partitionkey="k") for n in range(50)))
    found = rows(inbox)
    assert [row["id"] for row in found] == [each.job for each in received]
    assert [row["payload"]["event"]["id"] for row in found] == [f"e{n}" for n in range(50)]
    assert {row["queue"] for row in found} == {"in.shop"}
    assert {row["partition_key"] for row in found} == {"k"}
    assert not any(each.duplicate for each in received)


async def test_duplicates_find_the_first_job(hf: Holdfast, inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    (first,) = await keep(hf, event())
    again, new, twice = await keep(hf, event(body=b'{ "order_id" : 1 }'), event("e2"), event("e2"))
    assert (again.job, again.duplicate, again.differs) == (first.job, True, False)
    assert (new.duplicate, twice.duplicate, twice.job) == (False, True, new.job)
    assert len(rows(inbox)) == 2
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        (other,) = await keep(hf, event(body=b'{"order_id": 2}'))
    assert (other.job, other.duplicate, other.differs) == (first.job, True, True)
    assert rows(inbox)[0]["payload"]["event"]["data"] == {"order_id": 1}, "the first one stands"
    assert "source shop: 1 messages have the id of an earlier one and another body" in caplog.text
    (typed,) = await keep(hf, event(type="order.lost"))
    assert typed.differs


async def test_sources_do_not_share_ids(hf: Holdfast, inbox: Inbox) -> None:
    bank = Source("bank", lambda kind: None)
    await keep(hf, event("1"), event("1", source="other"))
    await keep(hf, event("1"), event("1", source="other"), source=bank)
    assert [row["kind"] for row in rows(inbox)] == ["shop/order.paid"] * 2 + ["bank/order.paid"] * 2


@given(
    st.lists(
        st.tuples(st.sampled_from(["shop", "a", "a.b"]), st.text(), st.text()), min_size=2, max_size=2, unique=True
    )
)
@example([("a", "", "x"), ("a", "x", "")])
@example([("a", "b/c", "d"), ("a", "b", "c/d")])
@example([("a", "%2F", "/"), ("a", "/", "%2F")])
@example([("a", "", "\ud800"), ("a", "", "\\ud800")])
@example([("a", "x" * 600, "y"), ("a", "x" * 601, "y")])
def test_different_messages_have_different_keys(found: list[tuple[str, str, str]]) -> None:
    one, two = (message_key(*each) for each in found)
    assert one != two
    assert all(len(key.encode()) <= 512 and key.isascii() and "\0" not in key for key in (one, two))


async def test_concurrent_deliveries_make_one_job(hf: Holdfast, inbox: Inbox) -> None:
    received = [one for (one,) in await asyncio.gather(*(keep(hf, event()) for _ in range(50)))]
    assert len({each.job for each in received}) == 1
    assert sorted(each.duplicate for each in received) == [False] + [True] * 49
    assert len(rows(inbox)) == 1


async def test_one_that_waits_for_another_sees_its_body(hf: Holdfast, one: Any, two: Any) -> None:
    """The duplicate waits for the first one's transaction, and must see what that commits."""
    transaction = one.connection.transaction()
    await transaction.start()
    await one.connection.execute(
        "insert into holdfast.dedupe (key, job_id, kind, payload_hash) values ($1, gen_random_uuid(), 'k', '')",
        message_key("shop", "shop", "e1"),
    )
    waiting = asyncio.create_task(keep(hf, event()))
    await until_blocked(two.connection)
    await transaction.commit()
    assert [(each.duplicate, each.differs) for each in await waiting] == [(True, True)]


async def test_batches_in_opposite_orders_do_not_deadlock(hf: Holdfast, inbox: Inbox) -> None:
    messages = [event(f"e{n}") for n in range(40)]
    batches = [messages, messages[::-1]] * 6
    await asyncio.gather(*(keep(hf, *batch) for batch in batches))
    assert len(rows(inbox)) == 40


async def test_a_message_that_ended_is_known_for_thirty_days(hf: Holdfast, inbox: Inbox) -> None:
    @hf.on_event("order.paid", source="shop")
    async def paid(event: Event[Any]) -> None: ...

    @hf.task
    async def plain() -> None: ...

    (first,) = await keep(hf, event())
    await plain.options(idempotency_key="p").enqueue()
    assert inbox.one("select count(*) from holdfast.dedupe where expires_at is null") == 2
    async with hf.worker():
        await hf.result(first.job, timeout="20s")
        await asyncio.to_thread(inbox.wait, [row["job_id"] for row in inbox.rows("select job_id from holdfast.dedupe")])
    days = inbox.rows(
        "select round(extract(epoch from expires_at - now()) / 86400)::int as days from holdfast.dedupe order by key"
    )
    assert [row["days"] for row in days] == [30, 7]
    assert (await keep(hf, event()))[0].duplicate
    assert not rows(inbox)


@pytest.mark.parametrize("verb", ["cancel", "discard", "expire", "archive"])
async def test_whatever_ends_it(hf: Holdfast, inbox: Inbox, verb: str) -> None:
    (first,) = await keep(hf, event())
    match verb:
        case "cancel":
            await hf.cancel(first.job)
        case "discard":
            inbox.rows("update holdfast.inbox set status = 'dead_letter', dead_at = now()")
            inbox.rows("select * from holdfast.discard(array[%s::uuid])", first.job)
        case "expire":
            inbox.rows("update holdfast.inbox set expires_at = now() - interval '1 s'")
            inbox.rows("select * from holdfast.expire_jobs(array[%s::uuid])", first.job)
        case "archive":
            inbox.rows("update holdfast.inbox set status = 'completed', completed_at = now()")
            await hf._calls.run("housekeeping", "archive", 10, UUID(int=0))
    assert not rows(inbox)
    (row,) = inbox.rows("select extract(epoch from expires_at - now()) / 86400 as days from holdfast.dedupe")
    assert float(row["days"]) == pytest.approx(30, abs=0.1)


UNREADABLE_ONES = {
    "not json": event(body=b"{"),
    "no type": Message("s:1", b"{}", "application/json", {"specversion": "1.0", "id": "1", "source": "s"}),
    "no attributes": Message("s:2", b'{"type": "x"}', None),
    "another version": event(specversion="0.3"),
    "not utf-8": event(body=b'"\xff\xfe"'),
    "nested": event(body=b"[" * 200_000 + b"]" * 200_000),
    "NUL in the data": event(body=rb'{"a": "\u0000"}'),
    "half a pair": event(body=rb'{"a": "\ud800"}'),
    "a number without end": event(body=b"1e999999"),
    "NUL in the type": event(type="a\0b"),
    "NUL in the id": event("a\0b"),
    "a long type": event(type="x" * 128),
    "too large": event(body=b'"' + b"x" * MOST_BODY + b'"'),
    "base64": Message(
        "s:3",
        json.dumps({"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data_base64": "AA=="}).encode(),
        "application/cloudevents+json",
    ),
    "bytes": Message("s:4\0\ud800", bytes(range(256)), "text/\0", {"a\0": "\ud800"}),
}


@pytest.mark.parametrize("name", UNREADABLE_ONES)
async def test_what_cannot_be_read_is_kept_as_it_came(
    hf: Holdfast, inbox: Inbox, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    message = UNREADABLE_ONES[name]
    fine, bad, last = await keep(hf, event("before"), message, event("after"))
    assert [fine.kind, bad.kind, last.kind] == ["shop/order.paid", UNREADABLE, "shop/order.paid"]
    assert bad.unreadable and "cannot be read; they are stored as jobs of the kind @unreadable" in caplog.text
    row = inbox.job(bad.job)
    assert (row["status"], row["queue"], row["kind"]) == ("pending", "in.shop", UNREADABLE)
    assert base64.b64decode(row["payload"]["body"]) == message.body
    assert row["payload"]["reason"]
    if name == "no type":
        assert row["payload"]["attributes"] == dict(message.attributes)
    assert (await keep(hf, message))[0].duplicate, "also this one is stored once"
    assert len(rows(inbox)) == 3


@pytest.mark.parametrize("key", ["x" * 600, "é" * 300, "k"])
async def test_a_key_of_any_length_is_one(hf: Holdfast, inbox: Inbox, key: str) -> None:
    await keep(hf, event("1", partitionkey=key), event("2", partitionkey=key), event("3", partitionkey=key + "y"))
    first, second, third = (row["partition_key"] for row in rows(inbox))
    assert first == second != third
    assert rows(inbox)[0]["payload"]["event"]["key"] == key


async def test_stats_name_what_waits(hf: Holdfast, inbox: Inbox) -> None:
    await keep(hf, event(), event(type="order.lost", id="e2"), event("e3", body=b"{"))
    found = {(row["kind"], row["queue"]) for row in await hf._calls.run("views", "unclaimable")}
    assert found == {("shop/order.paid", "in.shop"), ("shop/order.lost", "in.shop"), (UNREADABLE, "in.shop")}


def test_any_message_becomes_an_arrival() -> None:
    @given(
        st.binary(max_size=300) | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(str).map(str.encode),
        st.dictionaries(
            st.sampled_from(["specversion", "id", "source", "type", "time", "schemaversion", "partitionkey", "x"]),
            st.just("1.0") | st.text(max_size=20),
        ),
        st.sampled_from([None, "application/json", "application/cloudevents+json", "x"]),
    )
    def check(body: bytes, attributes: dict[str, str], content_type: str | None) -> None:
        message = Message("id", body, content_type, attributes)
        for read in (SOURCE.read, SOURCE.read_request):
            arrival = read(message)
            assert msgspec.json.decode(arrival.payload)["type"] == arrival.terms.kind
            assert len(arrival.idempotency_key) <= 512

    check()
