"""Completed jobs are kept as their tasks say: with keep=None they leave no row, and every other ending does."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.inbox import Session

from holdfast.housekeeping.chores import Turn, archive
from holdfast.inbox import ending
from holdfast.model.job import Claim
from holdfast.model.keep import Keep, keep_of
from holdfast.model.occurrences import Occurrences
from holdfast.model.outcome import AttemptFailed, Completed, Ended, Final, HandedBack, Outcome
from holdfast.model.report import Report

NOTHING: Keep[Claim] = keep_of({"job": 0})


async def end(session: Session, claims: list[Claim], outcome: Outcome, **how: Any) -> Report[Claim]:
    return await ending.write(session, [(claim, outcome) for claim in claims], keep=NOTHING, **how)


async def counts(session: Session) -> tuple[int, int]:
    live, ended = [
        int(await session.connection.fetchval(f"select count(*) from holdfast.{table}"))
        for table in ("inbox", "archive")
    ]
    return live, ended


async def test_a_completed_job_leaves_no_row(one: Session) -> None:
    await one.add(3)
    report = await end(one, await one.claim(), Completed('"result"'))
    assert (report.completed, report.late, report.lost) == (3, 0, [])
    assert await counts(one) == (0, 0)


async def test_its_idempotency_key_is_kept_for_its_horizon(one: Session) -> None:
    (id,) = await one.add(idempotency_key="k")
    await one.connection.execute(
        "insert into holdfast.dedupe (key, job_id, kind, payload_hash) values ('k', $1, 'job', '')", id
    )
    (claim,) = await one.claim()
    report = await end(one, [claim], Completed())
    assert (report.completed, report.lost, await counts(one)) == (1, [], (0, 0))
    assert await one.connection.fetchval("select expires_at > now() + interval '6 days' from holdfast.dedupe")
    again = await end(one, [claim], Completed(), repeated=True)
    assert (again.completed, again.lost) == (1, []), "its first answer was lost"


async def test_every_other_ending_is_kept(one: Session) -> None:
    failed, dead, cancelled, cancelled_while_it_ran = await one.add(4, max_attempts=1)
    await one.inbox("cancel", cancelled, "no", "ann")
    claims = {claim.id: claim for claim in await one.claim()}
    await one.inbox("cancel", cancelled_while_it_ran, "no", "ann")
    await end(one, [claims[failed]], Ended(Final.FAILED, "no"))
    await end(one, [claims[dead]], AttemptFailed("Boom", "no"))
    await end(one, [claims[cancelled_while_it_ran]], Ended(Final.CANCELLED, "no"))
    statuses = {row["id"]: row["status"] for row in await one.connection.fetch("select id, status from holdfast.jobs")}
    assert statuses == {
        failed: "failed", dead: "dead_letter", cancelled: "cancelled", cancelled_while_it_ran: "cancelled",
    }  # fmt: skip
    await one.inbox("discard", [dead], "ann")
    archived = await one.archived(dead)
    assert archived is not None and archived["status"] == "discarded"


async def test_one_batch_has_tasks_of_both_kinds(one: Session) -> None:
    await one.add(2)
    await one.add(2, kind="kept")
    claims = await one.claim(known={"job": (1, 1), "kept": (1, 1)})
    report = await end(one, claims, Completed())
    assert report.completed == 4
    assert await counts(one) == (0, 2)


async def test_a_completed_job_has_the_number_of_days_of_its_task(one: Session) -> None:
    kinds = {"job": None, "week": 7, "none": 0, "year": 365}
    for kind in kinds:
        await one.add(2, kind=kind)
    keep = keep_of(kinds)
    claims = await one.claim(known=dict.fromkeys(kinds, (1, 1)))
    first = {claim.kind: claim for claim in claims}
    failed = [claim for claim in claims if first[claim.kind] is claim]
    completed = [claim for claim in claims if first[claim.kind] is not claim]
    endings: list[tuple[Claim, Outcome]] = [(claim, Ended(Final.FAILED, "no")) for claim in failed]
    report = await ending.write(one, [*endings, *((claim, Completed('"result"')) for claim in completed)], keep=keep)
    assert (report.completed, report.failed) == (4, 4)
    rows = await one.connection.fetch("select kind, status::text, keep_days from holdfast.archive")
    assert {tuple(row) for row in rows} == {
        ("job", "completed", None), ("week", "completed", 7), ("year", "completed", 365),
        *((kind, "failed", None) for kind in kinds),
    }  # fmt: skip


async def test_a_lost_answer_to_a_completion_is_a_completion(one: Session) -> None:
    await one.add(2)
    claims = await one.claim()
    await end(one, claims[:1], Completed())
    claims[1].generation += 1
    report = await end(one, claims, Completed(), repeated=True)
    assert (report.completed, report.lost) == (1, [claims[1]])
    assert (await end(one, claims[:1], Completed())).lost == claims[:1], "if nothing was lost, it is not ours"


@pytest.mark.parametrize("ended_as", ["cancelled", "discarded", "pending", "processing", "dead_letter"])
async def test_a_job_that_went_another_way_is_lost(one: Session, ended_as: str) -> None:
    """Gone means completed because every other way leaves a row."""
    (id,) = await one.add(max_attempts=2)
    (stale,) = await one.claim()
    await end(one, [stale], HandedBack())
    match ended_as:
        case "cancelled":
            await one.inbox("cancel", id, "no", "ann")
        case "processing":
            await one.claim("w2")
        case "dead_letter" | "discarded":
            (claim,) = await one.claim("w2")
            await end(one, [claim], AttemptFailed("Boom", "no", give_up=True))
            if ended_as == "discarded":
                await one.inbox("discard", [id], "ann")
    before = await one.snapshot()
    report = await end(one, [stale], Completed(), repeated=True)
    assert (report.completed, report.lost) == (0, [stale])
    assert await one.snapshot() == before


async def test_what_hand_written_sql_completes_is_kept_as_its_kind_says(one: Session) -> None:
    await one.connection.execute(
        "insert into holdfast.kinds (kind, version, app, arguments, keep_days) values ('job', 1, 'shop', '{}', 0)"
    )
    done, other, cancelled = *(await one.add()), *(await one.add(kind="other")), *(await one.add())
    await one.connection.execute("update holdfast.inbox set status = 'completed' where id = any ($1)", [done, other])
    await one.connection.execute(
        "update holdfast.inbox set status = 'failed', cancel_requested_at = now() where id = $1", cancelled
    )
    turn = Turn(one.connection, one.database, Occurrences(), None, datetime.now(UTC))
    assert (await archive(turn)).rows == 3
    rows = await one.connection.fetch("select id from holdfast.archive")
    assert {row["id"] for row in rows} == {other, cancelled}
    assert (await counts(one))[0] == 0


async def test_what_hand_written_sql_completes_has_the_number_of_days_of_its_kind(one: Session) -> None:
    await one.connection.execute(
        "insert into holdfast.kinds (kind, version, app, arguments, keep_days) values ('job', 1, 'shop', '{}', 7)"
    )
    done, other, cancelled = *(await one.add()), *(await one.add(kind="other")), *(await one.add())
    await one.connection.execute("update holdfast.inbox set status = 'completed' where id = any ($1)", [done, other])
    await one.connection.execute(
        "update holdfast.inbox set status = 'failed', cancel_requested_at = now() where id = $1", cancelled
    )
    turn = Turn(one.connection, one.database, Occurrences(), None, datetime.now(UTC))
    assert (await archive(turn)).rows == 3
    rows = await one.connection.fetch("select id, keep_days from holdfast.archive")
    assert {tuple(row) for row in rows} == {(done, 7), (other, None), (cancelled, None)}
