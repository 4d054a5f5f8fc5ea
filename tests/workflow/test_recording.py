"""Steps: written under the hold, once however often they are sent, and read back when the instance is claimed again."""

import asyncio
import json
from datetime import datetime, timedelta

import msgspec
import pytest
from tests.support.inbox import Session, move_clock
from tests.support.waiting import PATIENCE
from tests.workflow.flows import (
    child_step,
    claim,
    history,
    park,
    signal,
    sleeping,
    started,
    step,
    steps,
    waiting,
)

from holdfast.model.flow import Parked, Standing
from holdfast.workflow import recording


async def test_a_step_is_written_and_read_back(one: Session) -> None:
    held = await started(one)
    record = step(result='{"paid": 5}', took=0.25, attempts=1, digest=-7)
    assert await recording.record(one, [(held, [record])]) == {held.id: Standing(False, False)}
    (found,) = (await history(one, held.id)).steps
    assert (found.name, found.n, found.kind, found.status, found.attempts) == ("charge", 0, "step", "done", 1)
    assert (json.loads(bytes(found.result)), found.digest, found.due, found.error) == ({"paid": 5}, -7, False, None)
    took = await one.connection.fetchval("select ended_at - started_at from holdfast.steps")
    assert took == timedelta(seconds=0.25)


async def test_keys_keep_their_order(one: Session) -> None:
    """Code may run a step for each of them: a replay must see the order that the first run saw."""
    held = await started(one)
    await recording.record(one, [(held, [step(result='{"pears": 1, "figs": 2, "a": 3}')])])
    (found,) = (await history(one, held.id)).steps
    assert list(json.loads(bytes(found.result))) == ["pears", "figs", "a"]


async def test_an_instance_without_anything_has_an_empty_history(one: Session) -> None:
    held = await started(one)
    found = await history(one, held.id)
    assert (found.steps, found.signals, found.mail, found.paused) == ([], [], 0, False)


async def test_without_steps_it_tells_where_the_instance_stands(one: Session) -> None:
    held = await started(one)
    assert await recording.record(one, [(held, [])]) == {held.id: Standing(False, False)}
    await one.connection.execute("update holdfast.inbox set cancel_requested_at = now()")
    await one.connection.execute("insert into holdfast.instances (job_id, paused_at) values ($1, now())", held.id)
    assert await recording.record(one, [(held, [])]) == {held.id: Standing(True, True)}
    assert await steps(one, held.id) == []


async def test_a_stale_worker_writes_nothing(one: Session) -> None:
    stale = await started(one)
    await one.connection.execute("update holdfast.inbox set status = 'pending', claimed_by = null")
    (held,) = await claim(one, "w2")
    assert await recording.record(one, [(stale, [step()])]) == {}
    assert await recording.record(one, [(held, [step("other")])]) == {held.id: Standing(False, False)}
    assert await steps(one, held.id) == [("other", 0, "done")]


async def test_a_batch_of_many_instances_and_steps_is_one_statement(one: Session) -> None:
    await one.add(3, kind="checkout")
    first, second, third = await claim(one)
    third.generation += 1
    batch = [(first, [step(f"s{n}", n) for n in range(3)]), (second, [step()]), (third, [step()])]
    assert set(await recording.record(one, batch)) == {first.id, second.id}
    assert len(await steps(one, first.id)) == 3
    assert await steps(one, third.id) == []


async def test_a_record_that_is_sent_again_has_one_effect(one: Session) -> None:
    """The answer was lost. Its error is not added twice, and its timer does not begin again."""
    held = await started(one)
    batch = [
        (held, [step("a", 0, "open", error='{"error": "Boom", "message": "no"}', attempts=1), sleeping(60, ordinal=1)])
    ]
    await recording.record(one, batch)
    before = await one.connection.fetch("select * from holdfast.steps order by ordinal")
    await move_clock(one.connection, 5)
    assert set(await recording.record(one, batch)) == {held.id}
    after = await one.connection.fetch("select * from holdfast.steps order by ordinal")
    assert [row["errors"] for row in after] == [row["errors"] for row in before]
    assert [row["wake_at"] for row in after] == [row["wake_at"] for row in before]
    assert (await history(one, held.id)).steps[0].error == "Boom: no"


async def test_the_errors_of_a_step_are_appended_ten_at_most(one: Session) -> None:
    held = await started(one)
    for n in range(1, 13):
        error = json.dumps({"error": "Boom", "message": str(n)})
        await recording.record(one, [(held, [step("a", 0, "open", error=error, attempts=n)])])
    kept = json.loads(await one.connection.fetchval("select errors from holdfast.steps"))
    assert [each["message"] for each in kept] == [str(n) for n in range(3, 13)]
    assert kept[-1]["attempt"] == 12


async def test_what_has_ended_stays_when_the_record_of_its_start_is_sent_again(one: Session) -> None:
    held = await started(one)
    begun = child_step()
    await recording.record(one, [(held, [begun])])
    await one.connection.execute("update holdfast.steps set status = 'done', result = '5'")
    await one.connection.execute("delete from holdfast.inbox where id = $1", begun.child and begun.child.id)
    await recording.record(one, [(held, [begun])])
    assert await steps(one, held.id) == [("child", 0, "done")]
    assert await one.connection.fetchval("select count(*) from holdfast.inbox where kind = 'job'") == 0


async def test_a_child_is_started_with_its_step(one: Session) -> None:
    held = await started(one)
    begun = child_step()
    assert begun.child is not None
    await recording.record(one, [(held, [begun])])
    row = await one.row(begun.child.id)
    assert (row["kind"], row["status"], json.loads(row["headers"])) == (
        "job", "pending", {"holdfast.parent": str(held.id)},
    )  # fmt: skip
    (found,) = (await history(one, held.id)).steps
    assert (found.child_id, found.status) == (begun.child.id, "open")


@pytest.mark.parametrize("ordered", [True, False, None])
async def test_a_child_has_the_terms_of_its_task(one: Session, ordered: bool | None) -> None:
    held = await started(one)
    begun = child_step()
    assert begun.child is not None
    begun.child = msgspec.structs.replace(begun.child, key="k", ordered=ordered, skips=True, expires=60.0)
    await recording.record(one, [(held, [begun])])
    row = await one.row(begun.child.id)
    assert (row["partition_key"], row["ordered"], row["skips"]) == ("k", ordered is True, True)
    assert 0 < (row["expires_at"] - row["created_at"]).total_seconds() <= 61


@pytest.mark.parametrize("skips", [True, False])
async def test_a_child_does_not_wait_for_the_end_of_what_waits_for_it(one: Session, skips: bool) -> None:
    held = await started(one, key="k")
    await one.connection.execute("update holdfast.inbox set ordered = true, skips = $1", skips)
    await recording.record(one, [(held, [child_step(1, "inner", "within")])])
    (inner,) = await claim(one)
    for parent in (held, inner):
        begun = child_step()
        assert begun.child is not None
        begun.child = msgspec.structs.replace(begun.child, key="k", ordered=True)
        await recording.record(one, [(parent, [begun])])
        assert (await one.row(begun.child.id))["ordered"] is skips


async def test_an_instance_that_was_cancelled_starts_no_child(one: Session) -> None:
    held = await started(one)
    await one.connection.execute("update holdfast.inbox set cancel_requested_at = now()")
    found = await recording.record(one, [(held, [step("a"), child_step(1)])])
    assert found == {held.id: Standing(True, False)}
    assert await steps(one, held.id) == [("a", 0, "done")], "it needs to be undone"
    assert await one.connection.fetchval("select count(*) from holdfast.inbox") == 1


async def test_a_signal_that_is_taken_is_marked(one: Session) -> None:
    held = await started(one)
    await signal(one, held.id, payload=None)
    await signal(one, held.id, "other")
    first, second = (await history(one, held.id)).signals
    assert (first.name, bytes(first.payload), second.name) == ("paid", b"null", "other")
    await recording.record(one, [(held, [step("wait paid", kind="wait", signal=first.n, result="null")])])
    assert [each.name for each in (await history(one, held.id)).signals] == ["other"]


async def test_a_row_that_is_locked_is_written_as_soon_as_it_is_free(one: Session, two: Session) -> None:
    held = await started(one)
    async with two.connection.transaction():
        await two.connection.execute("select from holdfast.inbox for update")
        writing = asyncio.create_task(recording.record(one, [(held, [step()])]))
        await asyncio.sleep(0.1)
        assert not writing.done()
    assert set(await asyncio.wait_for(writing, PATIENCE)) == {held.id}
    assert await steps(one, held.id) == [("charge", 0, "done")]


async def test_an_instance_that_was_locked_for_a_moment_is_written_as_a_whole_or_not_at_all(
    one: Session, two: Session
) -> None:
    """Its row becomes free while the statement goes through its records: without the first of them, a replay would not
    find what it asks for."""
    await one.add(2, kind="checkout")
    first, held = await claim(one)
    many = [step(f"s{n}", n) for n in range(100_000)]  # the statement is under way for a second
    async with two.connection.transaction():
        await two.connection.execute("select from holdfast.inbox where id = $1 for update", held.id)
        writing = asyncio.create_task(recording.record_once(one, [(first, [step()]), (held, many)]))
        await locks(two)
    assert await writing == [Standing(False, False), recording.Locked.NOW]
    assert await steps(one, first.id) == [("charge", 0, "done")]
    assert await steps(one, held.id) == []
    assert set(await recording.record(one, [(held, many[:3])])) == {held.id}


async def locks(two: Session) -> None:
    """Wait until the session that records steps has locked its first row, and a little longer."""
    found = "select from pg_stat_activity where backend_xid is not null and query like '%record_steps%' and pid <> $1"
    async with asyncio.timeout(PATIENCE):
        while not await two.connection.fetch(found, await two.connection.fetchval("select pg_backend_pid()")):
            await two.connection.execute("select pg_stat_clear_snapshot()")
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)


async def test_it_commits_with_the_transaction_that_it_is_in(one: Session, two: Session) -> None:
    held = await started(one)
    with pytest.raises(ZeroDivisionError):
        async with one.connection.transaction():
            assert set(await recording.record(one, [(held, [step()])])) == {held.id}
            raise ZeroDivisionError
    assert await steps(one, held.id) == []
    async with one.connection.transaction():
        await recording.record(one, [(held, [step()])])
    assert await steps(two, held.id) == [("charge", 0, "done")]


async def test_a_record_makes_up_for_crashes_before_it(one: Session) -> None:
    held = await started(one)
    await one.connection.execute("update holdfast.inbox set attempts = 4")
    await recording.record(one, [(held, [step()])])
    assert (await one.row(held.id))["attempts"] == 1


async def test_a_timer_is_due_by_the_clock_of_the_database(one: Session) -> None:
    """Never early: neither the row nor the step."""
    held = await started(one)
    await park(one, held, Parked(0, ("timer:nap",), (sleeping(60),), delay=60))
    wake_at = await one.connection.fetchval("select wake_at from holdfast.steps")
    await stop_clock(one, wake_at - timedelta(milliseconds=1))
    assert await claim(one) == []
    assert not (await history(one, held.id)).steps[0].due
    await stop_clock(one, wake_at)
    (again,) = await claim(one)
    (found,) = (await history(one, again.id)).steps
    assert found.due
    assert found.wake_at is not None


async def stop_clock(one: Session, instant: datetime) -> None:
    await one.connection.execute(
        "create or replace function holdfast.clock() returns timestamptz language sql stable parallel safe "
        f"as $$ select '{instant.isoformat()}'::timestamptz $$"
    )


async def test_two_records_of_a_step_in_one_batch_are_one(one: Session) -> None:
    held = await started(one)
    await signal(one, held.id)
    taken = step("wait paid", 0, kind="wait", signal=1, result='"yes"')
    await recording.record(one, [(held, [waiting(delay=5, digest=3), taken])])
    (found,) = (await history(one, held.id)).steps
    assert (found.status, found.digest, found.due, bytes(found.result)) == ("done", 3, False, b'"yes"')
