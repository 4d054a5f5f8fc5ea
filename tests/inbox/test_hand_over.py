"""Keys whose row has ended here: which of them are looked at."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.gates import WAITS, delay_late_claims, gate
from tests.support.inbox import JOB, Session, until

from holdfast.db.link import Link
from holdfast.inbox import guarded
from holdfast.inbox.claim import Known
from holdfast.inbox.ending import write
from holdfast.inbox.guarded import GuardedCourse
from holdfast.model.outcome import Completed


@pytest.fixture
async def link(one: Session) -> AsyncIterator[Link]:
    link = Link(one.database, "keys")
    yield link
    await link.close()


@pytest.fixture
def asked(link: Link, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that ran, in order."""
    names: list[str] = []
    run = link.run

    async def listed(room: str, name: str, *arguments: object) -> object:
        names.append(name)
        return await run(room, name, *arguments)

    monkeypatch.setattr(link, "run", listed)
    return names


def course(link: Link) -> GuardedCourse:
    return GuardedCourse(link, "w1", ["default"], Known(JOB), 90.0)


async def claim_and_end(one: Session, here: GuardedCourse, limit: int = 25) -> None:
    for claim in (await here.claim(limit)).claims:
        await write(one, [(claim, Completed())])
        here.vacate(claim)


async def test_of_keys_with_nothing_behind_them_only_one_question_is_asked(
    one: Session, link: Link, asked: list[str]
) -> None:
    for n in range(20):
        await one.add(key=f"k{n}", ordered=True)
    here = course(link)
    await claim_and_end(one, here)
    asked.clear()
    assert (await here.hand_over(link, 25), here.vacated) == ([], 0)
    assert asked == ["blocked"]


async def test_what_was_passed_is_looked_at_without_asking(one: Session, link: Link, asked: list[str]) -> None:
    _, second = await one.add(2, key="k", ordered=True)
    here = course(link)
    await claim_and_end(one, here)
    asked.clear()
    assert [claim.id for claim in await here.hand_over(link, 25)] == [second]
    assert asked == ["claim_guarded"]


@pytest.mark.parametrize("slow", [False, True])
async def test_what_another_worker_blocked_is_taken_over(
    one: Session, link: Link, asked: list[str], monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    """Its row came after the floor had gone by, so this worker has passed nothing of the key."""
    (first,) = await one.add(key="k", ordered=True)
    here = course(link)
    (claim,) = (await here.claim(25)).claims
    (second,) = await one.add(key="k", ordered=True)
    assert await one.claim_guarded("w2", block=True) == []
    assert (await one.row(second))["status"] == "blocked"
    if slow:
        monkeypatch.setattr(guarded, "SLOW", 0.0)
        here.vacate(claim)
        assert await here.hand_over(link, 25) == [], "its head still runs"
        here.vacate(claim)
    await write(one, [(claim, Completed())])
    here.vacate(claim)
    asked.clear()
    assert [claim.id for claim in await here.hand_over(link, 25)] == [second]
    assert asked == (["claim_guarded"] if slow else ["blocked", "claim_guarded"])
    assert claim.id == first


async def test_a_key_that_falls_vacant_while_a_claim_passes_its_next_row_is_not_forgotten(
    one: Session, link: Link
) -> None:
    """The claim saw the key at work, and tells so when its row has ended and been asked about."""
    _, second = await one.add(2, key="k", ordered=True)
    here = GuardedCourse(link, "late", ["default"], Known(JOB), 90.0)
    (first,) = await one.claim_guarded("w1", 1, block=False)
    await delay_late_claims(one, "4. Lock heads")
    async with gate(one.database.url or ""):
        passing = asyncio.create_task(here.claim(25))
        await until(one.connection, WAITS)
        await write(one, [(first, Completed())])
        here.vacate(first)
        other = Link(one.database, "other keys")
        assert (await here.hand_over(other, 25), here.vacated) == ([], 0)
        await other.close()
    assert ((await passing).claims, here.vacated) == ([], 1)
    assert [claim.id for claim in await here.hand_over(link, 25)] == [second]


async def test_only_if_others_have_all_keys_locked_the_next_hand_over_waits(one: Session, link: Link) -> None:
    for key in ("k", "l"):
        await one.add(2, key=key, ordered=True)
    here = course(link)
    await claim_and_end(one, here)
    async with one.connection.transaction():
        await one.connection.execute("select pg_advisory_xact_lock(holdfast.key_lock('default', 'k'))")
        assert [claim.key for claim in await here.hand_over(link, 25)] == ["l"]
        assert (here.vacated, here.locked_out) == (1, False)
        assert await here.hand_over(link, 25) == []
        assert (here.vacated, here.locked_out) == (1, True)
    assert [claim.key for claim in await here.hand_over(link, 25)] == ["k"]
    assert (here.vacated, here.locked_out) == (0, False)
