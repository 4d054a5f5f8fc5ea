"""The report of the hottest keys: right on a small inbox, bounded and near enough on a large one."""

import json
from typing import Any

from tests.support.inbox import Session
from tests.support.plans import Plan

ALL_PAGES = 1_000_000


async def hottest(
    one: Session, queue: str | None = None, limit: int = 20, pages: int = ALL_PAGES
) -> list[dict[str, Any]]:
    return [dict(row) for row in await one.run("views", "hot_keys", queue, limit, pages)]


async def test_the_hottest_come_first_with_their_counts(one: Session) -> None:
    await one.add(5, key="tenant:1")
    hot = await one.add(9, key="tenant:2")
    await one.add(1, key="tenant:3")
    await one.add(7, key="tenant:2", queue="mail")
    await one.connection.execute(
        "update holdfast.inbox set status = 'processing', claimed_by = 'w7' where id = $1", hot[3]
    )
    await one.connection.execute("update holdfast.inbox set status = 'blocked' where id = any ($1)", hot[5:])
    await one.connection.execute("update holdfast.inbox set status = 'dead_letter' where id = $1", hot[0])
    await one.connection.execute(
        "update holdfast.inbox set created_at = holdfast.clock() - interval '1 h' where id = $1", hot[1]
    )
    first, second, third = await hottest(one)
    assert (first["queue"], first["key"], first["live"]) == ("default", "tenant:2", 8)
    assert (first["pending"], first["blocked"], first["processing"]) == (3, 4, 1)
    assert (first["head"], first["holder"], first["share"]) == (hot[3], "w7", 1.0)
    assert 3600 <= first["age"] < 3700
    assert (second["queue"], second["live"], second["holder"]) == ("mail", 7, None)
    assert (third["key"], third["live"]) == ("tenant:1", 5)
    assert [row["live"] for row in await hottest(one, queue="mail")] == [7]
    assert len(await hottest(one, limit=1)) == 1
    assert await hottest(one, queue="none") == []


async def test_keys_of_single_jobs_are_left_out(one: Session) -> None:
    await one.connection.execute("select holdfast.enqueue('job') from generate_series(1, 50)")
    await one.add(2, key="tenant:1")
    assert [row["key"] for row in await hottest(one)] == ["tenant:1"]


async def test_the_holder_of_an_ordered_key_is_found_though_the_sample_missed_it(one: Session) -> None:
    ids = await one.add(3000, key="tenant:1")
    await one.connection.execute("update holdfast.inbox set ordered = true")
    await one.connection.execute(
        "update holdfast.inbox set status = 'processing', claimed_by = 'w7' where id = $1", ids[0]
    )
    for _ in range(20):
        for row in await hottest(one, pages=20):
            assert row["share"] < 0.5
            assert (row["head"], row["holder"]) == (ids[0], "w7")


async def test_a_large_inbox_is_read_in_part(one: Session) -> None:
    await one.connection.execute("""
        insert into holdfast.inbox (partition_key, partition_bucket, payload)
        select case when n % 2 = 0 then 'hot' when n % 10 = 1 then 'warm' else 'key ' || n % 5000 end, 1,
               '{"type": "job"}'
        from generate_series(1, 60000) n
    """)
    rows = await hottest(one, pages=200)
    assert [row["key"] for row in rows[:2]] == ["hot", "warm"]
    assert 20_000 < rows[0]["live"] < 42_000
    assert rows[0]["share"] < 0.2
    text = await one.connection.fetchval(
        f"explain (analyze, buffers, timing off, format json) {one.database.sql('views', 'hot_keys')}", None, 20, 200
    )
    assert Plan(json.loads(text)[0]["Plan"]).buffers < 200 * 1.5 + 20 * 8
