"""Expired rows are claimed to be ended, never to be run; the database's clock decides, once for each row."""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime
from uuid import UUID

import pytest
from tests.support.inbox import Session, move_clock, session, until_waiting

from holdfast.inbox import ending
from holdfast.model.job import Claim
from holdfast.model.outcome import AttemptFailed, Completed, Ended, Final, HandedBack

EXPIRED = Ended(Final.EXPIRED, "")
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


async def expire_in(one: Session, seconds: float, *ids: UUID) -> None:
    await one.connection.execute(
        "update holdfast.inbox set expires_at = holdfast.clock() + make_interval(secs => $1) where id = any($2)",
        seconds, ids,
    )  # fmt: skip


@pytest.mark.parametrize("course", ["free", "guarded", "suspect"])
async def test_the_claim_says_how_many_seconds_are_left(one: Session, course: str) -> None:
    ordered, crashes = course == "guarded", int(course == "suspect")
    never, later, late = [(await one.add(key=key, ordered=ordered, crashes=crashes))[0] for key in "abc"]
    await expire_in(one, 1000, later)
    await expire_in(one, -1000, late)
    left: dict[UUID, float | None] = {}
    for _ in range(3):
        match course:
            case "free":
                claims = await one.claim()
            case "guarded":
                claims = await one.claim_guarded()
            case _:
                claims = [claim for claim in [await one.claim_suspect()] if claim is not None]
        left |= {claim.id: claim.expires_in for claim in claims}
        await ending.write(one, [(claim, Completed()) for claim in claims])
    assert left.keys() == {never, later, late}
    assert left[never] is None
    assert 940 < (left[later] or 0) <= 1000
    assert -1060 < (left[late] or 0) <= -1000


@pytest.mark.parametrize(("at", "left"), [("infinity", None), ("-infinity", None)])
async def test_a_time_by_hand_that_is_none_does_not_break_the_claim(one: Session, at: str, left: float | None) -> None:
    ids = await one.add(2)
    await one.connection.execute(f"update holdfast.inbox set expires_at = '{at}' where id = $1", ids[0])
    assert [claim.expires_in for claim in await one.claim()] == [left, None]


async def test_it_ends_under_its_hold_with_the_attempts_that_started(one: Session) -> None:
    (id,) = await one.add(idempotency_key="i")
    await one.connection.execute(
        "insert into holdfast.dedupe (key, job_id, kind, payload_hash) values ('i', $1, 'job', '')", id
    )
    (claim,) = await one.claim()
    failed = AttemptFailed("ValueError", "no such order", delay=0)
    await ending.write(one, [(claim, failed)])
    await expire_in(one, -1, id)
    (again,) = await one.claim()
    assert (again.attempt, (again.expires_in or 0) < 0) == (2, True)
    report = await ending.write(one, [(claim, EXPIRED)])
    assert (report.expired, report.lost) == ([], [claim]), "an old hold"
    report = await ending.write(one, [(again, EXPIRED)])
    assert (report.expired, report.lost, report.completed) == ([again], [], 0)
    kept = await one.archived(id)
    assert kept is not None
    assert (kept["status"], kept["attempts"], kept["result"]) == ("expired", 1, None)
    assert kept["last_error"].startswith("not started by 20")
    assert kept["last_error"].endswith("; last error: ValueError: no such order")
    assert '"no such order"' in kept["errors"]
    assert await one.connection.fetchval("select expires_at > now() from holdfast.dedupe"), "its key is remembered"
    report = await ending.write(one, [(again, EXPIRED)], repeated=True)
    assert (report.expired, report.lost) == ([again], []), "the answer was lost, and the ending was not"


async def test_the_next_row_of_an_ordered_key_is_its_head(one: Session) -> None:
    first, second = await one.add(2, key="k", ordered=True)
    await expire_in(one, -1, first)
    (claim,) = await one.claim_guarded()
    assert claim.id == first
    await ending.write(one, [(claim, EXPIRED)])
    assert [each.id for each in await one.claim_guarded(vacated=[("default", "k")])] == [second]


async def test_a_retry_that_is_not_due_yet_ends_at_its_expiry(one: Session) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim()
    await expire_in(one, 60, id)
    await ending.write(one, [(claim, AttemptFailed("ValueError", "no", delay=3600))])
    assert await one.run("housekeeping", "expire", BEGINNING, 100) == []
    await move_clock(one.connection, 61)
    assert [row["id"] for row in await one.run("housekeeping", "expire", BEGINNING, 100)] == [id]


async def test_the_last_attempt_that_fails_after_the_expiry_is_a_dead_letter(one: Session) -> None:
    """It has started in time: that it failed is what counts."""
    (id,) = await one.add(max_attempts=1)
    (claim,) = await one.claim()
    await expire_in(one, -1, id)
    await ending.write(one, [(claim, AttemptFailed("ValueError", "no"))])
    assert (await one.row(id))["status"] == "dead_letter"
    assert await one.run("housekeeping", "expire", BEGINNING, 100) == []


async def test_a_producer_that_meets_a_row_which_is_being_claimed_waits(
    one: Session, two: Session, migrated_url: str
) -> None:
    (id,) = await one.add()
    await one.connection.execute(
        "update holdfast.inbox set unique_key = 'u', unique_done = true, expires_at = now() - interval '1 s'"
    )
    claimer = one.connection.transaction()
    await claimer.start()
    (claim,) = await one.claim()
    asked = asyncio.create_task(
        two.connection.fetchval("select holdfast.enqueue('job', unique_key => 'u', unique_done => true)")
    )
    async with session(migrated_url) as watching:
        await until_waiting(watching.connection, two.pid)
    await claimer.commit()
    assert await asked != id, "claimed after its expiry, it never starts, so it must not stand for a new job"
    report = await ending.write(one, [(claim, EXPIRED)])
    assert (report.expired, report.lost) == ([], [claim]), "the producer has ended it"
    kept = await one.archived(id)
    assert kept is not None
    assert (kept["status"], kept["attempts"]) == ("expired", 0)


# The race. The claims, the chore, the hand-backs of what may have expired, and the clock.

CLAIMERS, CHORES, JOBS = 6, 2, 600
SOONEST, LATEST = 0.01, 8.0
"""Seconds, spread evenly by magnitude: however fast or slow the machine is, it is a race."""


async def claim_and_run(
    url: str, name: str, ordered: bool, started: Counter[UUID], begin: asyncio.Barrier, over: asyncio.Event
) -> None:
    """A worker in small: what it claims it starts, hands back or ends as a hand does."""
    chance = random.Random(name)
    async with session(url, name) as worker:
        await begin.wait()  # connected
        await begin.wait()  # the times of expiry are set
        while not over.is_set():
            claims: list[Claim] = await (worker.claim_guarded(name, 5) if ordered else worker.claim(name, 5))
            for claim in claims:
                left = claim.expires_in
                assert left is not None
                if left <= 0:
                    outcome: Ended | HandedBack | Completed = EXPIRED
                elif chance.random() < 0.3:  # it waited in the worker
                    await asyncio.sleep(chance.random() * 0.02)
                    outcome = HandedBack()
                else:
                    started[claim.id] += 1
                    outcome = Completed()
                report = await ending.write(worker, [(claim, outcome)])
                assert report.lost == []
            await asyncio.sleep(0.001)


async def keep_expiring(url: str, begin: asyncio.Barrier, over: asyncio.Event) -> None:
    async with session(url, "chore") as house:
        await begin.wait()
        await begin.wait()
        while not over.is_set():
            rows = await house.run("housekeeping", "expire", BEGINNING, 20)
            keys = {(row["queue"], row["key"]) for row in rows if row["ordered"]}
            await house.run("housekeeping", "unblock", [queue for queue, _ in keys], [key for _, key in keys])
            await asyncio.sleep(0.003)


@pytest.mark.parametrize("ordered", [False, True], ids=["free", "ordered"])
async def test_expiry_racing_claims(one: Session, migrated_url: str, ordered: bool) -> None:
    """Each job runs once or expires once, never both, never neither.

    It fails if the chore ends rows without looking at their status (both), if an ending as expired forgets the hold
    (lost), or if expired rows are left out by the claim and by the chore, once they were handed back (neither).
    """
    for n in range(JOBS // 20):
        await one.add(20, key=f"k{n}", ordered=ordered)
    ids = {row["id"] for row in await one.connection.fetch("select id from holdfast.inbox")}
    started: Counter[UUID] = Counter()
    begin, over = asyncio.Barrier(CLAIMERS + CHORES + 1), asyncio.Event()
    racers = [claim_and_run(migrated_url, f"w{n}", ordered, started, begin, over) for n in range(CLAIMERS)]
    racing = asyncio.gather(*racers, *(keep_expiring(migrated_url, begin, over) for _ in range(CHORES)))
    async with asyncio.timeout(60):
        await begin.wait()  # only now: on a busy machine, all could expire before the first has connected
        await one.connection.execute(
            "update holdfast.inbox set expires_at = clock_timestamp() + $1 * power($2, random()) * interval '1 second'",
            SOONEST, LATEST / SOONEST,
        )  # fmt: skip
        await begin.wait()
        while not racing.done() and await one.connection.fetchval("select exists (select from holdfast.inbox)"):
            await asyncio.sleep(0.05)
    over.set()
    await racing
    rows = await one.connection.fetch("select id, status::text, finished_at, attempts from holdfast.archive")
    assert {row["id"] for row in rows} == ids and len(rows) == len(ids), "never neither, never twice"
    completed = {row["id"] for row in rows if row["status"] == "completed"}
    expired = {row["id"] for row in rows if row["status"] == "expired"}
    assert completed | expired == ids
    assert started == Counter(dict.fromkeys(completed, 1)), "never both: what expired was not started, the rest once"
    assert all(row["attempts"] == 0 for row in rows if row["id"] in expired)
    assert len(completed) > 20 and len(expired) > 20, "it was a race"
