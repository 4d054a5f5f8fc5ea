"""To cancel an instance that has begun is to undo it: it is marked and made due, and so are those it waits for."""

import asyncio

import msgspec
import pytest
from tests.support.inbox import Session, move_clock
from tests.support.waiting import PATIENCE
from tests.workflow.flows import (
    cancel,
    child_step,
    claim,
    due,
    for_signal,
    history,
    instance,
    park,
    signal,
    start,
    started,
    step,
    steps,
)

from holdfast import Flow, Holdfast, JobFailed
from holdfast.model.flow import FlowEnd, Parked, Standing
from holdfast.model.job import Claim
from holdfast.model.outcome import Completed, Ended, Final
from holdfast.workflow import ending, operating, recording


async def test_an_instance_that_was_never_claimed_ends_at_once(one: Session) -> None:
    (id,) = await start(one, idempotency_key="checkout:1")
    await signal(one, id, "unread")
    assert await cancel(one, "checkout:1", "enough") == "cancelled"
    kept = await one.archived(id)
    assert kept is not None
    assert (kept["status"], kept["last_error"], '"unread"' in kept["steps"]) == ("cancelled", "enough", True)
    assert await instance(one, id) is None


@pytest.mark.parametrize("state", ["parked", "paused", "running", "retrying", "dead_letter"])
async def test_an_instance_that_has_begun_is_marked_and_made_due(one: Session, state: str) -> None:
    held = await started(one)
    if state in ("parked", "paused"):
        await park(one, held, for_signal())
    elif state != "running":
        give_up = state == "dead_letter"
        hold = ([held.id], [held.generation])
        await one.inbox("fail", *hold, ["E"], ['{"error": "E"}'], [60.0], [give_up], [False], "w1")
    if state == "paused":
        await operating.pause(one, held.id)
    assert await cancel(one, held.id) == "processing"
    if state == "running":
        assert await recording.record(one, [(held, [step()])]) == {held.id: Standing(True, False)}
        assert (await park(one, held, for_signal())).parked == 1
        assert await due(one, held.id), "it was cancelled after it had been loaded"
    assert await due(one, held.id)
    (again,) = await claim(one)
    assert (again.cancelled, again.attempt <= 2) == (True, True)
    assert not (await history(one, held.id)).paused
    mark = step("undo:", 9, "open", kind="undo", result='{"status": "cancelled"}')
    mail = (await history(one, held.id)).mail
    await park(one, again, Parked(mail, ("retry:undo:charge",), (mark,), delay=30))
    assert not await due(one, held.id), "it is being undone, and may wait"
    (row,) = await one.connection.fetch("select state from holdfast.workflows")
    assert row["state"] == "undoing"


async def test_cancel_against_park(one: Session, two: Session) -> None:
    """In any order: it is due, and it is marked."""
    for _ in range(100):
        held = await started(one)
        await asyncio.gather(park(one, held, for_signal()), cancel(two, held.id))
        row = await one.row(held.id)
        assert row["cancel_requested_at"] is not None
        assert await due(one, held.id)
        await one.connection.execute("delete from holdfast.inbox; delete from holdfast.instances")


async def test_an_instance_that_was_cancelled_in_its_last_step_does_not_complete(one: Session) -> None:
    held, (child,) = await started(one), (child_step(0, "inner"),)
    assert child.child
    await park(one, held, Parked(0, ("child:child",), (child,), left=1))
    (inner,) = await claim(one)
    other = await started(one, idempotency_key="checkout:2")
    assert await cancel(one, inner.id) == await cancel(one, other.id) == "processing"
    done = FlowEnd(Completed("1"), (step("last", 3),), stored=False)
    report = await ending.write(one, [(inner, done), (other, done)])
    assert (report.completed, report.parked, report.lost, report.again) == (0, 2, [], [])
    for id in (inner.id, other.id):
        assert await steps(one, id) == [("last", 0, "done")], "it ran, and must be undone"
        assert await due(one, id)
    assert [each.cancelled for each in await claim(one)] == [True, True]
    assert await steps(one, held.id) == [("child", 0, "open")]


async def test_a_cancelled_instance_that_was_lost_is_lost(one: Session) -> None:
    held = await started(one)
    await cancel(one, held.id)
    stale = msgspec.structs.replace(held, generation=0)
    report = await ending.write(one, [(stale, FlowEnd(Completed("1"), (step("last"),)))])
    assert (report.parked, report.lost) == (0, [stale])
    assert await steps(one, held.id) == []


async def test_an_open_cancel_does_not_hold_up_the_batch(one: Session, two: Session) -> None:
    held = await started(one)
    async with two.connection.transaction():
        await cancel(two, held.id)
        report = await asyncio.wait_for(park(one, held, for_signal()), PATIENCE)
        assert (report.parked, report.again) == (0, [held])
    assert (await park(one, held, for_signal())).parked == 1
    assert await due(one, held.id)


@pytest.mark.parametrize("dies", [False, True])
async def test_a_cancelled_instance_whose_attempt_fails_is_retried(one: Session, dies: bool) -> None:
    """It must be undone: neither a failed attempt nor a dead worker ends it."""
    held = await started(one)
    await cancel(one, held.id)
    if dies:
        await sweep(one)
    else:
        await fail(one, held, False)
    row = await one.row(held.id)
    assert (row["status"], row["dead_at"], row["cancel_requested_at"] is None) == ("pending", None, False)
    await move_clock(one.connection, 1000)
    (again,) = await claim(one)
    assert again.cancelled


async def fail(one: Session, held: Claim, give_up: bool) -> None:
    hold = ([held.id], [held.generation])
    await one.inbox("fail", *hold, ["E"], ['{"error": "E"}'], [60.0], [give_up], [False], "w1")


async def sweep(one: Session) -> None:
    await move_clock(one.connection, 100)
    floor = await one.connection.fetchval("select now() - interval '1 day'")
    until = await one.connection.fetchval("select holdfast.clock()")
    await one.run("housekeeping", "sweep", floor, "00000000-0000-0000-0000-000000000000", until, 10)


@pytest.mark.parametrize("how", ["gives up", "last attempt", "worker dies"])
async def test_a_cancelled_instance_whose_last_attempt_fails_is_undone(one: Session, how: str) -> None:
    """Its code may not have heard of the cancel. The next attempt has, and becomes a dead letter if it fails, too."""
    held = await started(one, max_attempts=3 if how == "gives up" else 1)
    assert await cancel(one, held.id) == "processing"
    if how == "worker dies":
        await sweep(one)
    else:
        await fail(one, held, how == "gives up")
    row = await one.row(held.id)
    assert (row["status"], row["attempts"], row["dead_at"]) == ("pending", 0, None)
    assert await due(one, held.id)
    (again,) = await claim(one)
    assert again.cancelled and again.attempt == 1
    await fail(one, again, True)
    assert (await one.row(held.id))["status"] == "dead_letter"
    assert await cancel(one, held.id) == "processing", "it is tried again"


async def test_an_instance_that_is_being_undone_and_cannot_be_is_a_dead_letter(one: Session) -> None:
    """It has heard of the cancel in the same attempt."""
    held = await started(one)
    await cancel(one, held.id)
    await recording.record(one, [(held, [step("undo:", 9, "open", kind="undo", result='{"status": "cancelled"}')])])
    await fail(one, held, True)
    assert (await one.row(held.id))["status"] == "dead_letter"


async def test_an_instance_that_is_cancelled_again_after_a_restart_is_undone(one: Session) -> None:
    held = await started(one)
    await recording.record(one, [(held, [step("a"), step("b", 1)])])
    await park(one, held, for_signal())
    await cancel(one, held.id, "first")
    await one.connection.execute("select holdfast.restart_instance($1, 'b')", str(held.id))
    (again,) = await claim(one)
    assert not again.cancelled
    await cancel(one, held.id, "second")
    await fail(one, again, True)
    (again,) = await claim(one)
    assert again.cancelled
    await ending.write(one, [(again, FlowEnd(Ended(Final.CANCELLED, "cancelled")))])
    kept = await one.archived(held.id)
    assert kept is not None and (kept["status"], kept["last_error"]) == ("cancelled", "second")


async def test_a_worker_that_sleeps_is_woken_for_what_must_be_undone(hf: Holdfast) -> None:
    inside, gate = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        inside.set()
        await gate.wait()

    @hf.workflow(max_attempts=1)
    async def held(flow: Flow) -> None:
        await flow.step("hold", hold)
        raise ValueError("no luck")

    async with hf.worker(poll="100s", lease=300):
        instance = await held.start()
        await inside.wait()
        assert await hf.cancel_instance(instance, "enough") == "processing"
        gate.set()
        with pytest.raises(JobFailed, match="enough"):
            await instance.result(timeout="30s")
    assert (await hf.instance(instance)).state == "cancelled"


async def test_an_instance_ends_with_the_reason_of_its_cancel(one: Session) -> None:
    held, (child,) = await started(one), (child_step(0, "inner"),)
    await park(one, held, Parked(0, ("child:child",), (child,), left=1))
    (inner,) = await claim(one)
    await cancel(one, held.id, "the order was withdrawn")
    await cancel(one, held.id, "too late")
    (held,) = await claim(one)
    end = FlowEnd(Ended(Final.CANCELLED, "cancelled"))
    await ending.write(one, [(held, end), (inner, end)])
    reasons = []
    for id in (held.id, inner.id):
        kept = await one.archived(id)
        assert kept is not None and kept["status"] == "cancelled"
        reasons.append(kept["last_error"])
    assert reasons == ["the order was withdrawn", "the workflow that waits for it was cancelled"]


async def test_cancel_reaches_children_and_theirs(one: Session) -> None:
    held = await started(one)
    running, waiting, done = child_step(0, "inner"), child_step(1), child_step(2)
    assert running.child and waiting.child and done.child
    await park(one, held, Parked(0, ("child:child",), (running,), left=1))
    (inner,) = await claim(one)
    deep = child_step(0)
    assert deep.child
    await park(one, inner, Parked(0, ("child:child",), (deep,), left=1))
    (job,) = await claim(one)
    assert job.id == deep.child.id
    await one.connection.execute("update holdfast.inbox set available_at = now() where id = $1", held.id)
    (held,) = await claim(one)
    await recording.record(one, [(held, [waiting])])
    assert await cancel(one, held.id) == "processing"
    assert (await one.row(inner.id))["cancel_requested_at"] is not None
    assert await due(one, inner.id)
    assert (await one.row(job.id))["cancel_requested_at"] is not None
    kept = await one.archived(waiting.child.id)
    assert kept is not None
    assert (kept["status"], kept["last_error"]) == ("cancelled", "the workflow that waits for it was cancelled")
    assert await steps(one, held.id) == [("child", 0, "open"), ("child", 1, "failed")]


async def test_a_plain_job_is_cancelled_as_before(one: Session) -> None:
    first, second = await one.add(2, kind="job")
    await claim(one, limit=1)
    rows = await one.inbox("cancel_many", [second, first], "enough", "ann")
    assert {row["id"]: row["status"] for row in rows} == {first: "processing", second: "cancelled"}


async def test_an_instance_that_has_begun_does_not_expire(one: Session) -> None:
    held = await started(one)
    await one.connection.execute("update holdfast.inbox set expires_at = now() + interval '1 second'")
    await park(one, held, for_signal())
    assert (await one.row(held.id))["expires_at"] is None
    await one.connection.execute("update holdfast.inbox set expires_at = now() - interval '1 second'")
    rows = await one.run("housekeeping", "expire", await one.connection.fetchval("select now() - interval '1 day'"), 10)
    assert rows == []
