"""Pause, resume, restart; where an instance stands, and since when."""

import json

import asyncpg
import pytest
from tests.support.inbox import Session, move_clock
from tests.workflow.flows import (
    cancel,
    child_step,
    claim,
    due,
    end,
    for_signal,
    history,
    park,
    signal,
    sleeping,
    start,
    started,
    step,
    steps,
    waiting,
)

from holdfast.errors import NotFound
from holdfast.model.flow import Parked, Standing
from holdfast.workflow import operating, recording


async def state(one: Session) -> str:
    (row,) = await operating.list(one)
    return str(row["state"])


async def test_a_paused_instance_is_not_woken(one: Session) -> None:
    held = await started(one)
    await park(one, held, Parked(0, ("signal:paid", "timer:nap"), (sleeping(60),), delay=60))
    assert await operating.pause(one, held.id) == "paused"
    assert await state(one) == "paused"
    assert await signal(one, held.id) == "kept"
    await move_clock(one.connection, 100)
    assert not await due(one, held.id)
    assert await operating.resume(one, held.id) == "resumed"
    assert await operating.resume(one, held.id) == "not paused"
    (again,) = await claim(one)
    found = await history(one, again.id)
    assert (found.paused, found.mail, len(found.signals)) == (False, 2, 1)


async def test_an_instance_that_is_paused_while_it_runs(one: Session) -> None:
    held = await started(one)
    await operating.pause(one, held.id)
    assert await state(one) == "running"
    assert await recording.record(one, [(held, [step()])]) == {held.id: Standing(False, True)}
    await park(one, held, Parked(0, ("pause",)))
    assert (await state(one), await due(one, held.id)) == ("paused", False)
    await operating.resume(one, held.id)
    assert await due(one, held.id)


async def test_an_instance_that_is_paused_before_it_was_claimed_or_while_it_waits_for_its_retry(one: Session) -> None:
    (id,) = await start(one, idempotency_key="checkout:1")
    assert await operating.pause(one, "checkout:1") == "paused"
    assert await claim(one) == []
    await operating.resume(one, id)
    (held,) = await claim(one)
    await one.inbox("fail", [held.id], [1], ["E"], ['{"error": "E"}'], [50.0], [False], [False], "w1")
    assert await state(one) == "retrying"
    await operating.pause(one, id)
    await move_clock(one.connection, 60)
    assert (await claim(one), await state(one)) == ([], "paused")
    await operating.resume(one, id)
    (held,) = await claim(one)
    assert not (await history(one, held.id)).paused


async def test_an_instance_that_is_paused_while_it_waits_for_its_turn(one: Session) -> None:
    (id,) = await start(one)
    await one.connection.execute("update holdfast.inbox set status = 'blocked', ordered = true")
    assert await operating.pause(one, id) == "paused"
    row = await one.row(id)
    assert (row["status"], row["available_at"].year > 2100) == ("blocked", True), "its turn does not make it due"
    assert await operating.resume(one, id) == "resumed"
    row = await one.row(id)
    assert (row["status"], row["available_at"].year < 2100) == ("blocked", True)


async def test_to_resume_a_dead_letter_is_to_retry_it(one: Session) -> None:
    held = await started(one)
    await recording.record(one, [(held, [step("a", 0, "open", attempts=3)])])
    await one.inbox("fail", [held.id], [1], ["E"], ['{"error": "E"}'], [None], [True], [False], "w1")
    assert await state(one) == "dead letter"
    assert await operating.resume(one, held.id) == "resumed"
    (again,) = await claim(one)
    assert (again.attempt, (await history(one, held.id)).steps[0].attempts) == (1, 0)


async def test_nobody(one: Session) -> None:
    (id,) = await start(one)
    (held,) = await claim(one)
    await end(one, held)
    for verb in (operating.pause, operating.resume):
        assert (await verb(one, "nobody"), await verb(one, id)) == ("unknown", "ended")
    with pytest.raises(NotFound):
        await cancel(one, "nobody")
    with pytest.raises(asyncpg.PostgresError, match="no live workflow instance"):
        await operating.restart(one, id, "a")


async def test_restart_forgets_a_step_and_what_began_later(one: Session) -> None:
    held = await started(one, idempotency_key="checkout:1")
    begun = child_step(3)
    assert begun.child
    await signal(one, held.id)
    taken = step("wait paid", 2, kind="wait", signal=1)
    await recording.record(one, [(held, [step("a", 0), step("b", 1), taken])])
    with pytest.raises(asyncpg.PostgresError, match="runs and cannot be restarted"):
        await operating.restart(one, held.id, "b")
    await park(one, held, Parked(1, ("child:child",), (begun,), left=1))
    with pytest.raises(asyncpg.PostgresError, match="has no step nothing"):
        await operating.restart(one, held.id, "nothing")
    assert await operating.restart(one, "checkout:1", "b") == 3
    assert await steps(one, held.id) == [("a", 0, "done")]
    assert await due(one, held.id)
    kept = await one.archived(begun.child.id)
    assert kept is not None and kept["status"] == "cancelled"
    (again,) = await claim(one)
    found = await history(one, again.id)
    assert ([each.name for each in found.signals], found.mail) == (["paid"], 2)


async def test_restart_of_a_dead_letter_and_of_a_cancelled_one(one: Session) -> None:
    held = await started(one)
    await recording.record(one, [(held, [step("a", 0)])])
    await one.inbox("fail", [held.id], [1], ["E"], ['{"error": "E"}'], [None], [True], [False], "w1")
    assert await operating.restart(one, held.id, "a") == 1
    (held,) = await claim(one)
    mark = step("undo:", 1, "open", kind="undo")
    await park(one, held, Parked(1, ("retry:x",), (step("a", 0), mark), delay=60))
    with pytest.raises(asyncpg.PostgresError, match="is being undone"):
        await operating.restart(one, held.id, "a")


async def test_where_an_instance_stands(one: Session) -> None:
    (id,) = await start(one, idempotency_key="checkout:1")
    await one.add(kind="job", due=60_000)
    assert await state(one) == "queued"
    (held,) = await claim(one)
    assert await state(one) == "running"
    await park(one, held, Parked(0, ("timer:nap",), (sleeping(60),), delay=60))
    (row,) = await operating.list(one, "checkout", ["sleeping"])
    assert (row["instance"], row["job_id"], row["version"], row["waits"]) == ("checkout:1", id, 1, ["timer:nap"])
    assert row["wake_at"] == (await one.row(id))["available_at"]
    assert row["since"] is not None
    assert await operating.list(one, "checkout", ["running"]) == []
    assert await operating.list(one, "inner") == []
    await move_clock(one.connection, 61)
    assert await state(one) == "queued"
    (held,) = await claim(one)
    await park(one, held, for_signal(records=(waiting(ordinal=1),)))
    assert await state(one) == "waiting"
    await signal(one, id)
    (held,) = await claim(one)
    await park(one, held, Parked(1, ("retry:a",), (step("a", 2, "open", attempts=1),), delay=60))
    assert await state(one) == "retrying"
    shown = await operating.show(one, "checkout:1")
    assert [each["name"] for each in json.loads(shown["steps"])] == ["nap", "wait paid", "a"]
    assert [each["name"] for each in json.loads(shown["signals"])] == ["paid"]
    rows = await one.connection.fetch("select instance, name, status from holdfast.workflow_steps order by ordinal")
    assert tuple(rows[0]) == ("checkout:1", "nap", "open")
    await move_clock(one.connection, 1000)
    (held,) = await claim(one)
    record = '{"error": "HistoryMismatch", "message": "step b is gone"}'
    await one.inbox("fail", [id], [held.generation], ["E"], [record], [None], [True], [False], "w1")
    assert await state(one) == "needs attention"


async def test_an_instance_that_has_ended_is_shown_from_the_archive(one: Session) -> None:
    held = await started(one)
    await end(one, held, "5", [step("a", 0, result="1")])
    shown = await operating.show(one, held.id)
    assert (shown["state"], shown["result"], json.loads(shown["steps"])[0]["name"]) == ("completed", "5", "a")
