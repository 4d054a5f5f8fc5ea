"""What a job is told about order when it is enqueued: by its task, by its queue, by SQL."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.enqueue.conftest import Inbox

from holdfast import Holdfast, InvalidInput, Task
from holdfast.inbox import copying

FLAGS = "ordered, skips, owned"


@pytest.fixture
async def queue(hf: Holdfast, inbox: Inbox) -> AsyncIterator[str]:
    yield "shop"
    await inbox.connection.execute("delete from holdfast.queues")


def declare(hf: Holdfast, **options: Any) -> Task[..., None]:
    @hf.task(name="pay", queue="shop", **options)
    def pay(cents: int) -> None: ...

    return pay


async def enqueue(task: Task[..., None], door: str) -> None:
    keyed = task.options(key="order:1")
    match door:
        case "one":
            await keyed.enqueue(cents=1)
        case "many":
            await keyed.enqueue_many([{"cents": 1}], copy=False)
        case "lines":
            await keyed.enqueue_many([{"cents": 1}], copy=True)
        case "bytes":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(copying, "BINARY_FROM", 0)
                await keyed.enqueue_many([{"cents": 1}], copy=True)
        case "once":
            await keyed.options(idempotency_key="k").enqueue(cents=1)


DOORS = ["one", "many", "lines", "bytes", "once"]


@pytest.mark.parametrize("door", DOORS)
async def test_the_task_says_it(hf: Holdfast, inbox: Inbox, queue: str, door: str) -> None:
    await enqueue(declare(hf, ordered=True, on_failure="skip"), door)
    assert [tuple(row) for row in await inbox.jobs(FLAGS)] == [(True, True, False)]


@pytest.mark.parametrize("door", DOORS)
async def test_the_queue_says_it(hf: Holdfast, inbox: Inbox, queue: str, door: str) -> None:
    await hf.set_queue(queue, ordered=True, owned=True)
    await enqueue(declare(hf), door)
    assert [tuple(row) for row in await inbox.jobs(FLAGS)] == [(True, False, True)]


@pytest.mark.parametrize("door", DOORS)
async def test_the_task_has_the_last_word(hf: Holdfast, inbox: Inbox, queue: str, door: str) -> None:
    await hf.set_queue(queue, ordered=True, on_failure="skip")
    await enqueue(declare(hf, ordered=False, on_failure="block"), door)
    assert [tuple(row) for row in await inbox.jobs(FLAGS)] == [(False, False, False)]


async def test_sql_says_it(hf: Holdfast, inbox: Inbox, queue: str) -> None:
    ask = "select holdfast.enqueue('pay', queue => $1, key => 'k', ordered => $2, on_failure => $3)"
    await inbox.connection.fetch(ask, queue, True, None)
    await hf.set_queue(queue, ordered=True, on_failure="skip")
    await inbox.connection.fetch(ask, queue, None, None)
    await inbox.connection.fetch(ask, queue, False, "block")
    assert [tuple(row)[:2] for row in await inbox.jobs(FLAGS)] == [(True, False), (True, True), (False, False)]


async def test_a_queue_keeps_what_is_not_mentioned(hf: Holdfast, inbox: Inbox, queue: str) -> None:
    await hf.set_queue(queue, ordered=True, owned=True)
    await hf.pause(queue)
    await hf.set_queue(queue, owned=False, on_failure="skip")
    (row,) = await inbox.connection.fetch("select ordered, skips, owned, paused_at from holdfast.queues")
    assert tuple(row)[:3] == (True, True, False)
    assert row["paused_at"] is not None


async def test_an_ordered_job_is_not_put_off(hf: Holdfast, inbox: Inbox, queue: str) -> None:
    """It would hold up its key until then."""
    pay = declare(hf, ordered=True)
    with pytest.raises(InvalidInput, match="delay: pay is ordered") as refused:
        await pay.options(key="k", delay="5m").enqueue(cents=1)
    assert refused.value.field == "delay"
    with pytest.raises(InvalidInput, match="at: pay is ordered"):
        await pay.options(key="k", at=datetime(2099, 1, 1, tzinfo=UTC)).enqueue(cents=1)
    assert await inbox.count() == 0


@pytest.mark.parametrize("door", DOORS)
async def test_nor_is_one_of_an_ordered_queue(hf: Holdfast, inbox: Inbox, queue: str, door: str) -> None:
    await hf.set_queue(queue, ordered=True)
    later = declare(hf).options(delay="5m")
    with pytest.raises(InvalidInput, match="an ordered job of queue shop that is due later"):
        await enqueue(later, door)
    assert await inbox.count() == 0
    await hf.set_queue(queue, on_failure="skip")
    await enqueue(later, door)
    assert [tuple(row) for row in await inbox.jobs(FLAGS)] == [(True, True, False)]


@pytest.mark.parametrize("bad", [{"ordered": "yes"}, {"on_failure": "retry"}])
def test_what_is_not_an_answer_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=rf"{next(iter(bad))}: expected"):
        declare(Holdfast("postgresql://nowhere/none"), **bad)
