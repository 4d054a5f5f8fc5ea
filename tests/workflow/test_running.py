"""Workflows through a real worker, and what they leave in the tables."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
from tests.support.inbox import Session

from holdfast import Flow, Holdfast, Signalled

FAST: dict[str, Any] = {"concurrency": 100, "poll": 0.05}


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
