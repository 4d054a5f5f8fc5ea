"""Steps through a real worker: what ends an attempt, what it is told, and the times that are kept of it."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Backoff, Context, Flow, Holdfast, LeaseLost, StepState, TxContext
from holdfast.testing import drain, frozen_clock
from holdfast.worker.leases import ledger as marks

FAST: dict[str, Any] = {"concurrency": 20, "poll": 0.05, "lease": 3}
"""A worker hears within a twelfth of a lease that an instance was cancelled."""
SOON = Backoff(base=0.01, jitter=0)


def seconds(of: timedelta) -> float:
    return of.total_seconds()


async def steps_of(hf: Holdfast, instance: Any) -> dict[str, StepState]:
    return {step.shown: step for step in (await hf.instance(instance)).steps}


# Over their time


async def test_a_step_that_is_over_its_time_is_retried(hf: Holdfast) -> None:
    stopped: list[int] = []

    async def ask(ctx: Context) -> str:
        if ctx.attempt == 1:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                stopped.append(ctx.attempt)
                raise
        return f"attempt {ctx.attempt}"

    @hf.workflow(version=1)
    async def asks(flow: Flow) -> str:
        return await flow.step("ask", ask, timeout="200ms", retry=SOON)

    async with hf.worker(**FAST):
        instance = await asks.start()
        assert await instance.result(timeout="30s") == "attempt 2"
    assert stopped == [1]
    asked = (await steps_of(hf, instance))["ask"]
    assert (asked.status, asked.attempts) == ("done", 2)
    assert [(error["error"], error["attempt"]) for error in asked.errors] == [("Timeout", 1)]
    assert "longer than the 0.2 s" in asked.errors[0]["message"]


async def test_a_timeout_inside_a_step_is_not_one_of_the_step(hf: Holdfast) -> None:
    async def ask(ctx: Context) -> None:
        if ctx.attempt == 1:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(3600)

    @hf.workflow(version=1)
    async def asks(flow: Flow) -> None:
        await flow.step("ask", ask, retry=SOON)

    async with hf.worker(**FAST):
        instance = await asks.start()
        await instance.result(timeout="30s")
    assert [error["error"] for error in (await steps_of(hf, instance))["ask"].errors] == ["TimeoutError"]


async def test_a_step_in_a_transaction_that_is_over_its_time_has_no_effect(hf: Holdfast, inbox: Inbox) -> None:
    async def charge(ctx: TxContext) -> int:
        found = await ctx.tx.fetchval("select count(*) from effects")
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.attempt)
        if ctx.attempt == 1:
            await asyncio.sleep(3600)
        return int(found)

    @hf.workflow(version=1)
    async def charges(flow: Flow) -> int:
        return await flow.step("charge", charge, timeout="200ms", retry=SOON)

    async with hf.worker(**FAST):
        instance = await charges.start()
        assert await instance.result(timeout="30s") == 0, "the second attempt finds nothing of the first one"
    assert inbox.rows("select job, attempt from effects") == [{"job": instance.job_id, "attempt": 2}]
    charged = (await steps_of(hf, instance))["charge"]
    assert [error["error"] for error in charged.errors] == ["Timeout"]


# Cancelled while they run


async def test_running_steps_are_told_that_their_instance_was_cancelled(hf: Holdfast) -> None:
    """One in a thread and one on the event loop, side by side. Both finish, are recorded, and undone."""
    begun: list[str] = []
    undone: list[str] = []

    def watch(ctx: Context) -> str:
        begun.append("watch")
        return "told" if ctx.wait_stopping(timeout=30) else "not told"

    async def look(ctx: Context) -> str:
        begun.append("look")
        async with asyncio.timeout(30):
            while not ctx.stopping:
                await asyncio.sleep(0.02)
        return "told"

    async def undo(ctx: Context) -> None:
        undone.append(f"{ctx.step}: {ctx.result}")  # type: ignore[attr-defined]

    @hf.workflow(version=1)
    async def watches(flow: Flow) -> None:
        await flow.gather(flow.step("watch", watch, undo=undo), flow.step("look", look, undo=undo))
        await flow.step("never", undo)

    async with hf.worker(**FAST):
        instance = await watches.start()
        await until(lambda: len(begun) == 2)
        assert await hf.cancel_instance(instance) == "processing"
        await ended(hf, instance.job_id)
    state = await hf.instance(instance)
    assert state.state == "cancelled"
    found = {step.shown: (step.status, step.result) for step in state.steps if step.kind == "step"}
    assert found == {"watch": ("done", "told"), "look": ("done", "told")}
    assert undone == ["undo:look: told", "undo:watch: told"]


async def ended(hf: Holdfast, instance: UUID) -> None:
    async with asyncio.timeout(30):
        while not (await hf.instance(instance)).ended:
            await asyncio.sleep(0.02)


# Stopped while they run in a thread


async def test_a_step_in_a_thread_is_told_that_its_lease_is_lost_and_is_watched_until_it_ends(
    hf: Holdfast, inbox: Inbox
) -> None:
    """It cannot be stopped, so its timeout holds. The step beside it is cancelled at once."""
    begun: list[str] = []
    told: list[str] = []
    gate = threading.Event()

    def watch(ctx: Context) -> None:
        begun.append("watch")
        ctx.wait_stopping(timeout=30)
        try:
            ctx.check()
        except LeaseLost:
            told.append("watch")
            gate.wait(30)

    async def look(ctx: Context) -> None:
        begun.append("look")
        try:
            await asyncio.sleep(3600)
        finally:
            told.append(f"look: {ctx.stopping}")

    @hf.workflow(version=1)
    async def watches(flow: Flow) -> None:
        await flow.gather(flow.step("watch", watch, timeout="1h"), flow.step("look", look))

    async with hf.worker(**FAST) as worker:
        engine = worker.engine
        try:
            await watches.start()
            await until(lambda: len(begun) == 2)
            inbox.rows(
                "update holdfast.inbox set claimed_by = 'another', lease_generation = 7,"
                " lease_expires_at = now() + '1 hour'"
            )
            await until(lambda: sorted(told) == ["look: True", "watch"])
            await asyncio.sleep(0.2)  # it could end now
            (held,) = engine.ledger.held()
            assert held.kill_at - marks.now() > 3500e9
            assert engine.tally.counters.lease_lost == 0, "while it runs, it takes up its place"
        finally:
            gate.set()
        await until(lambda: engine.tally.counters.lease_lost == 1 and not list(engine.ledger.held()))
    assert inbox.one("select lease_generation from holdfast.inbox") == 7


async def test_what_a_drain_leaves_running_in_a_thread_is_left_to_its_lease(hf: Holdfast, inbox: Inbox) -> None:
    """The process is the application's, and the thread goes on in it."""
    begun, gate = threading.Event(), threading.Event()

    async def end() -> None: ...

    def wait() -> None:
        begun.set()
        gate.wait(30)

    @hf.workflow(version=1)
    async def waits(flow: Flow) -> None:
        await flow.gather(flow.step("wait", wait), flow.step("end", end))

    try:
        async with hf.worker(**{**FAST, "lease": 60, "drain": 0.1}) as worker:
            instance = await waits.start()
            await until(begun.is_set)
        assert worker.engine.handlers_left
        assert inbox.status(instance.job_id) == "processing"
        assert inbox.rows("select name, status from holdfast.steps") == [{"name": "end", "status": "done"}]
    finally:
        gate.set()


async def test_what_has_ended_beside_a_step_that_a_drain_interrupts_is_not_called_again(
    hf: Holdfast, inbox: Inbox
) -> None:
    called: list[str] = []

    async def end() -> str:
        called.append("end")
        return "ended"

    async def wait(ctx: Context) -> str:
        called.append("wait")
        if ctx.generation == 1:
            await asyncio.sleep(3600)
        return "waited"

    @hf.workflow(version=1)
    async def waits(flow: Flow) -> list[str]:
        return list(await flow.gather(flow.step("wait", wait), flow.step("end", end)))

    async with hf.worker(**{**FAST, "drain": 0.1}):
        instance = await waits.start()
        await until(lambda: len(called) == 2)
    assert inbox.status(instance.job_id) == "pending"
    async with hf.worker(**FAST):
        assert await instance.result(timeout="30s") == ["waited", "ended"]
    assert called == ["wait", "end", "wait"]


async def test_who_cancels_a_drain_of_tests_does_not_wait_for_a_thread(hf: Holdfast) -> None:
    gate, ended = threading.Event(), threading.Event()

    def wait() -> None:
        gate.wait(30)
        ended.set()

    @hf.workflow(version=1)
    async def waits(flow: Flow) -> None:
        await flow.step("wait", wait)

    await waits.start()
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await drain(hf)
        assert not ended.is_set()
    finally:
        gate.set()


async def test_a_step_in_a_thread_whose_code_does_not_wait_for_it_ends_before_the_next_attempt(
    hf: Holdfast, inbox: Inbox
) -> None:
    """What the code did cannot be replayed, so the attempt fails; but not while its thread runs."""
    running: list[int] = []
    most: list[int] = []

    def work(ctx: Context) -> None:
        running.append(ctx.generation)
        most.append(len(running))
        time.sleep(1)
        running.remove(ctx.generation)

    @hf.workflow(version=1, max_attempts=2, retry=SOON)
    async def hurries(flow: Flow) -> None:
        async with asyncio.timeout(0.1):
            await flow.step("work", work)

    async with hf.worker(**FAST):
        instance = await hurries.start()
        await until(lambda: inbox.status(instance.job_id) == "dead_letter")
    assert (most, running) == ([1, 1], [])
    assert [error["error"] for error in inbox.job(instance.job_id)["errors"]] == ["ConfigurationError"] * 2


# Their times


async def test_what_is_written_later_ended_when_it_ended(hf: Holdfast) -> None:
    """Of two steps side by side, the short one is written together with the long one: by the next step, or the end."""

    async def work(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @hf.workflow(version=1)
    async def works(flow: Flow) -> None:
        for name in ("stored", "kept"):
            await flow.gather(flow.step(f"{name} short", work, 0.0), flow.step(f"{name} long", work, 0.6))
            if name == "stored":
                await flow.step("next", work, 0.0)

    async with hf.worker(**FAST):
        instance = await works.start()
        await instance.result(timeout="30s")
    found = await steps_of(hf, instance)
    for name in ("stored", "kept"):
        short, long = found[f"{name} short"], found[f"{name} long"]
        assert short.started_at and short.ended_at and long.started_at and long.ended_at and short.took and long.took
        assert seconds(long.ended_at - short.ended_at) > 0.5
        assert seconds(long.ended_at - long.started_at) > 0.5 and long.took > 0.5
        assert abs(seconds(long.started_at - short.started_at)) < 0.5 and short.took < 0.5, "they began together"


async def test_a_step_that_was_tried_before_began_then(hf: Holdfast) -> None:
    """Also if it is the last one. What became of its first attempt is kept."""
    called: list[datetime] = []

    async def flaky() -> None:
        called.append(datetime.now(UTC))
        if len(called) == 1:
            raise ValueError("no luck")

    @hf.workflow(version=1)
    async def tries(flow: Flow) -> None:
        await flow.step("flaky", flaky, retry=Backoff(base=1, jitter=0))

    async with hf.worker(**FAST):
        instance = await tries.start()
        await instance.result(timeout="30s")
    (step,) = (await hf.instance(instance)).steps
    assert step.started_at and step.ended_at and step.took
    assert step.started_at < called[1] - timedelta(seconds=0.5) and step.took > 0.5
    assert (step.attempts, [error["message"] for error in step.errors]) == (2, ["no luck"])


async def test_a_sleep_that_ends_with_its_instance_began_when_it_began(hf: Holdfast) -> None:
    @hf.workflow(version=1)
    async def naps(flow: Flow) -> None:
        await flow.sleep("nap", "1h")

    async with frozen_clock(hf) as clock:
        instance, began = await naps.start(), clock.now
        await drain(hf)
        await clock.advance("1h")
        await drain(hf)
    (nap,) = (await hf.instance(instance)).steps
    assert nap.started_at and nap.ended_at and nap.took
    assert abs(seconds(nap.started_at - began)) < 60 and abs(seconds(nap.ended_at - began) - 3600) < 60
    assert abs(nap.took - 3600) < 60


async def test_a_time_that_is_not_certain_is_not_shown(hf: Holdfast, inbox: Inbox) -> None:
    """Such as of a step that a worker has kept which did not say when it ended."""

    async def nothing() -> None: ...

    @hf.workflow(version=1)
    async def short(flow: Flow) -> None:
        await flow.step("nothing", nothing)

    instance = await short.start()
    await drain(hf)
    inbox.rows("update holdfast.archive set steps = steps #- '{steps,0,ago}'")
    (step,) = (await hf.instance(instance)).steps
    assert (step.status, step.started_at, step.ended_at) == ("done", None, None)
