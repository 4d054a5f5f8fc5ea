"""Kinds that wait and that no worker knows: what is found, at what cost, and how often it is said."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from holdfast.db.database import Database
from holdfast.db.link import Link
from holdfast.inbox.claim import Known
from holdfast.kinds import unknown
from holdfast.model.occurrences import Occurrences, Subscriber, Unknown
from holdfast.worker.unknown import NAME_EVERY, UnknownKinds
from tests.support.pooler import database_at, direct


@pytest.fixture
async def bystander(migrated_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(direct(migrated_url))
    yield connection
    await connection.close()


@pytest.fixture
def database(migrated_url: str) -> Database:
    return database_at(migrated_url)


async def find(database: Database, *queues: str, **known: tuple[int, int]) -> list[Unknown]:
    link = Link(database, "test")
    try:
        knows = Known(known)
        return await unknown.find(link, queues or ["default"], knows.kinds, knows.spread)
    finally:
        await link.close()


async def enqueue(bystander: Any, kind: str, count: int = 1, **options: Any) -> None:
    named = "".join(f", {name} => {value!r}" for name, value in options.items())
    await bystander.execute(
        f"select holdfast.enqueue($1, '{{}}'{named}) from generate_series(1, $2)".replace("True", "true"), kind, count
    )


async def test_what_waits_and_is_not_known(database: Database, bystander: Any) -> None:
    await enqueue(bystander, "known", 3)
    await enqueue(bystander, "strange", 2)
    await enqueue(bystander, "strange", priority=3)
    await enqueue(bystander, "strange", version=2)
    await enqueue(bystander, "in_order", key="a", ordered=True)
    await enqueue(bystander, "elsewhere", queue="mail")
    await enqueue(bystander, "later", delay="1 hour")
    await bystander.execute("insert into holdfast.queues (name, owned) values ('owned', true)")
    await enqueue(bystander, "of_an_owner", queue="owned", key="a")
    await bystander.execute(
        "insert into holdfast.kinds (kind, version, app, arguments) values ('strange', 2, 'shop', '{}')"
    )
    found = await find(database, "default", "owned", known=(1, 1))
    assert found == [
        Unknown("default", "strange", 1, 3, False, "shop"),
        Unknown("default", "in_order", 1, 1, False, None),
        Unknown("default", "strange", 2, 1, False, "shop"),
        Unknown("owned", "of_an_owner", 1, 1, False, None),
    ]
    assert await find(database, known=(1, 1), strange=(1, 2), in_order=(1, 1)) == []


async def test_kinds_that_another_live_worker_knows_are_left_out(database: Database, bystander: Any) -> None:
    await enqueue(bystander, "strange")
    register = "insert into holdfast.workers (id, metadata, last_seen_at) values ($1, $2, now() - $3 * interval '1 s')"
    metadata = {"queues": ["default"], "kinds": {"strange": [1, 1]}}
    await bystander.execute(register, "gone", json.dumps(metadata), 60)
    await bystander.execute(register, "other queue", json.dumps({**metadata, "queues": ["mail"]}), 0)
    assert len(await find(database, known=(1, 1))) == 1
    await bystander.execute(register, "knows it", json.dumps(metadata), 0)
    assert await find(database, known=(1, 1)) == []


async def test_it_counts_no_further_than_it_looks(database: Database, bystander: Any) -> None:
    await enqueue(bystander, "strange", unknown.LOOK_AT + 500)
    assert await find(database) == [Unknown("default", "strange", 1, unknown.LOOK_AT, True, None)]


async def test_it_is_said_once_then_for_a_new_kind_then_now_and_then(
    database: Database, bystander: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[list[str]] = []

    class Hears(Subscriber):
        def kinds_unknown(self, waiting: Sequence[Unknown]) -> None:
            said.append([each.kind for each in waiting])

    kinds = UnknownKinds(database, ["default"], Known({"known": (1, 1)}), Occurrences(Hears()), 10)
    now = 1000.0
    monkeypatch.setattr("holdfast.worker.unknown.time.monotonic", lambda: now)
    try:
        await kinds.look()
        assert said == []
        await enqueue(bystander, "one", 2)
        for _ in range(3):
            await kinds.look()
        assert said == [["one"]]
        await enqueue(bystander, "two")
        await kinds.look()
        await kinds.look()
        assert said[1:] == [["one", "two"]]
        now += NAME_EVERY
        await kinds.look()
        await kinds.look()
        assert said[2:] == [["one", "two"]]
        await bystander.execute("delete from holdfast.inbox where kind = 'one'")
        await kinds.look()
        assert len(said) == 3
    finally:
        await kinds._link.close()
