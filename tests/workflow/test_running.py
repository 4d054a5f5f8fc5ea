"""Workflows through a real worker, and what they leave in the tables."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.support.inbox import Session
from tests.support.waiting import PATIENCE

from holdfast import Flow, Holdfast, JobFailed, Signalled, TxContext
from holdfast.testing import drain, frozen_clock
from holdfast.worker.flows import way

FAST: dict[str, Any] = {"concurrency": 100, "poll": 0.05}
LOOKED = 1.3
"""Seconds after which a session that waits has looked for a deadlock. Who waits next finds it, and is ended."""


async def nothing() -> None: ...


async def echo(value: Any) -> Any:
    return value


async def _kept(one: Session, instance: str) -> list[dict[str, Any]]:
    sql = "select steps -> 'steps' from holdfast.archive where idempotency_key = $1"
    kept: list[dict[str, Any]] = json.loads(await one.connection.fetchval(sql, instance))
    return kept


async def test_a_timer_that_is_given_as_a_time_is_due_then(hf: Holdfast, one: Session) -> None:
    @hf.workflow(version=1)
    async def naps(flow: Flow) -> None:
        await flow.step("before", nothing)
        await flow.until("nap", due)

    async with hf.worker(**FAST):
        due = datetime.now(UTC) + timedelta(seconds=3)  # long enough to be seen before it
        job = await naps.options(id="nap:1").start()
        while (row := await _step(one, "nap")) is None:
            await asyncio.sleep(0.02)
        assert (row["wake_at"], row["status"]) == (due, "open")
        await job.result(timeout=60)
    finished = await one.connection.fetchval("select finished_at from holdfast.archive where idempotency_key = 'nap:1'")
    assert finished >= due


async def test_a_finished_step_has_no_timer(hf: Holdfast, one: Session) -> None:
    @hf.workflow(version=1)
    async def waits(flow: Flow) -> None:
        await flow.step("before", nothing)
        await flow.wait("go", dict)

    async with hf.worker(**FAST):
        await waits.options(id="waits:1").start()
        while (row := await _step(one, "before")) is None:
            await asyncio.sleep(0.02)
    assert (row["wake_at"], row["status"]) == (None, "done")
    assert await one.connection.fetchval("select wake_at from holdfast.instances") is None


@pytest.mark.parametrize("first", ["timer", "step"])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_timer_counts_from_its_beginning_while_a_step_runs_beside_it(
    hf: Holdfast, one: Session, first: str, waits: bool
) -> None:
    """And never less: the instance may wake a moment before, but the timer is not over then."""

    async def slow() -> None:
        await asyncio.sleep(2)

    @hf.workflow(version=1)
    async def beside(flow: Flow) -> None:
        timer = flow.wait("nap", timeout="3s") if waits else flow.sleep("nap", "3s")
        step = flow.step("slow", slow)
        await flow.gather(*((timer, step) if first == "timer" else (step, timer)))

    async with hf.worker(**FAST):
        instance = await beside.options(id="beside:1").start()
        while not (
            parked := await one.connection.fetchrow("select * from holdfast.instances where wake_at is not null")
        ):
            await asyncio.sleep(0.02)
        began = (await _step(one, "slow"))["started_at"]  # type: ignore[index]
        wake_at = (await _step(one, "nap"))["wake_at"]  # type: ignore[index]
        await instance.result(timeout=60)
    assert wake_at - began < timedelta(seconds=4)
    assert abs(parked["wake_at"] - wake_at) < timedelta(seconds=1.5)
    assert await one.connection.fetchval("select finished_at from holdfast.archive") >= wake_at


async def test_a_frozen_clock_stands_still_for_timers_too(hf: Holdfast) -> None:
    async def slow() -> None:
        await asyncio.sleep(0.2)

    @hf.workflow(version=1)
    async def beside(flow: Flow) -> None:
        await flow.gather(flow.step("slow", slow), flow.sleep("nap", "1h"))

    async with frozen_clock(hf) as clock:
        instance = await beside.start()
        await drain(hf)
        began = clock.now
        assert await clock.skip() == began + timedelta(hours=1)
        await drain(hf)
        assert (await hf.instance(instance)).state == "completed"


async def test_a_step_and_a_transaction_that_cancels_wait_for_each_other(
    hf: Holdfast, one: Session, two: Session
) -> None:
    """The server ends the step, which runs again, or is not begun: its instance is undone."""
    inside, gate = asyncio.Event(), asyncio.Event()
    calls: list[int] = []

    async def write(ctx: TxContext) -> None:
        calls.append(ctx.generation)
        await ctx.tx.execute("update public.shelf set parcels = parcels + 1")
        inside.set()
        await gate.wait()

    @hf.workflow(version=1, max_attempts=1)
    async def writes(flow: Flow) -> None:
        await flow.step("write", write, max_attempts=1)

    await one.connection.execute("create table public.shelf (parcels int); insert into public.shelf values (0)")
    async with hf.worker(**FAST, lease=300):
        instance = await writes.start()
        await inside.wait()
        async with two.connection.transaction():
            await two.connection.fetch("select * from holdfast.cancel(array[$1::uuid])", instance.id)
            changing = asyncio.create_task(two.connection.execute("update public.shelf set parcels = parcels + 10"))
            await asyncio.sleep(LOOKED)
            gate.set()
            await asyncio.wait_for(changing, PATIENCE)
        with pytest.raises(JobFailed, match="cancelled"):
            await instance.result(timeout=60)
    assert calls == [1]
    assert await one.connection.fetchval("select parcels from public.shelf") == 10


async def test_a_step_that_is_rolled_back_by_a_deadlock_runs_again(hf: Holdfast, one: Session, two: Session) -> None:
    """It costs no attempt."""
    inside, gate = asyncio.Event(), asyncio.Event()

    async def write(ctx: TxContext) -> int:
        parcels = await ctx.tx.fetchval("update public.shelf set parcels = parcels + 1 returning parcels")
        inside.set()
        await gate.wait()
        return int(parcels)

    @hf.workflow(version=1, max_attempts=1)
    async def writes(flow: Flow) -> int:
        return await flow.step("write", write, max_attempts=1)

    await one.connection.execute("create table public.shelf (parcels int); insert into public.shelf values (0)")
    async with hf.worker(**FAST, lease=300):
        instance = await writes.start()
        await inside.wait()
        async with two.connection.transaction():
            await two.connection.execute("select from holdfast.inbox for no key update")
            changing = asyncio.create_task(two.connection.execute("update public.shelf set parcels = parcels + 10"))
            await asyncio.sleep(LOOKED)
            gate.set()
            await asyncio.wait_for(changing, PATIENCE)
        assert await instance.result(timeout=60) == 11


async def test_a_step_waits_for_a_transaction_that_has_locked_its_instance(
    hf: Holdfast, two: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long: in several statements, of which none takes long."""
    monkeypatch.setattr(way, "PATIENCE", "100ms")
    inside, gate = asyncio.Event(), asyncio.Event()

    async def write(ctx: TxContext) -> str:
        inside.set()
        await gate.wait()
        return "written"

    @hf.workflow(version=1)
    async def writes(flow: Flow) -> str:
        return await flow.step("write", write)

    async with hf.worker(**FAST, lease=300):
        instance = await writes.start()
        await inside.wait()
        async with two.connection.transaction():
            await two.connection.execute("select from holdfast.inbox for update")
            gate.set()
            await asyncio.sleep(0.5)
        assert await instance.result(timeout=60) == "written"


async def test_children_of_an_instance_that_fails_are_cancelled(hf: Holdfast, one: Session) -> None:
    """As if it had been cancelled."""
    undone: list[str] = []

    async def undo() -> None:
        undone.append("child")

    async def broken() -> None:
        while await _step(one, "begun") is None:
            await asyncio.sleep(0.02)
        raise ValueError("no luck")

    @hf.workflow(version=1)
    async def inner(flow: Flow) -> None:
        await flow.step("begun", nothing, undo=undo)
        await flow.wait("never")

    @hf.task(queue="idle")
    async def later() -> None: ...

    @hf.workflow(version=1, undo_on_failure=True)
    async def outer(flow: Flow) -> None:
        await flow.gather(
            flow.child("inner", inner), flow.child("later", later), flow.step("broken", broken, max_attempts=1)
        )

    await hf.pause("idle")
    async with hf.worker(**FAST):
        instance = await outer.options(id="outer:1").start()
        with pytest.raises(JobFailed, match="step broken failed 1 time"):
            await instance.result(timeout=60)
        while await one.connection.fetchval("select count(*) from holdfast.inbox"):
            await asyncio.sleep(0.02)
    assert undone == ["child"]
    rows = await one.connection.fetch("select kind, status::text, last_error from holdfast.archive order by kind")
    assert [tuple(row)[:2] for row in rows] == [("inner", "cancelled"), ("later", "cancelled"), ("outer", "failed")]
    assert {row["last_error"] for row in rows[:2]} == {"the workflow that waits for it failed"}


async def _step(one: Session, name: str) -> asyncpg.Record | None:
    return await one.connection.fetchrow("select * from holdfast.steps where name = $1", name)


async def test_the_archive_keeps_every_step_whatever_its_name_and_result(hf: Holdfast, one: Session) -> None:
    """Stored steps and the one that comes with the end, in their order; the JSON is put together as text."""
    values: list[Any] = [None, 'a "quoted" \\ line\n', {"ü": [1, 2.5, 10**15]}, "", []]

    @hf.workflow(version=1)
    async def odd(flow: Flow) -> None:
        for value in values:
            await flow.step('say "it" \\', echo, value)

    async with hf.worker(**FAST):
        await (await odd.options(id="odd:1").start()).result(timeout=60)
    kept = await _kept(one, "odd:1")
    assert [step["result"] for step in kept] == values
    assert [(step["name"], step["n"], step["ordinal"]) for step in kept] == [('say "it" \\', n, n) for n in range(5)]
    assert {(step["kind"], step["status"], step["attempts"]) for step in kept} == {("step", "done", 1)}
    assert all(
        datetime.fromisoformat(step["ended_at"]) >= datetime.fromisoformat(step["started_at"]) for step in kept[:4]
    )
    assert not {"errors", "wake_at", "child_id"} & set().union(*kept)
    assert await one.connection.fetchval("select count(*) from holdfast.steps") == 0


async def test_many_instances_at_once_record_every_step(hf: Holdfast, one: Session) -> None:
    """Their records share trips."""

    @hf.workflow(version=1)
    async def counts(flow: Flow, number: int) -> int:
        total = 0
        for each in range(4):
            total += await flow.step("add", echo, number + each)
        return total

    async with hf.worker(**FAST):
        jobs = [await counts.options(id=f"counts:{number}").start(number) for number in range(150)]
        assert [await job.result(timeout=60) for job in jobs] == [4 * number + 6 for number in range(150)]
    assert [step["result"] for step in await _kept(one, "counts:7")] == [7, 8, 9, 10]


async def test_a_signal_in_a_step_is_not_left_to_the_next_poll(hf: Holdfast) -> None:
    inside, gate = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        inside.set()
        await gate.wait()

    @hf.workflow
    async def held(flow: Flow) -> str:
        await flow.step("hold", hold)
        return str(await flow.wait("go", str))

    async with hf.worker(poll="100s"):
        instance = await held.start()
        await inside.wait()
        assert await hf.signal(instance, "go", "now") is Signalled.KEPT
        await asyncio.sleep(0.5)  # the worker has polled for other work, and sleeps
        gate.set()
        assert await instance.result(timeout="30s") == "now"
