"""Children: started with a step, and their ends become its result; the parent is woken once, when enough have ended."""

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest
from tests.support.inbox import Session, move_clock
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import PATIENCE
from tests.workflow.flows import (
    child_step,
    claim,
    due,
    end,
    end_child,
    history,
    instance,
    park,
    signal,
    started,
    step,
    steps,
)

from holdfast.inbox import ending as jobs
from holdfast.model.flow import FlowEnd, Parked
from holdfast.model.job import Claim
from holdfast.model.keep import as_installed
from holdfast.model.outcome import Completed, Ended, Final
from holdfast.workflow import ending, recording


async def family(one: Session, children: int = 1, kind: str = "job", left: int | None = None) -> tuple[Claim, Any]:
    """A parked parent, and its children as a worker holds them."""
    held = await started(one)
    begun = [child_step(n, kind) for n in range(children)]
    waits = tuple(f"child:child#{n}" for n in range(children))
    await park(one, held, Parked(0, waits, tuple(begun), left=left or children))
    assert not await due(one, held.id)
    claims = await claim(one, "w2", limit=max(children, 25))
    assert {each.id for each in claims} == {each.child.id for each in begun if each.child}
    return held, claims


async def test_the_result_of_a_child_becomes_that_of_the_step(one: Session) -> None:
    parent, (child,) = await family(one)
    report = await end_child(one, child, Completed('{"sum": 3}'))
    assert (report.completed, report.lost, report.again) == (1, [], [])
    assert await due(one, parent.id)
    (found,) = (await history(one, parent.id)).steps
    assert (found.status, json.loads(bytes(found.result)), found.error) == ("done", {"sum": 3}, None)
    kept = await one.archived(child.id)
    assert kept is not None
    assert (kept["status"], kept["result"], kept["steps"]) == ("completed", '{"sum": 3}', None)


@pytest.mark.parametrize("status", list(Final))
async def test_a_child_that_did_not_complete(one: Session, status: Final) -> None:
    parent, (child,) = await family(one)
    await end_child(one, child, Ended(status, "no stock"))
    assert await due(one, parent.id)
    (found,) = (await history(one, parent.id)).steps
    assert (found.status, found.error) == ("failed", f"{status.value}: no stock")


async def test_the_parent_is_woken_when_enough_have_ended(one: Session) -> None:
    parent, children = await family(one, 3, left=2)
    await end_child(one, children[0])
    assert not await due(one, parent.id)
    await end_child(one, children[1])
    assert await due(one, parent.id)
    (again,) = await claim(one)
    assert (await end_child(one, children[2])).completed == 1, "while it runs"
    found = await history(one, parent.id)
    assert ([each.status for each in found.steps], found.mail) == (["done"] * 3, 3)
    report = await park(one, again, Parked(2, ("child:x",), left=1))
    assert (report.parked, await due(one, parent.id)) == (1, True), "it has not seen the last one"


async def test_a_thousand_children_wake_their_parent_once(one: Session, two: Session) -> None:
    await two.connection.execute("create table public.woken (at timestamptz)")
    await two.connection.execute(
        "create function public.note() returns trigger language plpgsql as"
        " $$ begin insert into public.woken values (clock_timestamp()); return new; end $$"
    )
    held = await started(one)
    begun = [child_step(n) for n in range(1000)]
    watch = Stopwatch()
    await recording.record(one, [(held, begun)])
    starting = watch.taken()
    await park(one, held, Parked(0, ("child:map",), left=1000))
    await one.connection.execute(
        "create trigger note after update of available_at on holdfast.inbox for each row"
        f" when (old.id = '{held.id}' and old.status = 'pending' and new.status = 'pending')"
        " execute function public.note()"
    )
    claims = await claim(one, limit=1000)
    assert len(claims) == 1000
    watch = Stopwatch()
    for start in range(0, 1000, 250):
        report = await ending.end_children(one, [(each, Completed("1")) for each in claims[start : start + 250]])
        assert report.completed == 250
    ending_took = watch.taken()
    assert starting.own + ending_took.own < 2, f"starting: {starting}; ending: {ending_took}"
    assert await due(one, held.id)
    assert await one.connection.fetchval("select count(*) from public.woken") == 1
    found = await history(one, held.id)
    assert {each.status for each in found.steps} == {"done"}


@pytest.mark.parametrize("parked", [True, False])
async def test_the_last_two_children_end_at_the_same_time(one: Session, two: Session, parked: bool) -> None:
    """In two sessions: one of them may have to come again, and the parent is woken exactly once."""
    for _ in range(100):
        parent, (first, second) = await family(one, 2)
        if not parked:
            await one.connection.execute("update holdfast.inbox set available_at = now() where id = $1", parent.id)
            (running,) = await claim(one)
            await one.connection.execute("delete from holdfast.instances")
        reports = await asyncio.gather(end_child(one, first), end_child(two, second))
        again = [held for report in reports for held in report.again]
        assert len(again) <= 1
        assert sum(report.completed for report in reports) == 2 - len(again)
        for held in again:
            assert not await due(one, parent.id)
            assert (await end_child(one, held)).completed == 1
        assert (await instance(one, parent.id))["mail"] == 2
        if parked:
            assert (await instance(one, parent.id))["left_to_wait"] == 0
            assert await due(one, parent.id)
            (running,) = await claim(one)
        assert {status for _, _, status in await steps(one, parent.id)} == {"done"}
        await end(one, running)


async def test_a_child_whose_parent_is_locked_comes_again(one: Session, two: Session) -> None:
    """By a signal's open transaction. The other endings of the batch are written, and nothing waits."""
    for parked in (True, False):
        parent, (child,) = await family(one)
        other, (childs,) = await family(one)
        if not parked:
            await one.connection.execute("delete from holdfast.instances where job_id = $1", parent.id)
            await one.connection.execute("update holdfast.inbox set status = 'processing' where id = $1", parent.id)
        async with two.connection.transaction():
            await signal(two, parent.id, "other")
            report = await asyncio.wait_for(
                ending.end_children(one, [(child, Completed("1")), (childs, Completed("2"))]), PATIENCE
            )
            assert (report.completed, report.again, report.lost) == (1, [child], [])
            assert await due(one, other.id)
            assert (await one.row(child.id))["status"] == "processing"
        report = await end_child(one, child)
        assert (report.completed, report.again) == (1, [])
        assert await due(one, parent.id) is parked
        await one.connection.execute("delete from holdfast.inbox")


async def test_a_child_whose_parked_parent_is_locked_comes_again(one: Session, two: Session) -> None:
    parent, (child,) = await family(one)
    async with two.connection.transaction():
        await two.connection.execute("select from holdfast.inbox where id = $1 for update", parent.id)
        assert (await asyncio.wait_for(end_child(one, child), PATIENCE)).again == [child]
    assert (await end_child(one, child)).completed == 1
    assert await due(one, parent.id)


async def test_a_child_that_outlives_its_parent(one: Session) -> None:
    parent, (first, second) = await family(one, 2)
    await end_child(one, first)
    await one.connection.execute("update holdfast.inbox set available_at = now() where id = $1", parent.id)
    (held,) = await claim(one)
    await end(one, held)
    assert (await end_child(one, second)).completed == 1
    assert await one.archived(second.id) is not None
    assert await instance(one, parent.id) is None


async def test_a_child_that_is_a_workflow_folds_its_own_steps(one: Session) -> None:
    parent, (child,) = await family(one, kind="inner")
    await recording.record(one, [(child, [step("a", 0)])])
    await signal(one, child.id, "unread")
    report = await ending.write(one, [(child, FlowEnd(Completed("7"), (step("b", 1),)))])
    assert report.completed == 1
    kept = await one.archived(child.id)
    assert kept is not None
    folded = json.loads(kept["steps"])
    assert [each["name"] for each in folded["steps"]] == ["a", "b"]
    assert [each["name"] for each in folded["signals"]] == ["unread"]
    assert await steps(one, child.id) == []
    assert await instance(one, child.id) is None
    assert await due(one, parent.id)


async def test_an_end_of_a_child_whose_answer_was_lost_is_confirmed(one: Session) -> None:
    parent, (child,) = await family(one)
    await end_child(one, child)
    report = await ending.end_children(one, [(child, Completed("1"))], repeated=True)
    assert (report.completed, report.lost, report.again) == (1, [], [])
    assert (await instance(one, parent.id))["mail"] == 1
    child.generation += 1
    assert (await end_child(one, child)).lost == [child]


async def test_a_step_that_timed_out_keeps_that(one: Session) -> None:
    parent, (child,) = await family(one)
    await one.connection.execute("update holdfast.steps set status = 'timed_out'")
    await end_child(one, child)
    assert await steps(one, parent.id) == [("child", 0, "timed_out")]
    assert not await due(one, parent.id)


# Other ways to end


async def test_a_dead_letter_leaves_its_parent_waiting_and_its_discard_does_not(one: Session, two: Session) -> None:
    parent, (child,) = await family(one)
    hold = ([child.id], [child.generation])
    await one.inbox("fail", *hold, ["Boom: no"], ['{"error": "Boom"}'], [None], [True], [False], "w2")
    assert not await due(one, parent.id)
    (row,) = await one.connection.fetch("select * from holdfast.workflows")
    assert (row["state"], row["waits"], row["dead_children"]) == ("waiting", ["child:child#0"], [child.id])
    async with two.connection.transaction():
        await signal(two, parent.id, "other")
        assert await one.inbox("discard", [child.id], "ann") == [], "its parent is locked"
    assert len(await one.inbox("discard", [child.id], "ann")) == 1
    assert await due(one, parent.id)
    (found,) = (await history(one, parent.id)).steps
    assert (found.status, found.error) == ("failed", "discarded: Boom: no")


async def test_a_child_that_is_cancelled_before_it_starts(one: Session) -> None:
    held = await started(one)
    begun = child_step()
    assert begun.child is not None
    await park(one, held, Parked(0, ("child:child",), (begun,), left=1))
    rows = await one.inbox("cancel", begun.child.id, "enough", "ann")
    assert [row["status"] for row in rows] == ["cancelled"]
    assert await due(one, held.id)
    (found,) = (await history(one, held.id)).steps
    assert (found.status, found.error) == ("failed", "cancelled: enough")


async def test_a_child_that_expires_before_it_starts(one: Session) -> None:
    held = await started(one)
    begun = child_step()
    assert begun.child is not None
    await park(one, held, Parked(0, ("child:child",), (begun,), left=1))
    await one.connection.execute("update holdfast.inbox set expires_at = now() where id = $1", begun.child.id)
    await move_clock(one.connection, 1)
    rows = await one.run("housekeeping", "expire", await _beginning(one), 10)
    assert [row["id"] for row in rows] == [begun.child.id]
    assert await due(one, held.id)
    (found,) = (await history(one, held.id)).steps
    assert (found.status, (found.error or "").startswith("expired: not started by")) == ("failed", True)


async def _beginning(one: Session) -> Any:
    return await one.connection.fetchval("select now() - interval '1 day'")


async def test_a_child_that_was_cancelled_while_it_ran_and_failed(one: Session, two: Session) -> None:
    parent, (child,) = await family(one)
    assert [row["status"] for row in await one.inbox("cancel", child.id, "enough", "ann")] == ["processing"]
    hold = ([child.id], [child.generation])
    await one.inbox("fail", *hold, ["Boom: no"], ['{"error": "Boom"}'], [None], [False], [False], "w2")
    lowest = "00000000-0000-0000-0000-000000000000"
    assert [tuple(row) for row in await one.run("housekeeping", "archive", 10, lowest)] == [(0, None)]
    async with two.connection.transaction():
        await signal(two, parent.id, "other")
        assert [tuple(row) for row in await one.run("housekeeping", "archive_children", 10, lowest)] == [(0, None)]
    assert [tuple(row) for row in await one.run("housekeeping", "archive_children", 10, lowest)] == [(1, None)]
    assert await due(one, parent.id)
    (found,) = (await history(one, parent.id)).steps
    assert found.error == "cancelled: cancelled while it ran; Boom: no"
    kept = await one.archived(child.id)
    assert kept is not None and kept["status"] == "cancelled"


@pytest.mark.parametrize(
    ("outcome", "keep", "expected"),
    [
        (Completed('{"sum": 3}'), None, ("done", {"sum": 3}, None)),
        (Ended(Final.FAILED, "no stock"), None, ("failed", None, "failed: no stock")),
        (Completed(), 0, ("done", None, None)),
    ],
)
async def test_a_parent_that_was_not_told_hears_it_from_a_chore(
    one: Session, outcome: Completed | Ended, keep: int | None, expected: tuple[Any, ...]
) -> None:
    """A worker of a release without workflows ends a child as any job."""
    parent, (child, other) = await family(one, 2, left=1)
    await jobs.write(one, [(child, outcome)], keep=(lambda held: keep) if keep is not None else as_installed)
    assert not await due(one, parent.id)
    assert [tuple(row) for row in await one.run("housekeeping", "tell_missed", 10, UUID(int=0))] == [(1, None)]
    assert await due(one, parent.id)
    found = {step.child_id: step for step in (await history(one, parent.id)).steps}
    heard = found[child.id]
    assert (heard.status, json.loads(bytes(heard.result)), heard.error) == expected
    assert found[other.id].status == "open"
    assert [tuple(row) for row in await one.run("housekeeping", "tell_missed", 10, UUID(int=0))] == [(0, None)]
