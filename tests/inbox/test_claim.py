"""The claim: which rows it takes, in which order, what it writes, and that nobody waits for anybody."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.support.gates import WAITS, delay_late_claims, gate
from tests.support.inbox import JOB, Session, claim_lanes, move_clock, until
from tests.support.pooler import database_at, direct

from holdfast.db.database import Database
from holdfast.db.link import Link
from holdfast.inbox import claim as free
from holdfast.inbox import guarded
from holdfast.inbox.about import about
from holdfast.inbox.claim import FreeCourse, Known, claims_of
from holdfast.inbox.claimer import Claimer
from holdfast.inbox.ending import write
from holdfast.model.floor import START
from holdfast.model.job import Claim
from holdfast.model.outcome import AttemptFailed, Completed, HandedBack, Outcome


async def test_only_rows_that_are_pending_and_due(one: Session) -> None:
    (due,) = await one.add()
    (future,) = await one.add(due=3600)
    others = await one.add(5)
    for id, status in zip(others, ("processing", "completed", "failed", "dead_letter", "blocked"), strict=True):
        await one.connection.execute("update holdfast.inbox set status = $2 where id = $1", id, status)
    assert [claim.id for claim in await one.claim()] == [due]
    assert await one.claim() == []
    assert (await one.row(future))["status"] == "pending"

    await move_clock(one.connection, 3601)
    assert [claim.id for claim in await one.claim()] == [future]


COLUMNS = {
    "lease_generation": "generation",
    "attempts": "attempt",
    "payload_version": "version",
    "partition_key": "key",
}
"""Those that have another name than the field of a `Claim`."""


async def columns(url: str, statement: str) -> list[str]:
    """What the server calls the columns of a statement of the inbox; those of a claim by the names of its fields."""
    connection = await asyncpg.connect(direct(url))
    try:
        described = await connection.prepare(database_at(url).sql("inbox", statement))
        return [COLUMNS.get(column.name, column.name) for column in described.get_attributes()]
    finally:
        await connection.close()


async def test_the_columns_of_the_free_claim_are_the_fields_of_a_claim(migrated_url: str) -> None:
    """They are read by position."""
    names = await columns(migrated_url, "claim")
    assert tuple(names[free.CLAIM]) == Claim.__struct_fields__[1:15]
    assert (names[free.RANK], names[free.WAITED], names[free.ABOUT :]) == ("rank", "waited", ["about"])


async def test_the_columns_of_the_guarded_claim_are_the_fields_of_a_claim(migrated_url: str) -> None:
    """They are read by position."""
    names = await columns(migrated_url, "claim_guarded")
    assert tuple(names[guarded.CLAIM]) == Claim.__struct_fields__[1:17]
    assert names[guarded.PLACE] == ["available_at", "seq"]
    assert names[guarded.ABOUT :] == ["about"]


async def test_at_most_the_limit_and_oldest_first(one: Session) -> None:
    ids = await one.add(30)
    assert [claim.id for claim in await one.claim(limit=25)] == ids[:25]
    assert [claim.id for claim in await one.claim(limit=25)] == ids[25:]
    assert await one.claim(limit=25) == []


async def test_one_statement_sets_everything(one: Session) -> None:
    (id,) = await one.add(key="order:1", idempotency_key="k")
    await one.connection.execute(
        'update holdfast.inbox set lease_generation = 7, attempts = 2, headers = \'{"a": "b"}\' where id = $1', id
    )
    *rows, last = await one.claim_rows("w1", 25, lease=90.0)
    (claim,), at = claims_of("w1", rows), about(last["about"]).at
    row = await one.row(id)
    assert (row["status"], row["claimed_by"], row["claimed_at"]) == ("processing", "w1", at)
    assert row["lease_expires_at"] == at + timedelta(seconds=90)
    assert (row["lease_generation"], row["attempts"], row["crashes"]) == (8, 3, 0)
    assert (claim.id, claim.generation, claim.attempt, claim.max_attempts) == (id, 8, 3, 5)
    assert (claim.fence, claim.kind, claim.version) == (row["fence"], "job", 1)
    assert (claim.queue, claim.key, claim.idempotency_key) == ("default", "order:1", "k")
    assert json.loads(claim.payload) == {"type": "job", "n": 1}
    assert claim.headers is not None
    assert json.loads(claim.headers) == {"a": "b"}
    assert claim.cancelled is False


async def test_fences_rise_across_jobs_and_generations_within_one(one: Session) -> None:
    await one.add(3)
    fences = []
    for round in range(1, 4):
        claims = await one.claim()
        assert {claim.generation for claim in claims} == {round}
        fences.append([claim.fence for claim in claims])
        await one.inbox("hand_back", [c.id for c in claims], [c.generation for c in claims], "w1")
        await move_clock(one.connection, round)
    assert len({fence for batch in fences for fence in batch}) == 9
    assert max(fences[0]) < min(fences[1]) <= max(fences[1]) < min(fences[2])


async def test_priorities_first_then_age(one: Session) -> None:
    low = await one.add(2, priority=3, due=-100)
    high = await one.add(2, priority=0)
    usual = await one.add(2, due=-50)
    assert [claim.id for claim in await one.claim(limit=3)] == [*high, usual[0]]
    assert [claim.id for claim in await one.claim(limit=9)] == [usual[1], *low]


async def test_queues_in_turn_and_no_other(one: Session) -> None:
    (a,), (b,), (other,) = (await one.add(queue="a"), await one.add(queue="b"), await one.add(queue="c"))
    for expected in (b, a):
        assert [claim.id for claim in await one.claim(limit=1, queues=["b", "a"])] == [expected]
    assert (await one.row(other))["status"] == "pending"


async def test_unknown_kinds_and_versions_stay_pending_and_cost_nothing(one: Session) -> None:
    unknown = await one.add(kind="other")
    typeless = await one.add(kind=None)
    newer = await one.add(version=2)
    (ranged,) = await one.add(kind="ranged", version=3)
    too_new = await one.add(kind="ranged", version=4)
    known = {"job": (1, 1), "ranged": (2, 3)}
    assert [claim.id for claim in await one.claim(known=known)] == [ranged]
    for (id,) in (unknown, typeless, newer, too_new):
        row = await one.row(id)
        assert (row["status"], row["attempts"], row["lease_generation"]) == ("pending", 0, 0)
    assert {claim.id for claim in await one.claim(known={"job": (1, 2), "other": (1, 1)})} == {*newer, *unknown}


async def test_a_paused_queue_rests_until_it_is_resumed(one: Session) -> None:
    (paused,), (other,) = await one.add(queue="a"), await one.add(queue="b")
    await one.run("queues", "pause", "a", "ann")
    *rows, last = await one.claim_rows("w1", 25, queues=["a", "b"])
    assert about(last["about"]).paused == ["a"]
    assert [row["id"] for row in rows] == [other]
    before = await one.connection.fetchval("select paused_at from holdfast.queues")
    await one.run("queues", "pause", "a", "ann")
    assert await one.connection.fetchval("select paused_at from holdfast.queues") == before
    await one.run("queues", "resume", "a", "ann")
    assert [claim.id for claim in await one.claim(queues=["a", "b"])] == [paused]


async def test_rows_without_an_attempt_left_are_refused(one: Session) -> None:
    ids = await one.add(2, attempts=3, max_attempts=3)
    (last,) = await one.add(attempts=2, max_attempts=3)
    suspects = await one.add(attempts=3, max_attempts=3, crashes=1)
    assert [claim.id for claim in await one.claim()] == [last]
    assert await one.claim_suspect() is None
    for id in [*ids, *suspects]:
        assert (await one.row(id))["attempts"] == 3


async def test_suspects_are_claimed_apart_one_at_a_time(one: Session) -> None:
    first, second = await one.add(2, crashes=1)
    (healthy,) = await one.add()
    *rows, last = await one.claim_rows("w1", 25, rescan=True)
    assert about(last["about"]).suspects is True
    assert [row["id"] for row in rows] == [healthy]
    for id in (first, second):
        claim = await one.claim_suspect()
        assert claim is not None
        assert (claim.id, claim.generation, claim.attempt) == (id, 1, 1)
        assert (await one.row(id))["status"] == "processing"
    assert await one.claim_suspect() is None


@pytest.mark.parametrize("obstacle", ["paused", "kind", "version", "queue", "future", "exhausted"])
async def test_suspects_are_reported_only_to_who_can_run_them(one: Session, obstacle: str) -> None:
    await one.add(
        crashes=1,
        kind="other" if obstacle == "kind" else "job",
        version=2 if obstacle == "version" else 1,
        queue="other" if obstacle == "queue" else "default",
        due=60 if obstacle == "future" else -1,
        attempts=5 if obstacle == "exhausted" else 0,
    )
    if obstacle == "paused":
        await one.run("queues", "pause", "default", "ann")
    (last,) = await one.claim_rows("w1", 25, rescan=True)
    assert about(last["about"]).suspects is False
    assert await one.claim_suspect() is None


async def test_a_cancelled_row_says_so_when_it_is_claimed_again(one: Session) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim()
    await one.inbox("cancel", id, "enough", "ann")
    await one.inbox("hand_back", [id], [claim.generation], "w1")
    await move_clock(one.connection, 1)
    (again,) = await one.claim()
    assert (again.id, again.generation, again.cancelled) == (id, 2, True)


@pytest.mark.parametrize("time", ["-infinity", "4000-01-01 BC", "0001-01-01"])
async def test_rows_from_before_all_time_are_claimed(one: Session, time: str) -> None:
    ids = await one.add(5)
    await one.connection.execute(f"update holdfast.inbox set available_at = '{time}'")
    link = Link(one.database, "claim")
    claimer = Claimer(link, "w1", ["default"], Known(JOB), 90.0)
    found = [claim.id for _ in range(4) for claim in (await claimer.claim(2)).claims]
    await link.close()
    assert sorted(found) == sorted(ids)


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_deep_queue_does_not_keep_the_next_one_waiting(one: Session, ordered: bool) -> None:
    for n in range(40):
        await one.add(1, queue="deep", key=f"key {n}", ordered=ordered)
    late = await one.add(1, queue="next", ordered=ordered)
    link = Link(one.database, "claim")
    claimer = Claimer(link, "w1", ["deep", "next"], Known(JOB), 90.0, ordered)
    claims = [(await claimer.claim(5)).claims for _ in range(6)]
    await link.close()
    assert late[0] in {claim.id for batch in claims for claim in batch}
    assert sum(map(len, claims)) >= 11  # and no batch was half empty for it


async def test_the_claim_starts_at_its_floor(one: Session) -> None:
    ids = await one.add(4)
    rows = await one.connection.fetch("select available_at, seq from holdfast.inbox order by seq")
    at, seq = rows[2]
    starts = [START, (at, seq), START, START]
    assert [claim.id for claim in await one.claim(starts=starts)] == ids[2:]
    assert [claim.id for claim in await one.claim()] == ids[:2]


async def test_locked_rows_are_passed_without_waiting(one: Session, two: Session) -> None:
    ids = await one.add(10)
    async with one.connection.transaction():
        first = await one.claim("w1", limit=4)
        await two.connection.execute("set statement_timeout = '20s'")
        second = await two.claim("w2", limit=4)
        assert {claim.id for claim in second}.isdisjoint(claim.id for claim in first)
    assert {claim.id for claim in [*first, *second]} == set(ids[:8])


async def test_a_claim_that_rolls_back_takes_nothing(one: Session, two: Session) -> None:
    ids = await one.add(3)
    transaction = one.connection.transaction()
    await transaction.start()
    assert len(await one.claim("w1")) == 3
    await transaction.rollback()
    claims = await two.claim("w2")
    assert [claim.id for claim in claims] == ids
    assert {(claim.generation, claim.attempt) for claim in claims} == {(1, 1)}


def behind_a_gate(sql: str) -> str:
    """A slow claim: it waits for an advisory lock after its snapshot, before it reads a row."""
    slow = sql.replace("with lane as (", "with gate as materialized (select pg_advisory_xact_lock(1)), lane as (")
    slow = slow.replace(
        "    where not exists (select from holdfast.queues", "    , gate where not exists (select from holdfast.queues"
    )
    assert slow.count("gate") == 2
    return slow


async def test_a_row_that_another_finished_meanwhile_is_not_claimed(one: Session, two: Session) -> None:
    """The scan's snapshot still shows the row pending; the lock looks again."""
    await one.add(2)
    slow = behind_a_gate(one.database.sql("inbox", "claim"))
    async with gate(one.database.url or ""):
        waiting = asyncio.create_task(
            two.connection.fetch(slow, *claim_lanes(["default"]), 25, ["job"], "{}", "w2", 90.0, False, False)
        )
        await until(one.connection, WAITS)
        done, handed_back = await one.claim("w1")
        await write(one, [(done, Completed())])
        await one.inbox("hand_back", [handed_back.id], [handed_back.generation], "w1")
    rows = await waiting
    assert [(row["id"], about(row["about"]).found) for row in rows] == [(None, 0)]
    assert (await one.row(handed_back.id))["lease_generation"] == 1


async def test_a_row_that_changed_meanwhile_is_claimed_by_the_next_look(
    one: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is locked as it is now, in a place that the claim's snapshot does not show. The floor must not pass it."""
    ids = await one.add(3)
    honest = Database.sql
    slow = behind_a_gate(one.database.sql("inbox", "claim"))
    monkeypatch.setattr(Database, "sql", lambda *where: slow if where[2] == "claim" else honest(*where))
    link = Link(one.database, "claim")
    course = FreeCourse(link, "w1", ["default"], Known(JOB), 90.0)
    async with gate(one.database.url or ""):
        waiting = asyncio.create_task(course.claim(25))
        await until(one.connection, WAITS)
        await one.connection.execute("update holdfast.inbox set headers = '{}' where id = $1", ids[1])
    batch = await waiting
    assert ([claim.id for claim in batch.claims], batch.more) == ([ids[0], ids[2]], True)
    assert [claim.id for claim in (await course.claim(25)).claims] == [ids[1]]
    await link.close()


@pytest.mark.parametrize("kind", ["suspect", "owned"])
@pytest.mark.parametrize("outcome", [None, Completed(), HandedBack()])
async def test_a_row_that_another_took_after_the_guarded_claims_look_is_left_to_it(
    one: Session, two: Session, kind: str, outcome: Outcome | None
) -> None:
    """No key keeps these apart: between the look and the lock, the row may be claimed, and even be gone or back."""
    (id,) = await one.add(crashes=int(kind == "suspect"), owned=kind == "owned")
    how: dict[str, Any] = {"suspects": True} if kind == "suspect" else {"buckets": range(1024)}
    await delay_late_claims(one, "4. Lock heads")
    async with gate(one.database.url or ""):
        late = asyncio.create_task(two.claim_guarded("late", 1, **how))
        await until(one.connection, WAITS)
        (claim,) = await one.claim_guarded("w1", 1, **how)
        if outcome is not None:
            await write(one, [(claim, outcome)])
    claims = await late
    if isinstance(outcome, HandedBack):  # it is pending again: anybody's
        assert [(claim.id, claim.generation) for claim in claims] == [(id, 2)]
        return
    assert claims == []
    if outcome is None:
        row = await one.row(id)
        assert (row["status"], row["claimed_by"], row["lease_generation"]) == ("processing", "w1", 1)


async def test_eight_claimers_share_ten_thousand_rows_and_never_wait(one: Session, migrated_url: str) -> None:
    """A ninth holds a hundred of the first rows locked all the while: who waited for them would never finish.

    (For the milliseconds of a statement a claim can wait, in Postgres itself: two that reach a row at the very moment
    in which a third commits its claim of it lock that third's version one after the other, before they pass it over.)
    """
    total = 10_000
    await one.add(total)
    taken: list[tuple[UUID, int]] = []

    async def drain(name: str) -> None:
        link = Link(database_at(migrated_url), name)
        claimer = Claimer(link, name, ["default"], Known(JOB), 90.0)
        empty = 0
        while empty < 3:
            batch = await claimer.claim(50)
            taken.extend((claim.id, claim.generation) for claim in batch.claims)
            empty = 0 if batch.claims else empty + 1
        await link.close()

    async with one.connection.transaction():
        held = await one.claim("ninth", limit=100)
        await asyncio.gather(*(drain(f"w{n}") for n in range(8)))
        assert len(taken) == total - 100
    taken.extend((claim.id, claim.generation) for claim in held)
    assert set(Counter(taken).values()) == {1}
    assert {generation for _, generation in taken} == {1}
    assert await one.connection.fetchval("select count(distinct fence) from holdfast.inbox") == total


async def test_a_claim_for_nobody_asks_nothing(one: Session) -> None:
    link = Link(one.database, "claim")
    claimer = Claimer(link, "w1", ["default"], Known(JOB), 90.0)
    assert (await claimer.claim(0)).claims == []
    assert link.connects == 0


async def test_max_attempts_is_each_rows_own(one: Session) -> None:
    (once,), (thrice,) = await one.add(max_attempts=1), await one.add(max_attempts=3)
    for round in range(1, 4):
        claims = await one.claim()
        await write(one, [(claim, AttemptFailed("Boom", str(round))) for claim in claims])
        await move_clock(one.connection, 100.0 * round)
    assert ((await one.row(once))["status"], (await one.row(once))["attempts"]) == ("dead_letter", 1)
    assert ((await one.row(thrice))["status"], (await one.row(thrice))["attempts"]) == ("dead_letter", 3)


def test_the_start_is_before_every_row() -> None:
    assert (datetime(1, 1, 1, tzinfo=UTC), 1) > START
