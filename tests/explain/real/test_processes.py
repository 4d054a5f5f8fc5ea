"""Real worker processes that are stopped, killed and drained, as explain tells it.

Where a real cause needs half a minute or more, the clock of the installation is moved on (`Scene.later`). The worker is
stopped all the same, and nobody writes its row.
"""

import os
import signal

import psycopg
from tests.explain.real.conftest import IDLE_KEEPER, QUICK, Scene
from tests.support.causes import cause
from tests.support.inbox import session
from tests.support.pooler import direct
from tests.support.waiting import until
from tests.support.workers import Fleet, Worker

BEATS = ("--heartbeat", "0.2")


def signal_all(worker: Worker, number: int) -> None:
    """To the supervisor and its processes: what happens to a container, or to a host."""
    os.killpg(worker.pid, number)


def running(scene: Scene, worker: str) -> int:
    """How many jobs the worker said that it runs, in its last heartbeat."""
    statement = "select (metadata -> 'counters' ->> 'running')::int from holdfast.workers where id = %s"
    return int(scene.inbox.one(statement, worker) or 0)


@cause("due", "runs", "owner_silent", "owner_quiet", "nobody_sweeps", "no_worker")
async def test_a_host_stands_still_and_goes_on(scene: Scene, fleet: Fleet) -> None:
    inbox = scene.inbox
    await scene.command("queue", "set", "owned", "--owned")
    worker = fleet.start(lease=60, options=(*BEATS, "--queue", "default", "--queue", "owned"))
    (name,) = fleet.names(worker)
    gate = fleet.folder / "gate"
    held = inbox.enqueue("hold", gate=str(gate))
    found = await scene.until(held, "runs")
    assert f"it runs on worker {name}" in found.answer.sentence and "attempt 1 of 5" in found.answer.sentence
    await until(lambda: running(scene, name) == 1)
    signal_all(worker, signal.SIGSTOP)
    try:
        waits = inbox.enqueue("quick")
        owned = inbox.one("select holdfast.enqueue('quick', queue => 'owned', key => 'order:1')")
        found = await scene.until(waits, "due")
        assert "it is next in its queue, at its priority, and 1 of 4 handler slots are in use" in found.answer.sentence
        found = await scene.until(owned, "due")
        assert f"in a bucket of worker {name}" in found.answer.sentence
        await scene.later(15)
        found = await scene.until(owned, "owner_quiet")
        assert f"belongs to worker {name}, which was last seen " in found.answer.sentence
        assert await scene.codes(held) == ["runs"], "nobody can know yet"
        await scene.later(17)
        found = await scene.until(held, "owner_silent")
        assert f"held by worker {name}, which was not seen for " in found.answer.sentence
        assert "and then it is retried" in found.answer.sentence and found.answer.until is not None
        found = await scene.until(waits, "no_worker")
        assert f"{name} was last seen " in found.answer.sentence
        await scene.later(40)
        found = await scene.until(held, "nobody_sweeps")
        assert f"its lease, of worker {name}, ended" in found.answer.sentence
        await scene.now()
    finally:
        signal_all(worker, signal.SIGCONT)
    await scene.until(held, "runs")
    gate.touch()
    for id in (held, waits, owned):
        await scene.until(id, "completed")


@cause("nobody_sweeps", "lease_over", "sweep_fails", "row_locked", "no_attempt_left")
async def test_a_host_dies_and_its_jobs_are_swept_in_the_end(scene: Scene, fleet: Fleet) -> None:
    @scene.hf.task
    async def hold(gate: str) -> None: ...

    worker = fleet.start(lease=60)
    ids = [scene.inbox.enqueue("hold", gate="stays shut") for _ in range(2)]
    last = scene.inbox.enqueue("hold", gate="stays shut", max_attempts=1)
    for id in (*ids, last):
        await scene.until(id, "runs")
    signal_all(worker, signal.SIGKILL)
    await scene.later(62)
    swept, locked = ids
    await scene.until(locked, "nobody_sweeps")

    # Somebody gives back a job by the runbook, and forgets the condition on the attempts.
    scene.inbox.rows(
        """update holdfast.inbox
           set status = 'pending', claimed_by = null, claimed_at = null, lease_expires_at = null,
               available_at = clock_timestamp() where id = %s""",
        last,
    )
    found = await scene.until(last, "no_attempt_left", "no_worker")
    assert "housekeeping makes it a dead letter" in found.answer.sentence

    # A worker that has only just started waits for a third of a lease before it takes anything from others.
    async with scene.hf.worker(**IDLE_KEEPER, lease=90):
        found = await scene.until(swept, "lease_over")
        assert "The next sweep takes it, and it is retried" in found.answer.sentence

    async with session(direct(scene.inbox.url)) as operator:
        await operator.connection.execute("alter function holdfast.fail_attempts rename to lost")
        async with scene.hf.worker(heartbeat=0.1, housekeeping=0.1, poll=0.05, lease=0.6):
            found = await scene.until(swept, "sweep_fails")
            assert "holdfast.fail_attempts" in found.answer.sentence and "does not exist" in found.answer.sentence
            told = await scene.obey(found.answer)  # the runbook
            assert "fail_attempts" in told
            async with await psycopg.AsyncConnection.connect(direct(scene.inbox.url)) as holder:
                await holder.execute("select from holdfast.inbox where id = %s for update", [locked])
                await operator.connection.execute("alter function holdfast.lost rename to fail_attempts")
                await scene.until(swept, "completed")
                assert await scene.codes(locked) == ["lease_over"]
                await scene.later(70)
                found = await scene.until(locked, "row_locked")
                assert "and passed it by: a session locks the row" in found.answer.sentence
                told = await scene.obey(found.answer)  # the runbook
                assert "end the oldest one that is idle in transaction" in told
            await scene.until(locked, "completed")
            await scene.until(last, "dead_letter")


@cause("all_draining")
async def test_all_workers_drain(scene: Scene, fleet: Fleet) -> None:
    @scene.hf.task
    async def quick() -> None: ...

    worker = fleet.start(lease=60, options=BEATS)
    (name,) = fleet.names(worker)
    gate = fleet.folder / "gate"
    held = scene.inbox.enqueue("hold", gate=str(gate))
    await scene.until(held, "runs")
    worker.send(signal.SIGTERM)
    await until(lambda: scene.inbox.workers()[name] == "draining")
    waits = scene.inbox.enqueue("quick")
    found = await scene.until(waits, "all_draining")
    assert f"all workers of queue default are draining ({name})" in found.answer.sentence
    await scene.until(held, "runs")
    async with scene.hf.worker(**QUICK):  # the remedy
        await scene.until(waits, "completed")
    gate.touch()
    await scene.until(held, "completed")


@cause("isolation")
async def test_a_job_that_killed_its_process_runs_alone(scene: Scene, fleet: Fleet) -> None:
    scene.inbox.prepare(backoff_unit=15)
    worker = fleet.start(lease=60, options=BEATS)
    id = scene.inbox.enqueue("poison", max_attempts=2)
    await scene.until(id, "retry")
    await until(lambda: fleet.names(worker) != [])  # a new process
    signal_all(worker, signal.SIGSTOP)
    await scene.later(16)
    found = await scene.until(id, "isolation")
    assert "it runs in isolation, in a process of its own, because its last attempt ended" in found.answer.sentence


@cause("unblocks")
async def test_a_worker_dies_between_the_end_of_a_job_and_its_look_at_the_key(scene: Scene, fleet: Fleet) -> None:
    @scene.hf.task
    async def hold(gate: str) -> None: ...

    gate = fleet.folder / "gate"
    worker = fleet.start(
        lease=60, housekeeping=60, options=BEATS, probes=f"complete.after=stop@{fleet.folder / 'stopped'}"
    )
    ids = [
        scene.inbox.one(
            "select holdfast.enqueue('hold', %s::jsonb, key => 'order:1', ordered => true)", f'{{"gate": "{gate}"}}'
        )
        for _ in range(2)
    ]
    await scene.until(ids[0], "runs")
    await scene.until(ids[1], "behind")
    await until(lambda: scene.inbox.status(ids[1]) == "blocked")
    gate.touch()
    found = await scene.until(ids[1], "unblocks")
    assert "it is the next of its key" in found.answer.sentence
    signal_all(worker, signal.SIGKILL)
    async with scene.hf.worker(**QUICK):
        await scene.until(ids[1], "completed")
