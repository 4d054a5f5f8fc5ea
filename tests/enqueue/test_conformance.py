"""One suite for every kind of connection that can carry a job (P2, P6, P17)."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
import sqlalchemy.ext.asyncio as sa_async
import sqlalchemy.orm as sa_orm
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import CALLERS, OWN, Door, dialect, django_at, settle
from tests.support.pooler import direct

from holdfast import Holdfast, IdempotencyConflict, InvalidInput, InvalidPayload, NotInTransaction, Task
from holdfast.model.ids import new_id
from holdfast.transports import Message, Settle

SendReceipt = Task[..., None]


@pytest.fixture(params=[*CALLERS.values()], ids=[*CALLERS])
def door(request: pytest.FixtureRequest) -> Door:
    """A caller's connection."""
    opened: Door = request.param
    return opened


@pytest.fixture(params=[*CALLERS.values(), *OWN.values()], ids=[*CALLERS, *OWN])
def any_door(request: pytest.FixtureRequest) -> Door:
    """A caller's connection, or one of our own."""
    opened: Door = request.param
    return opened


class Nowhere:
    """A destination that nobody opens."""

    batch, parallel, shown = 1, 1, "nowhere"

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def send(self, batch: Sequence[Message], settle: Settle) -> None: ...


class Undo(Exception):
    """Raised by a test to end a block without success."""


async def test_a_commit_brings_the_job(door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox) -> None:
    async with door(migrated_url) as seat:
        await seat.run("insert into orders values (1)")
        job = await seat.enqueue(send_receipt, {"order_id": 1}, key="order:1", headers={"traceparent": "00-ab"})
        assert not job.existed
        assert await inbox.count() == 0, "not before the commit"
    (row,) = await inbox.jobs(
        "id, kind, payload, partition_key, partition_bucket, queue, priority, max_attempts, headers, status::text, "
        "attempts, lease_generation, payload_version, idempotency_key, available_at <= clock_timestamp() as due, "
        "holdfast.bucket(partition_key) as bucket"
    )
    assert dict(row) | {"payload": json.loads(row["payload"]), "headers": json.loads(row["headers"])} == {
        "id": job.id, "kind": "send_receipt", "payload": {"type": "send_receipt", "order_id": 1},
        "partition_key": "order:1", "partition_bucket": row["bucket"], "queue": "mail", "priority": 2,
        "max_attempts": 7, "headers": {"traceparent": "00-ab"}, "status": "pending", "attempts": 0,
        "lease_generation": 0, "payload_version": 1, "idempotency_key": None, "due": True, "bucket": row["bucket"],
    }  # fmt: skip
    assert await inbox.count("orders") == 1


async def test_a_rollback_takes_it_back(door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox) -> None:
    with pytest.raises(Undo):
        async with door(migrated_url) as seat:
            await seat.run("insert into orders values (1)")
            await seat.enqueue(send_receipt, {"order_id": 1}, idempotency_key="receipt-1")
            await seat.enqueue_many(send_receipt, [{"order_id": 1}, {"order_id": 2}])
            raise Undo
    assert [await inbox.count(table) for table in ("orders", "holdfast.inbox", "holdfast.dedupe")] == [0, 0, 0]


async def test_an_event_is_published_on_it(door: Door, hf: Holdfast, migrated_url: str, inbox: Inbox) -> None:
    """It commits with the work, a savepoint takes back its own, and a rollback takes all."""
    hf.relay("order.*", to=Nowhere(), name="bus")
    async with door(migrated_url) as seat:
        await seat.run("insert into orders values (1)")
        made = await settle(hf.on(seat.connection).publish("order.paid", {"n": 1}, key="k", headers={"trace": "ä"}))
        with pytest.raises(Undo):
            async with seat.nested():
                await settle(hf.on(seat.connection).publish("order.paid", {"n": 2}))
                raise Undo
        assert await inbox.count("holdfast.events") == 0, "not before the commit"
    with pytest.raises(Undo):
        async with door(migrated_url) as seat:
            await settle(hf.on(seat.connection).publish("order.paid", {"n": 3}))
            raise Undo
    (row,) = await inbox.connection.fetch(
        "select e.id, e.key, e.data, e.headers, o.route from holdfast.events e join holdfast.outbox o on o.event = e.id"
    )
    assert dict(row) | {"data": json.loads(row["data"]), "headers": json.loads(row["headers"])} == {
        "id": made.id, "key": "k", "data": {"n": 1}, "headers": {"trace": "ä"}, "route": "bus",
    }  # fmt: skip
    assert await inbox.count("holdfast.events") == await inbox.count() == 1


async def test_a_savepoint_rolled_back_takes_only_its_own(
    door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    async with door(migrated_url) as seat:
        kept = await seat.enqueue(send_receipt, {"order_id": 1})
        with pytest.raises(Undo):
            async with seat.nested():
                await seat.enqueue(send_receipt, {"order_id": 2}, idempotency_key="receipt-2")
                raise Undo
        made = await seat.enqueue(send_receipt, {"order_id": 2}, idempotency_key="receipt-2")
        assert not made.existed, "the key went with the savepoint"
    assert [row["id"] for row in await inbox.jobs()] == [kept.id, made.id]


async def test_a_repeated_key_finds_the_first_job(
    any_door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    async with any_door(migrated_url) as seat:
        first = await seat.enqueue(send_receipt, {"order_id": 1}, idempotency_key="receipt-1")
        assert not first.existed
        within = await seat.enqueue(send_receipt, {"order_id": 1}, idempotency_key="receipt-1")
        assert (within.id, within.existed) == (first.id, True)
    async with any_door(migrated_url) as seat:
        again = await seat.enqueue(send_receipt, {"order_id": 1}, idempotency_key="receipt-1")
        assert (again.id, again.existed) == (first.id, True)
        other = await seat.enqueue(send_receipt, {"order_id": 2}, idempotency_key="receipt-2")
    assert [row["id"] for row in await inbox.jobs()] == [first.id, other.id], "and the transaction went on"


async def test_a_key_that_stands_for_other_work_is_an_error_and_nothing_else(
    any_door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    async with any_door(migrated_url) as seat:
        first = await seat.enqueue(send_receipt, {"order_id": 1}, idempotency_key="receipt-1")
    async with any_door(migrated_url) as seat:
        with pytest.raises(IdempotencyConflict, match=f"idempotency_key: 'receipt-1' .*{first.id}.*another payload"):
            await seat.enqueue(send_receipt, {"order_id": 2}, idempotency_key="receipt-1")
        other = await seat.enqueue(send_receipt, {"order_id": 2})
    assert [row["id"] for row in await inbox.jobs()] == [first.id, other.id]


async def test_one_conflict_refuses_all_of_many(
    any_door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    async with any_door(migrated_url) as seat:
        first = await seat.enqueue(send_receipt, {"order_id": 1}, idempotency_key="m")
    async with any_door(migrated_url) as seat:
        rows = [{"order_id": n} for n in range(5)]
        with pytest.raises(IdempotencyConflict, match="'m'"):
            await seat.enqueue_many(send_receipt, rows, keys=["a", "z", "m", "b", "y"])
        await seat.enqueue(send_receipt, {"order_id": 6}, idempotency_key="z")
    assert (await inbox.jobs())[0]["id"] == first.id
    assert await inbox.count() == await inbox.count("holdfast.dedupe") == 2


async def test_a_refused_payload_stores_nothing_and_breaks_nothing(
    any_door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    async with any_door(migrated_url) as seat:
        refusals: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"order_id": "one"}, {}),
            ({"order_id": 1, "note": "\0"}, {}),
            ({"order_id": 1, "note": "\ud800"}, {}),
            ({"order_id": 1, "note": "x" * 2_000_000}, {}),
            ({"order_id": 1}, {"key": "é" * 257}),
            ({"order_id": 1}, {"at": datetime(2030, 1, 1)}),  # noqa: DTZ001 - the point
            ({"order_id": 1}, {"delay": "1000000d"}),
        ]
        for arguments, options in refusals:
            with pytest.raises(InvalidInput):
                await seat.enqueue(send_receipt, arguments, **options)
        with pytest.raises(InvalidPayload, match=r"\[1\].order_id"):
            await seat.enqueue_many(send_receipt, [{"order_id": 1}, {"order_id": 1.5}])
        job = await seat.enqueue(send_receipt, {"order_id": 1})
    assert [row["id"] for row in await inbox.jobs()] == [job.id]


async def test_many_come_back_in_the_order_given(
    any_door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    async with any_door(migrated_url) as seat:
        plain = await seat.enqueue_many(send_receipt, [{"order_id": n} for n in range(50)])
        keyed = await seat.enqueue_many(
            send_receipt, [{"order_id": n} for n in range(50)], keys=[f"k{50 - n}" for n in range(50)]
        )
        repeated = await seat.enqueue_many(send_receipt, [{"order_id": 7}, {"order_id": 3}], keys=["k43", "k47"])
        assert await seat.enqueue_many(send_receipt, []) == []
    assert [(job.id, job.existed) for job in repeated] == [(keyed[7].id, True), (keyed[3].id, True)]
    stored = {row["id"]: json.loads(row["payload"])["order_id"] for row in await inbox.jobs()}
    assert len(stored) == 100
    assert [stored[job.id] for job in plain] == [stored[job.id] for job in keyed] == list(range(50))


async def test_delay_and_instant(any_door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox) -> None:
    noon = datetime(2099, 1, 1, 12, tzinfo=UTC)
    async with any_door(migrated_url) as seat:
        await seat.enqueue(send_receipt, {"order_id": 1}, delay="5m")
        await seat.enqueue(send_receipt, {"order_id": 2}, delay=timedelta(minutes=5), idempotency_key="2")
        await seat.enqueue_many(send_receipt, [{"order_id": 3}], delay=300)
        await seat.enqueue(send_receipt, {"order_id": 4}, at=noon)
        await seat.enqueue(send_receipt, {"order_id": 5}, at=noon, idempotency_key="5")
        await seat.enqueue(send_receipt, {"order_id": 6}, at=datetime(2001, 1, 1, tzinfo=UTC))
    rows = await inbox.jobs("available_at, available_at - clock_timestamp() as ahead")
    for row in rows[:3]:
        assert timedelta(minutes=4) < row["ahead"] <= timedelta(minutes=5)
    assert [row["available_at"] for row in rows[3:5]] == [noon, noon]
    assert timedelta(minutes=-1) < rows[5]["ahead"] <= timedelta(0), "the past means now: the claim relies on it"


async def test_an_id_of_the_callers_own_may_be_repeated(
    any_door: Door, migrated_url: str, send_receipt: SendReceipt, inbox: Inbox
) -> None:
    id = new_id()
    async with any_door(migrated_url) as seat:
        first = await seat.enqueue(send_receipt, {"order_id": 1}, id=id)
    async with any_door(migrated_url) as seat:
        again = await seat.enqueue(send_receipt, {"order_id": 1}, id=id)
        with pytest.raises(IdempotencyConflict, match=f"id: .*{id}.*another payload"):
            await seat.enqueue(send_receipt, {"order_id": 2}, id=id)
    assert (first.id, first.existed, again.id, again.existed) == (id, False, id, True)
    assert await inbox.count() == 1


# Outside a transaction

ADVICE = "Begin one.*or leave the connection out"


async def test_asyncpg_outside_a_transaction(migrated_url: str, send_receipt: SendReceipt, inbox: Inbox) -> None:
    connection = await asyncpg.connect(direct(migrated_url))
    try:
        with pytest.raises(NotInTransaction, match=ADVICE):
            await send_receipt.on(connection).enqueue(1)
        with pytest.raises(NotInTransaction, match=ADVICE):
            await send_receipt.on(connection).enqueue_many([{"order_id": 1}])
    finally:
        await connection.close()
    assert await inbox.count() == 0


async def test_psycopg_in_autocommit(migrated_url: str, send_receipt: SendReceipt, inbox: Inbox) -> None:
    with (
        psycopg.connect(direct(migrated_url), autocommit=True) as connection,
        pytest.raises(NotInTransaction, match=ADVICE),
    ):
        send_receipt.on(connection).enqueue(1)
    async with await psycopg.AsyncConnection.connect(direct(migrated_url), autocommit=True) as waited:
        with pytest.raises(NotInTransaction, match=ADVICE):
            await send_receipt.on(waited).enqueue(1)
    assert await inbox.count() == 0


def _engine(url: str) -> sa.Engine:
    return sa.create_engine(dialect(url, "psycopg"), isolation_level="AUTOCOMMIT")


async def test_sqlalchemy_in_autocommit(migrated_url: str, send_receipt: SendReceipt, inbox: Inbox) -> None:
    engine = _engine(migrated_url)
    with engine.connect() as connection, pytest.raises(NotInTransaction, match=ADVICE):
        send_receipt.on(connection).enqueue(1)
    with sa_orm.Session(engine) as session, pytest.raises(NotInTransaction, match=ADVICE):
        send_receipt.on(session).enqueue(1)
    engine.dispose()
    for driver in ("asyncpg", "psycopg"):
        waiting = sa_async.create_async_engine(dialect(migrated_url, driver))
        async with waiting.connect() as plain:
            chosen = await plain.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(NotInTransaction, match=ADVICE):
                await send_receipt.on(chosen).enqueue(1)
        async with sa_async.AsyncSession(waiting.execution_options(isolation_level="AUTOCOMMIT")) as asession:
            with pytest.raises(NotInTransaction, match=ADVICE):
                await send_receipt.on(asession).enqueue(1)
        await waiting.dispose()
    assert await inbox.count() == 0


async def test_django_in_autocommit(migrated_url: str, send_receipt: SendReceipt, inbox: Inbox) -> None:
    with django_at(migrated_url) as connection, pytest.raises(NotInTransaction, match=ADVICE):
        send_receipt.on(connection).enqueue(1)
    assert await inbox.count() == 0


# Things that are no connection

NOT_CONNECTIONS: dict[str, Callable[[str], Any]] = {
    "an address": lambda url: url,
    "a SQLAlchemy engine": lambda url: sa.create_engine(dialect(url, "psycopg")),
    "an object": lambda url: object(),
    "an asyncpg pool": lambda url: asyncpg.create_pool(direct(url), min_size=0),
}


@pytest.mark.parametrize("make", NOT_CONNECTIONS.values(), ids=NOT_CONNECTIONS.keys())
async def test_what_is_no_connection_is_refused_by_name(
    make: Callable[[str], Any], migrated_url: str, send_receipt: SendReceipt
) -> None:
    thing = make(migrated_url)
    with pytest.raises(InvalidInput, match=r"on: expected .*; ") as refused:
        await settle(send_receipt.on(thing).enqueue(1))
    assert refused.value.field == "on"
