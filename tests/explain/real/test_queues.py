"""Jobs that wait: for a worker, for their time, for their turn."""

import asyncio

from tests.explain.real.conftest import IDLE_KEEPER, QUICK, Scene
from tests.support.causes import cause
from tests.support.waiting import until

from holdfast import Holdfast, Retry, Snooze, acting_as
from holdfast.model.keys import bucket
from holdfast.model.ring import Ring


@cause("paused")
async def test_somebody_pauses_its_queue(scene: Scene) -> None:
    @scene.hf.task(queue="mail")
    async def send() -> None: ...

    async with scene.hf.worker(**QUICK):
        with acting_as("ann@example.org"):
            await scene.hf.pause("mail")
        job = await send.enqueue()
        found = await scene.until(job.id, "paused")
        assert "queue mail is paused since" in found.answer.sentence
        assert found.answer.sentence.endswith("Z, by ann@example.org")
        await scene.obey(found.answer)
        await scene.until(job.id, "completed")


@cause("no_worker", "no_worker_on_queue", "no_worker_for_kind", "no_worker_for_version")
async def test_no_worker_can_run_it_until_one_is_deployed_that_can(scene: Scene) -> None:
    new = Holdfast(scene.inbox.url)
    before, between = Holdfast(scene.inbox.url), Holdfast(scene.inbox.url)

    @new.task(name="send", queue="mail", version=3)
    async def send() -> None: ...

    @before.task(name="other", queue="mail")
    async def other() -> None: ...

    @between.task(name="send", queue="mail", version=2)
    async def old_send() -> None: ...

    @scene.hf.task(name="elsewhere", queue="elsewhere")
    async def elsewhere() -> None: ...

    job = await send.enqueue()
    assert await scene.codes(job.id) == ["no_worker"]
    try:
        async with scene.hf.worker(**QUICK):
            found = await scene.until(job.id, "no_worker_on_queue")
            assert "no live worker serves queue mail; 1 worker is live, for other queues" in found.answer.sentence
            assert (found.answer.remedy or "").endswith("--queue mail")
        async with before.worker(**QUICK):
            found = await scene.until(job.id, "no_worker_for_kind")
            assert "knows the kind send (1 worker is live)" in found.answer.sentence
        async with between.worker(**QUICK):
            found = await scene.until(job.id, "no_worker_for_version")
            assert "knows version 3 of send; they know version 2" in found.answer.sentence
        assert await scene.codes(job.id) == ["no_worker"], "they have all left"
        async with new.worker(**QUICK):
            await scene.until(job.id, "completed")
    finally:
        for app in (new, before, between):
            await app.close()


@cause("scheduled")
async def test_it_is_enqueued_for_later(scene: Scene) -> None:
    @scene.hf.task
    async def report() -> None: ...

    async with scene.hf.worker(**QUICK):
        job = await report.options(delay="1h").enqueue()
        found = await scene.until(job.id, "scheduled")
        assert found.answer.until is not None and 3590 < (found.answer.until - found.at).total_seconds() <= 3600
        await scene.obey(found.answer)  # run it now
        await scene.until(job.id, "completed")


@cause("retry", "snoozed")
async def test_its_handler_fails_and_snoozes(scene: Scene) -> None:
    endings = [Snooze("1h"), Retry("1h"), ConnectionError("refused"), Snooze("1h"), None]

    @scene.hf.task
    async def stumbles() -> None:
        if (ending := endings.pop(0)) is not None:
            raise ending

    job = await stumbles.enqueue()
    scene.inbox.prepare(backoff_unit=3600)
    async with scene.hf.worker(**QUICK):
        for code, told in (("snoozed", "it was snoozed"), ("retry", "after attempt 1 of 5"),
                           ("retry", "after attempt 2 of 5 (ConnectionError: refused)"),
                           ("snoozed", "it was snoozed")):  # fmt: skip
            found = await scene.until(job.id, code)
            while told not in found.answer.sentence:  # the attempt before it
                found = await scene.until(job.id, code)
            await scene.obey(found.answer)
        await scene.until(job.id, "completed")


@cause("behind")
async def test_another_job_of_its_key_runs(scene: Scene) -> None:
    gate = asyncio.Event()

    @scene.hf.task(ordered=True)
    async def ship(waits: bool) -> None:
        if waits:
            await gate.wait()

    async with scene.hf.worker(**QUICK) as worker:
        first, *_ = [await ship.options(key="order:1").enqueue(waits) for waits in (True, False, False)]
        await scene.until(first.id, "runs")
        last = await ship.options(key="order:1").enqueue(False)
        found = await scene.until(last.id, "behind")
        assert found.head is not None and (found.head.id, found.head.answer.code) == (first.id, "runs")
        assert f"behind job {first.id} of its key 'order:1': it runs on worker {worker.name}" in found.answer.sentence
        gate.set()
        await scene.until(last.id, "completed")


@cause("hands_busy")
async def test_all_hands_are_busy(scene: Scene) -> None:
    gate = asyncio.Event()

    @scene.hf.task
    async def slow() -> None:
        await gate.wait()

    async with scene.hf.worker(**QUICK, concurrency=2):
        for _ in range(2):
            await scene.until((await slow.enqueue()).id, "runs")
        waiting = [await slow.enqueue() for _ in range(3)]
        found = await scene.until(waiting[-1].id, "hands_busy")
        assert "all 2 handler slots of the one worker that can run it are in use" in found.answer.sentence
        assert "--concurrency" in (found.answer.remedy or "")
        gate.set()
        await scene.until(waiting[-1].id, "completed")


@cause("owner_cannot")
async def test_the_owner_of_its_bucket_has_other_code(scene: Scene) -> None:
    """The chore `disown`, which would give the job to the other worker within 10 s, has just had its turn."""
    other = Holdfast(scene.inbox.url)

    @scene.hf.task(name="ship", queue="owned")
    async def ship() -> None: ...

    @other.task(name="pack", queue="owned")
    async def pack() -> None: ...

    await scene.command("queue", "set", "owned", "--owned")
    try:
        async with other.worker(**IDLE_KEEPER) as owner, scene.hf.worker(**IDLE_KEEPER) as knows:
            await until(lambda: scene.inbox.rows("select name from holdfast.chores where name = 'disown'") != [])
            ring = Ring([knows.name, owner.name])
            key = next(f"order:{n}" for n in range(1000) if ring.owner(bucket(f"order:{n}")) == owner.name)
            job = await ship.options(key=key).enqueue()
            found = await scene.until(job.id, "owner_cannot")
            assert f"belongs to worker {owner.name}, which cannot run ship version 1" in found.answer.sentence
            await scene.command("workers", "drain", owner.name)
            found = await scene.why(job.id)
            assert found.answer.code in ("due", "runs", "completed"), "the other one owns it"
    finally:
        await other.close()
