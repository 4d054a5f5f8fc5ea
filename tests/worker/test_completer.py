"""Endings are written in batches, and only while their lease was looked after."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.support.inbox import Session
from tests.support.pooler import database_at
from tests.support.waiting import until

from holdfast.db.link import Link
from holdfast.model.occurrences import Occurrences
from holdfast.model.outcome import DONE, AttemptFailed, Completed
from holdfast.worker.attempts.completer import Completer
from holdfast.worker.leases import ledger as marks
from holdfast.worker.leases.ledger import Ledger
from holdfast.worker.tally import Tally

LEASE = 5.0


@pytest_asyncio.fixture
async def link(migrated_url: str) -> AsyncIterator[Link]:
    link = Link(database_at(migrated_url), "write")
    yield link
    await link.close()


@pytest.mark.parametrize("outcome", [Completed(), AttemptFailed("Boom", "")])
async def test_what_nobody_looked_after_for_a_whole_lease_is_lost_before_anything_is_written(
    one: Session, link: Link, outcome: Completed | AttemptFailed
) -> None:
    # As after a suspended machine: the row may still be ours in the database, and nobody knows for how long.
    late, kept = await one.add(2)
    claims = {claim.id: claim for claim in await one.claim("w1")}
    ledger, tally = Ledger(), Tally()
    completer = Completer(link, ledger, Occurrences(tally), LEASE, batch=10)
    for id, age in ((late, LEASE + 1), (kept, LEASE - 1)):
        claims[id].slot = ledger.hold(id, claims[id].generation, marks.now() - int(age * 1e9))
    completer.start()
    for id in (late, kept):
        completer.add(claims[id], outcome)
    assert await completer.close(within=30)
    assert (await one.row(late))["status"] == "processing"
    assert await one.connection.fetchval("select status from holdfast.jobs where id = $1", kept) != "processing"
    assert tally.counters.lease_lost == 1
    assert list(ledger.held()) == []


async def test_what_is_no_outcome_is_not_taken_for_one(one: Session, link: Link) -> None:
    await one.add()
    (claim,) = await one.claim("w1")
    completer = Completer(link, Ledger(), Occurrences(), LEASE, batch=10)
    with pytest.raises(AssertionError):
        completer.add(claim, object())  # type: ignore[arg-type]
    assert completer.backlog == 0


async def test_a_late_ending_does_not_take_a_later_claim_of_the_same_job_with_it(one: Session, link: Link) -> None:
    # As after a suspended machine: the job was swept meanwhile, and is claimed and run here again before the first
    # ending was looked at.
    (job,) = await one.add(1)
    (first,) = await one.claim("w1")
    await one.connection.execute(
        "update holdfast.inbox set status = 'pending', claimed_by = null, lease_expires_at = null, claimed_at = null"
    )
    (second,) = await one.claim("w1")
    assert second.generation > first.generation
    ledger, tally = Ledger(), Tally()
    completer = Completer(link, ledger, Occurrences(tally), LEASE, batch=10)
    for claim, age in ((first, LEASE + 1), (second, 0)):
        claim.slot = ledger.hold(job, claim.generation, marks.now() - int(age * 1e9))
        completer.add(claim, DONE)
    completer.start()
    assert await completer.close(within=30)
    assert await one.connection.fetchval("select status from holdfast.jobs where id = $1", job) == "completed"
    assert (tally.counters.lease_lost, tally.counters.completed) == (1, 1)
    assert list(ledger.held()) == []


@pytest.mark.parametrize("ordered", [False, True])
async def test_endings_that_come_close_together_share_a_commit_unless_a_key_waits_for_them(
    one: Session, link: Link, ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.attempts.completer.LINGER", 2.0)  # longer than a slow machine takes
    monkeypatch.setattr("holdfast.worker.attempts.completer.CLOSE", 60.0)
    await one.add(3)
    claims = await one.claim("w1")
    ledger, tally = Ledger(), Tally()
    completer = Completer(link, ledger, Occurrences(tally), LEASE, batch=10)
    for claim in claims:
        claim.slot = ledger.hold(claim.id, claim.generation, marks.now())
        claim.ordered = ordered
    completer.start()
    batches = []
    completer.freed = lambda: batches.append(tally.counters.completed)
    for claim in claims:
        completer.add(claim, Completed())
        await asyncio.sleep(0.05)
        if claim is claims[0]:
            await until(lambda: bool(batches))
    assert await completer.close(within=30)
    assert batches == ([1, 2, 3] if ordered else [1, 3])
