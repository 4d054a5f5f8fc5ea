"""Jobs of different tasks and options in one call."""

from typing import Any

import pytest
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import CALLERS, settle
from tests.support.waiting import until

from holdfast import Holdfast, IdempotencyConflict, InvalidInput, InvalidPayload, NotFound, Task

Tasks = tuple[Task[..., None], Task[..., None]]


@pytest.fixture
def tasks(hf: Holdfast) -> Tasks:
    @hf.task(queue="mail", max_attempts=7)
    def receipt(order_id: int) -> None: ...

    @hf.task(priority=0)
    def invoice(order_id: int) -> None: ...

    return receipt, invoice


async def test_each_has_its_own_task_key_and_options(hf: Holdfast, inbox: Inbox, tasks: Tasks) -> None:
    receipt, invoice = tasks
    jobs = await hf.enqueue_many(
        [receipt.job(1), invoice.options(key="a").job(2), receipt.options(delay="1h").job(3), receipt.job(4)]
    )
    rows = await inbox.jobs("id, kind, queue, priority, max_attempts, partition_key, available_at > now() as later")
    assert [row["id"] for row in rows] == [job.id for job in jobs], "in the order given"
    assert [tuple(row)[1:5] for row in rows] == [
        ("receipt", "mail", 1, 7), ("invoice", "default", 0, 5), ("receipt", "mail", 1, 7), ("receipt", "mail", 1, 7),
    ]  # fmt: skip
    assert [row["partition_key"] == str(row["id"]) for row in rows] == [True, False, True, True]
    assert [row["later"] for row in rows] == [False, False, True, False]


@pytest.mark.parametrize("door", CALLERS)
async def test_on_a_callers_connection_they_commit_with_it(
    hf: Holdfast, inbox: Inbox, tasks: Tasks, migrated_url: str, door: str
) -> None:
    receipt, invoice = tasks
    many = [receipt.job(1), invoice.options(idempotency_key="i").job(2)]
    with pytest.raises(ZeroDivisionError):
        async with CALLERS[door](migrated_url) as seat:
            await settle(hf.on(seat.connection).enqueue_many(many))
            raise ZeroDivisionError
    assert await inbox.count() == 0
    async with CALLERS[door](migrated_url) as seat:
        made = await settle(hf.on(seat.connection).enqueue_many(many))
    assert [row["id"] for row in await inbox.jobs()] == [job.id for job in made] == [job.id for job in many]


async def test_with_idempotency_keys_it_is_all_or_none(hf: Holdfast, inbox: Inbox, tasks: Tasks) -> None:
    receipt, invoice = tasks
    first = await receipt.options(idempotency_key="a").enqueue(1)
    again = await hf.enqueue_many([invoice.job(2), receipt.options(idempotency_key="a").job(1)])
    assert [job.existed for job in again] == [False, True]
    assert again[1].id == first.id
    assert await inbox.count() == 2
    with pytest.raises(IdempotencyConflict, match=r"'a' belongs to job .*kind receipt"):
        await hf.enqueue_many([invoice.job(3), invoice.options(idempotency_key="a").job(1)])
    assert await inbox.count() == 2


async def test_many_of_one_task_go_by_copy(hf: Holdfast, inbox: Inbox, tasks: Tasks) -> None:
    receipt, invoice = tasks
    await hf.enqueue_many(receipt.job(n) for n in range(600))
    await hf.enqueue_many([(receipt, invoice)[n % 2].job(n) for n in range(600)])
    assert await inbox.count() == 1200
    with pytest.raises(InvalidInput, match="copy: COPY cannot store jobs of different tasks or options"):
        await hf.enqueue_many([receipt.job(1), invoice.job(1)], copy=True)


async def test_sync(hf: Holdfast, inbox: Inbox, tasks: Tasks) -> None:
    jobs = hf.enqueue_many_sync([tasks[0].job(1), tasks[1].job(2)])
    assert [job.status_sync() for job in jobs] == ["pending", "pending"]
    assert hf.cancel_sync(jobs[0].id) == "cancelled"
    assert hf.job_sync(jobs[0].id).status == jobs[0].state_sync().status
    assert hf.revive_sync([jobs[0].id]) == []
    hf.pause_sync("mail")
    hf.resume_sync("mail")
    hf.set_queue_sync("mail", ordered=False)
    with pytest.raises(NotFound, match="There is no worker nobody"):
        hf.drain_workers_sync(["nobody"])
    assert hf.migrate_sync() == []
    assert await hf.enqueue_many([]) == []


async def test_mistakes_are_named_before_anything_is_sent(hf: Holdfast, inbox: Inbox, tasks: Tasks) -> None:
    wrong: Any = {"order_id": 1}
    with pytest.raises(InvalidInput, match=r"\[1\]: expected task.job\(…\), got a dict"):
        await hf.enqueue_many([tasks[0].job(1), wrong])
    with pytest.raises(InvalidPayload, match="order_id"):
        tasks[0].job("one")
    assert await inbox.count() == 0


async def test_a_job_tells_its_status(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def add(a: int, b: int) -> int:
        return a + b

    job = await add.enqueue(1, 2)
    assert await job.status() == "pending"
    async with hf.worker(poll=0.05):
        await until(lambda: job.status_sync() == "completed")
    assert (await job.state()).result == 3
    assert repr(job) == f"<Job {job.id}>"
