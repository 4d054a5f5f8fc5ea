"""Complete, fail, snooze, hand back: what each writes, and what it reports."""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.inbox import Session, move_clock, until, until_waiting

from holdfast.inbox import ending
from holdfast.model.job import Claim, Hold
from holdfast.model.outcome import AttemptFailed, Completed, Ended, Final, HandedBack, Lost, Outcome, Snoozed, failure
from holdfast.model.report import Report
from holdfast.worker.attempts.deciding import returned


async def end(session: Session, claims: list[Claim], outcome: Outcome) -> Report[Claim]:
    return await ending.write(session, [(claim, outcome) for claim in claims])


async def now(session: Session) -> Any:
    return await session.connection.fetchval("select clock_timestamp()")


async def test_complete_moves_the_row_with_its_result(one: Session) -> None:
    (id,) = await one.add(key="order:1", idempotency_key="k", priority=2)
    (claim,) = await one.claim()
    before = await one.row(id)
    report = await end(one, [claim], Completed('{"sent": true}'))
    assert (report.completed, report.late, report.lost) == (1, 0, [])
    assert await one.connection.fetchval("select count(*) from holdfast.inbox") == 0
    kept = await one.archived(id)
    assert kept is not None
    same = set(before.keys()) & set(kept.keys()) - {"status"}
    assert {name: kept[name] for name in same} == {name: before[name] for name in same}
    assert (kept["status"], json.loads(kept["result"]), kept["last_error"]) == ("completed", {"sent": True}, None)
    assert kept["finished_at"] > before["claimed_at"]


async def test_a_decision_ends_as_failed_with_its_reason(one: Session) -> None:
    (id,) = await one.add()
    report = await end(one, await one.claim(), Ended(Final.FAILED, "no such order"))
    assert (report.failed, report.completed) == (1, 0)
    kept = await one.archived(id)
    assert kept is not None
    assert (kept["status"], kept["last_error"], kept["result"]) == ("failed", "no such order", None)


async def test_a_reason_that_cannot_be_stored_does_not_spoil_the_batch(one: Session) -> None:
    await one.add(2)
    first, second = await one.claim()
    report = await ending.write(one, [(first, Ended(Final.FAILED, "a\0b\ud800" * 20_000)), (second, Completed())])
    assert (report.failed, report.completed, report.lost) == (1, 1, [])
    kept = await one.archived(first.id)
    assert kept is not None
    assert kept["last_error"].startswith("a\\0b\\ud800")
    assert len(kept["last_error"].encode()) <= 16 * 1024


async def test_completion_reports_each_row_that_was_not_its_own(one: Session) -> None:
    await one.add(3)
    claims = await one.claim()
    claims[1].generation += 1
    stranger = Claim("w1", uuid4(), 1, 1, 1, 5, "job", 1, "{}", "default", "k", None, None)
    report = await end(one, [*claims, stranger], Completed())
    assert report.completed == 2
    assert {claim.id for claim in report.lost} == {claims[1].id, stranger.id}
    again = await end(one, [claims[0]], Completed())
    assert (again.completed, again.lost) == (0, [claims[0]])


async def test_a_repeated_completion_whose_first_answer_was_lost_is_found(one: Session) -> None:
    await one.add(2)
    claims = await one.claim()
    await end(one, claims[:1], Completed())
    claims[1].generation += 1
    report = await ending.write(one, [(claim, Completed()) for claim in claims], repeated=True)
    assert (report.completed, report.lost) == (1, [claims[1]])
    stranger = Hold("w2", claims[0].id, claims[0].generation)
    assert (await ending.write(one, [(stranger, Completed())], repeated=True)).lost == [stranger]


@pytest.mark.parametrize("outcome", [Completed(), Ended(Final.FAILED, "no")], ids=["completed", "failed"])
async def test_a_repeated_completion_of_a_stale_claim_is_lost(one: Session, outcome: Outcome) -> None:
    """What ended meanwhile ended under a later claim, if by the same worker: it is not this one's doing."""
    await one.add()
    (stale,) = await one.claim("w1")
    await end(one, [stale], HandedBack())
    (claim,) = await one.claim("w1")
    await end(one, [claim], Completed())
    report = await ending.write(one, [(stale, outcome)], repeated=True)
    assert (report.completed, report.failed, report.lost) == (0, 0, [stale])
    report = await ending.write(one, [(claim, outcome)], repeated=True)
    assert (report.completed + report.failed, report.lost) == (1, [])


async def test_a_late_completion_counts_as_late_and_holds(one: Session) -> None:
    await one.add()
    claims = await one.claim(lease=10)
    await move_clock(one.connection, 11)
    report = await end(one, claims, Completed())
    assert (report.completed, report.late, report.lost) == (1, 1, [])


async def test_the_idempotency_key_outlives_the_job_by_its_horizon(one: Session) -> None:
    id = await one.connection.fetchval("select holdfast.enqueue('job', idempotency_key => 'k')")
    await move_clock(one.connection, 1)
    claims = await one.claim()
    assert await one.connection.fetchval("select expires_at from holdfast.dedupe") is None
    await end(one, claims, Completed())
    left = await one.connection.fetchval("select expires_at - holdfast.clock() from holdfast.dedupe where key = 'k'")
    assert timedelta(days=6, hours=23) < left <= timedelta(days=7)
    assert await one.connection.fetchval("select holdfast.enqueue('job', idempotency_key => 'k')") == id
    assert await one.connection.fetchval("select count(*) from holdfast.inbox") == 0


async def test_fail_puts_the_row_back_after_the_backoff(one: Session) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim()
    before = await now(one)
    report = await end(one, [claim], AttemptFailed("Boom", "it broke", "trace"))
    after = await now(one)
    assert (report.retried, report.dead, report.lost) == (1, [], [])
    row = await one.row(id)
    assert (row["status"], row["attempts"], row["lease_generation"], row["crashes"]) == ("pending", 1, 1, 0)
    assert (row["claimed_by"], row["claimed_at"], row["lease_expires_at"], row["dead_at"]) == (None,) * 4
    assert before + timedelta(seconds=2) <= row["available_at"] <= after + timedelta(seconds=2.5)
    assert row["last_error"] == "Boom: it broke"
    (record,) = json.loads(row["errors"])
    assert {name: record[name] for name in ("error", "message", "trace", "attempt", "generation", "worker")} == {
        "error": "Boom", "message": "it broke", "trace": "trace", "attempt": 1, "generation": 1, "worker": "w1",
    }  # fmt: skip
    assert record["at"] is not None


async def test_exhausted_ends_as_a_dead_letter_with_the_evidence_of_every_attempt(one: Session) -> None:
    (id,) = await one.add(max_attempts=3)
    payload = (await one.row(id))["payload"]
    for n in range(1, 4):
        (claim,) = await one.claim(f"w{n}")
        report = await end(one, [claim], AttemptFailed("Boom", f"try {n}"))
        assert (report.retried, len(report.dead)) == ((1, 0) if n < 3 else (0, 1))
        await move_clock(one.connection, 100 * n)
    row = await one.row(id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("dead_letter", 3, "Boom: try 3")
    assert (row["claimed_by"], row["claimed_at"], row["lease_expires_at"]) == (None, None, None)
    assert row["dead_at"] is not None
    assert row["payload"] == payload
    told = [(r["attempt"], r["generation"], r["worker"], r["message"]) for r in json.loads(row["errors"])]
    assert told == [(n, n, f"w{n}", f"try {n}") for n in range(1, 4)]
    assert await one.claim() == []
    seen = await one.connection.fetchrow("select * from holdfast.dead_letter")
    assert seen is not None
    assert seen["id"] == id


@pytest.mark.parametrize("max_attempts", [1, 5])
@pytest.mark.parametrize("crashed", [False, True])
async def test_a_cancelled_job_whose_attempt_fails_ends_as_cancelled(
    one: Session, max_attempts: int, crashed: bool
) -> None:
    """Nobody wants another attempt of it, nor a dead letter."""
    ids = await one.add(3, max_attempts=max_attempts)
    claims = await one.claim()
    await one.inbox("cancel", ids[1], "enough", "ann")
    report = await end(one, claims, AttemptFailed("Boom", "it broke", crashed=crashed))
    last = max_attempts == 1
    assert (report.retried, len(report.dead), report.cancelled) == ((0, 2, 1) if last else (2, 0, 1))
    for id in ids:
        row = await one.row(id)
        if id != ids[1]:
            assert (row["status"], row["last_error"]) == ("dead_letter" if last else "pending", "Boom: it broke")
            continue
        assert (row["status"], row["last_error"]) == ("failed", "cancelled while it ran; Boom: it broke")
        assert (row["claimed_by"], row["lease_expires_at"], row["dead_at"]) == (None,) * 3
        assert len(json.loads(row["errors"])) == 1


async def test_the_evidence_of_very_many_attempts_is_all_there_and_bounded(one: Session) -> None:
    (id,) = await one.add(max_attempts=40)
    for n in range(1, 41):
        (claim,) = await one.claim()
        await end(one, [claim], AttemptFailed("Boom", f"{n} " + "m" * 5000, "t" * 5000))
        await move_clock(one.connection, 4000 * n)
    row = await one.row(id)
    told = json.loads(row["errors"])
    assert [int(r["message"].split()[0]) for r in told] == list(range(1, 41))
    assert [len(r["trace"]) for r in told] == [5000] * 25 + [0] * 15
    assert all(len(r["message"]) == 500 for r in told[25:])


async def test_crashes_are_counted_in_a_row(one: Session) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim()
    await end(one, [claim], AttemptFailed("ProcessDied", "", crashed=True))
    row = await one.row(id)
    assert (row["crashes"], row["attempts"], row["last_error"]) == (1, 1, "ProcessDied")
    await move_clock(one.connection, 100)
    again = await one.claim_suspect()
    assert again is not None
    await end(one, [again], AttemptFailed("Boom", "lived"))
    assert (await one.row(id))["crashes"] == 0


async def test_the_backoff_is_exponential_capped_jittered_and_safe(one: Session) -> None:
    rows = await one.connection.fetch(
        "select n, extract(epoch from holdfast.backoff(n))::float8 as s from generate_series(-1, 1000) n, "
        "generate_series(1, 5)"
    )
    for n, seconds in rows:
        base = min(2.0 ** max(n, 0), 3600.0) if n < 30 else 3600.0
        assert base <= seconds <= base * 1.25
    assert len({seconds for n, seconds in rows if n == 1000}) > 1
    assert await one.connection.fetchval("select holdfast.backoff(2147483647)") <= timedelta(seconds=4500)


async def test_fail_works_for_a_thousand_attempts(one: Session) -> None:
    (id,) = await one.add(attempts=999, max_attempts=5000)
    report = await end(one, await one.claim(), AttemptFailed("Boom", ""))
    assert report.retried == 1
    assert (await one.row(id))["attempts"] == 1000


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("nul \0 in it"),
        ValueError("half a pair \ud800"),
        ValueError("€" * 1_000_000),
        Unprintable(),
    ],
    ids=["nul", "surrogate", "huge", "unprintable"],
)
async def test_any_error_can_be_stored_and_is_bounded(one: Session, error: Exception) -> None:
    (id,) = await one.add()
    report = await end(one, await one.claim(), failure(error))
    assert (report.retried, report.lost) == (1, [])
    row = await one.row(id)
    assert 0 < len(row["last_error"].encode()) <= 16 * 1024
    assert len(row["errors"].encode()) <= 20 * 1024


async def test_snooze_gives_the_attempt_back(one: Session) -> None:
    (id,) = await one.add(attempts=2)
    (claim,) = await one.claim()
    before = await now(one)
    report = await end(one, [claim], Snoozed(60))
    after = await now(one)
    assert (report.snoozed, report.lost) == (1, [])
    row = await one.row(id)
    assert (row["status"], row["attempts"], row["lease_generation"]) == ("pending", 2, 1)
    assert before + timedelta(seconds=60) <= row["available_at"] <= after + timedelta(seconds=60)
    assert (row["claimed_by"], row["claimed_at"], row["lease_expires_at"], row["errors"]) == (None,) * 4


async def bound_snoozes(session: Session, most: int) -> None:
    await session.connection.execute("update holdfast.settings set value = $1 where name = 'max_snoozes'", str(most))


async def test_a_job_that_is_snoozed_once_too_often_fails_as_any_other(one: Session) -> None:
    await bound_snoozes(one, 1)
    (id,) = await one.add()
    await end(one, await one.claim(), AttemptFailed("Boom", "it broke", delay=0))
    assert (await end(one, await one.claim(), Snoozed(0, counted=True))).snoozed == 1
    (claim,) = await one.claim()
    report = await end(one, [claim], Snoozed(0, counted=True))
    row = await one.row(id)
    assert (row["status"], row["last_error"]) == (
        "dead_letter", "SnoozeLimit: the handler has snoozed this job 1 times"
    )  # fmt: skip
    assert (report.dead, report.snoozed, report.lost) == ([(claim, row["last_error"])], 0, [])
    groups = "select holdfast.error_group('job', 'SnoozeLimit')"
    assert row["error_group"] == await one.connection.fetchval(groups), "not that of the failure before"
    boom, limit = json.loads(row["errors"])
    assert boom.keys() - {"group"} == limit.keys()
    assert (limit["error"], limit["message"], limit["attempt"], limit["generation"], limit["worker"]) == (
        "SnoozeLimit", "the handler has snoozed this job 1 times", 2, 3, "w1"
    )  # fmt: skip
    assert row["dead_at"] is not None
    assert (row["claimed_by"], row["claimed_at"], row["lease_expires_at"], row["crashes"]) == (None, None, None, 0)


async def test_a_cancelled_job_that_is_snoozed_once_too_often_is_cancelled(one: Session) -> None:
    await bound_snoozes(one, 0)
    (id,) = await one.add()
    (claim,) = await one.claim()
    await one.inbox("cancel", id, "enough", "ann")
    report = await end(one, [claim], Snoozed(0, counted=True))
    assert (report.cancelled, report.stopped, report.dead, report.snoozed) == (1, [claim], [], 0)
    row = await one.row(id)
    assert (row["status"], row["dead_at"]) == ("failed", None)  # for the archive, as cancelled
    assert row["last_error"] == "cancelled while it ran; SnoozeLimit: the handler has snoozed this job 0 times"


async def test_each_of_a_batch_is_snoozed_or_not(one: Session) -> None:
    """Those that may be snoozed again are; what nobody asked for does not count; what was lost stays lost."""
    await bound_snoozes(one, 1)
    ids = await one.add(5)
    await one.connection.execute("update holdfast.inbox set snoozes = 1 where id = any ($1)", ids[1:4])
    free, too_often, unasked, lost, lost_unasked = sorted(await one.claim(), key=lambda claim: ids.index(claim.id))
    for claim in (lost, lost_unasked):
        claim.generation += 1
    report = await ending.write(
        one,
        [(claim, Snoozed(60, counted=claim not in (unasked, lost_unasked)))
         for claim in (free, too_often, unasked, lost, lost_unasked)],
    )  # fmt: skip
    assert (report.snoozed, [claim for claim, _ in report.dead]) == (2, [too_often])
    assert set(map(id_of, report.lost)) == {lost.id, lost_unasked.id}
    rows = [await one.row(id) for id in ids]
    assert [row["status"] for row in rows] == ["pending", "dead_letter", "pending", "processing", "processing"]
    assert [row["snoozes"] for row in rows] == [1, 1, 1, 1, None]


def id_of(claim: Claim) -> UUID:
    return claim.id


async def test_an_endless_snooze_is_a_long_one(one: Session) -> None:
    (id,) = await one.add()
    report = await end(one, await one.claim(), Snoozed(1e300))
    assert (report.snoozed, report.lost) == (1, [])
    assert (await one.row(id))["available_at"].year > 2100


async def test_release_gives_the_attempt_back_and_is_due_at_once(one: Session) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim()
    before = await now(one)
    report = await end(one, [claim], HandedBack())
    row = await one.row(id)
    assert report.handed_back == 1
    assert (row["status"], row["attempts"], row["lease_generation"], row["crashes"]) == ("pending", 0, 1, 0)
    assert before <= row["available_at"] <= await now(one)
    assert [(c.id, c.generation) for c in await one.claim()] == [(id, 2)]


async def test_release_comes_back_for_what_was_locked_at_that_moment(one: Session, two: Session) -> None:
    """A renewal may hold the row just then: it must not cost the attempt, nor the time of a lease."""
    ids = await one.add(3)
    claims = await one.claim()
    transaction = two.connection.transaction()
    await transaction.start()
    await two.connection.execute("select from holdfast.inbox where id = any ($1) for update", ids[:2])
    handing_back = asyncio.create_task(end(one, claims, HandedBack()))
    await until(two.connection, "select status = 'pending' from holdfast.inbox where id = $1", ids[2])
    await transaction.commit()
    assert (await handing_back).handed_back == 3
    rows = [await one.row(id) for id in ids]
    assert {(row["status"], row["attempts"]) for row in rows} == {("pending", 0)}


async def test_release_does_not_ask_for_ever_for_what_another_has(one: Session, two: Session) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim("w1")
    await one.connection.execute("update holdfast.inbox set claimed_by = 'w2', lease_generation = 2 where id = $1", id)
    assert (await end(one, [claim], HandedBack())).handed_back == 0


async def test_hand_back_worker_hands_back_all_of_one_worker(one: Session) -> None:
    ids = await one.add(6)
    await one.claim("w1", limit=4)
    await one.claim("w2", limit=1)
    assert await ending.hand_back_all(one, "w1") == 4
    states = {id: (await one.row(id))["status"] for id in ids}
    assert [states[id] for id in ids] == ["pending"] * 4 + ["processing", "pending"]
    assert {(await one.row(id))["attempts"] for id in ids[:4]} == {0}


async def test_hand_back_worker_comes_back_for_what_a_renewal_holds(one: Session, two: Session) -> None:
    """Else it would wait for the lease that was renewed just then, for nobody."""
    ids = await one.add(3)
    await one.claim("w1")
    transaction = two.connection.transaction()
    await transaction.start()
    await two.inbox("renew", ids[:2], [1, 1], "w1", 90.0)
    handing_back = asyncio.create_task(ending.hand_back_all(one, "w1"))
    await until(two.connection, "select status = 'pending' from holdfast.inbox where id = $1", ids[2])
    await transaction.commit()
    assert await handing_back == 3
    assert {((await one.row(id))["status"], (await one.row(id))["attempts"]) for id in ids} == {("pending", 0)}


async def test_a_mixed_batch_ends_each_row_its_own_way(one: Session) -> None:
    await one.add(9)
    claims = await one.claim()
    outcomes: list[Outcome] = [
        Completed("1"), Ended(Final.FAILED, "no"), AttemptFailed("Boom", ""), AttemptFailed("Died", "", crashed=True),
        Snoozed(1), HandedBack(), Completed(), Lost(), Ended(Final.CANCELLED, "no"),
    ]  # fmt: skip
    claims[6].generation += 1
    report = await ending.write(one, list(zip(claims, outcomes, strict=True)))
    assert (report.completed, report.failed, report.retried, report.snoozed, report.handed_back) == (1, 1, 2, 1, 1)
    assert (report.cancelled, report.lost) == (1, [claims[7], claims[6]])


async def test_completion_waits_for_who_holds_the_row_and_looks_again(one: Session, two: Session) -> None:
    """A renewal under way is waited for; a sweep that committed meanwhile takes the row away."""
    await one.add(2)
    kept, swept = await one.claim("w1")
    for claim, change, done in [
        (kept, "lease_expires_at = lease_expires_at + interval '1 minute'", 1),
        (swept, "status = 'pending', claimed_by = null", 0),
    ]:
        transaction = two.connection.transaction()
        await transaction.start()
        await two.connection.execute(f"update holdfast.inbox set {change} where id = $1", claim.id)
        waiting = asyncio.create_task(end(one, [claim], Completed()))
        async with asyncio.timeout(60):
            await until_waiting(two.connection, one.pid)
        await transaction.commit()
        report = await waiting
        assert (report.completed, len(report.lost)) == (done, 1 - done)


@pytest.mark.parametrize("statement", ["hand_back", "hand_back_worker", "renew", "revive"])
async def test_locked_rows_are_skipped_without_waiting(one: Session, two: Session, statement: str) -> None:
    ids = await one.add(3)
    claims = await one.claim("w1")
    if statement == "revive":
        await one.connection.execute("update holdfast.inbox set status = 'dead_letter'")
    generations = [claim.generation for claim in claims]
    arguments: dict[str, tuple[Any, ...]] = {
        "hand_back": (ids, generations, "w1"),
        "hand_back_worker": ("w1",),
        "renew": (ids, generations, "w1", 90.0),
        "revive": (ids, "ann"),
    }
    async with two.connection.transaction():
        await two.connection.execute("select from holdfast.inbox where id = $1 for update", ids[1])
        await one.connection.execute("set statement_timeout = '20s'")
        rows = await one.inbox(statement, *arguments[statement])
        done = {row["id"] for row in rows if statement != "hand_back_worker" or row["handed_back"]}
    assert done == {ids[0], ids[2]}


@pytest.mark.parametrize(
    ("value", "outcome"),
    [(None, Completed()), (5, Completed("5")), ("x", Completed('"x"'))],
)
def test_what_a_handlers_value_means(value: object, outcome: Outcome) -> None:
    assert returned(value) == outcome
