"""Waiting for a job to end: one poller for all waits, and the handler's error for whoever waits."""

import asyncio
import itertools
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.inbox import Session
from tests.support.waiting import wait_until
from tests.support.workers import Inbox

from holdfast import Fail, Holdfast, InvalidInput, JobFailed, NotFound, Unreachable
from holdfast.results import LONGEST, Results, result_of


@pytest.fixture
def app(hf: Holdfast) -> Holdfast:
    @hf.task
    async def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @hf.task
    def nothing() -> None: ...

    @hf.task(max_attempts=2)
    async def broken() -> None:
        raise ValueError("no such order")

    @hf.task
    async def refused() -> None:
        raise Fail("out of stock")

    return hf


async def test_the_result_of_a_job(app: Holdfast) -> None:
    async with app.worker(poll=0.02):
        job = await app.tasks["add"].enqueue(1, 2)
        assert await job.result(timeout="30s") == {"sum": 3}
        assert await app.result(job.id, timeout=30) == {"sum": 3}, "again, from the archive"
        assert await (await app.tasks["nothing"].enqueue()).result(timeout=30) is None
        assert await asyncio.to_thread(job.result_sync, timeout=30) == {"sum": 3}
        assert await asyncio.to_thread(app.result_sync, job.id) == {"sum": 3}


async def test_a_job_that_did_not_complete_raises(app: Holdfast, inbox: Inbox) -> None:
    async with app.worker(poll=0.02):
        broken, refused = await app.tasks["broken"].enqueue(), await app.tasks["refused"].enqueue()
        with pytest.raises(JobFailed) as dead:
            await broken.result(timeout=30)
        with pytest.raises(JobFailed) as failed:
            await refused.result(timeout=30)
    error = dead.value
    assert (error.id, error.status, error.error, error.message, error.attempts) == (
        broken.id, "dead_letter", "ValueError", "no such order", 2,
    )  # fmt: skip
    assert str(error) == f"job {broken.id} is a dead letter after 2 attempts: ValueError: no such order"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert (failed.value.status, failed.value.error, failed.value.message) == ("failed", None, "out of stock")
    assert str(failed.value) == f"job {refused.id} ended as failed after 1 attempt: out of stock"

    waiting = await app.tasks["nothing"].enqueue()
    await app.cancel(waiting.id, "not needed")
    with pytest.raises(JobFailed, match="ended as cancelled after 0 attempts: not needed"):
        await waiting.result()
    await app.discard([broken.id])
    with pytest.raises(JobFailed, match="ended as discarded after 2 attempts: ValueError: no such order"):
        await broken.result()


async def test_a_wait_has_a_limit_and_goes_without_a_trace(app: Holdfast) -> None:
    job = await app.tasks["nothing"].enqueue()
    with pytest.raises(TimeoutError, match=f"job {job.id} has not ended within 0.1 s"):
        await job.result(timeout="100ms")
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(job.result_sync, timeout=0.1)
    with pytest.raises(InvalidInput, match="timeout: expected a duration"):
        await job.result(timeout="soon")
    waiting = asyncio.create_task(job.result())
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (results,) = [app._calls._results[asyncio.get_running_loop()]]
    assert results._waits == {}
    while results._polling is not None:  # nothing polls when nothing waits
        await asyncio.sleep(LONGEST)


async def test_a_job_that_is_not_there(app: Holdfast, one: Session) -> None:
    with pytest.raises(NotFound, match="has not committed"):
        await app.result(uuid4())
    nothing = app.tasks["nothing"]
    async with one.connection.transaction():
        job = await nothing.on(one.connection).enqueue()
        with pytest.raises(NotFound, match="has not committed"):
            await job.result()
    with pytest.raises(TimeoutError):
        await job.result(timeout=0.05)


async def test_close_ends_waits(app: Holdfast) -> None:
    job = await app.tasks["nothing"].enqueue()
    waiting = asyncio.create_task(job.result())
    await asyncio.sleep(0.05)
    await app.close()
    with pytest.raises(Unreachable, match="close"):
        await waiting


def test_ctrl_c_ends_a_synchronous_wait(app: Holdfast) -> None:
    job = app.tasks["nothing"].enqueue_sync()

    def interrupt() -> None:
        wait_until(lambda: any(results._waits for results in list(app._calls._results.values())))
        time.sleep(0.1)  # it waits for the event loop by now
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Thread(target=interrupt).start()
            job.result_sync(timeout=60)
    finally:
        signal.signal(signal.SIGINT, before)
    began = time.monotonic()
    app.close_sync()
    assert time.monotonic() - began < 4, "no call was left running"


# The poller, without a database


class Desk:
    """Answers questions about jobs that are live until they are told to end."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, str, list[UUID]]] = []
        self.ended: dict[UUID, str] = {}
        self.error: Exception | None = None

    async def __call__(self, name: str, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        self.asked.append((asyncio.get_running_loop().time(), name, list(ids)))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        if name == "left":
            return [{"id": id} for id in ids if id in self.ended]
        return [
            {"id": id, "status": self.ended[id], "result": "1", "failure": None, "last_error": "", "attempts": 1}
            for id in ids
        ]

    def polls(self) -> list[float]:
        return [at for at, name, _ in self.asked if name == "left"]


async def test_one_statement_asks_for_all_of_them() -> None:
    desk = Desk()
    results = Results(desk)
    ids = [uuid4() for _ in range(100)]
    waits = [asyncio.create_task(results.wait(id, 30)) for id in [*ids, ids[0]]]
    await asyncio.sleep(0.05)
    assert set(desk.asked[0][2]) == set(ids)
    polls = len(desk.polls())
    assert polls <= 6
    desk.ended = dict.fromkeys(ids, "completed")
    assert await asyncio.gather(*waits) == [1] * 101
    assert [name for _, name, _ in desk.asked].count("outcomes") == 1


async def test_the_interval_grows_and_a_new_wait_starts_it_over() -> None:
    """A busy machine is late at times, but not always."""
    for _ in range(20):
        desk = Desk()
        results = Results(desk)
        first = asyncio.create_task(results.wait(uuid4(), None))
        await asyncio.sleep(1.2)
        times = desk.polls()
        gaps = [after - before for before, after in itertools.pairwise(times)]
        assert len(times) < 14
        desk.asked.clear()
        began = asyncio.get_running_loop().time()
        second = asyncio.create_task(results.wait(uuid4(), None))
        await asyncio.sleep(0.1)
        again = desk.polls()
        for wait in (first, second):
            wait.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        in_time = gaps and gaps[0] < 0.1 and 0.2 < gaps[-1] < 0.6
        if in_time and len(again) >= 2 and again[0] - began < 0.09:
            return
    raise AssertionError(f"{gaps}; again after {again[0] - began if again else None} s")


@pytest.mark.parametrize(
    ("error", "polls"), [(Unreachable("away"), 8), (RuntimeError("bug"), 1)], ids=lambda value: str(value)
)
async def test_a_poll_that_fails_is_tried_again_while_that_may_help(
    error: Exception, polls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick: Callable[[int], float] = lambda failures: 0.001  # noqa: E731
    monkeypatch.setattr("holdfast.results.backoff", quick)
    desk = Desk()
    desk.error = error
    with pytest.raises(type(error)):
        await Results(desk).wait(uuid4(), 30)
    assert len(desk.polls()) == polls


async def test_an_outage_is_over_when_a_poll_succeeds() -> None:
    desk = Desk()
    results = Results(desk)
    id = uuid4()
    desk.error = Unreachable("away")
    waiting = asyncio.create_task(results.wait(id, 30))
    await asyncio.sleep(0.1)
    desk.error, desk.ended = None, {id: "completed"}
    assert await waiting == 1


def test_a_result_by_hand() -> None:
    """Rows that hand-written SQL made may hold anything."""
    row = {
        "id": uuid4(),
        "status": "dead_letter",
        "result": None,
        "failure": '"text"',
        "last_error": None,
        "attempts": 0,
    }
    with pytest.raises(JobFailed) as error:
        result_of(row)
    assert (error.value.error, error.value.message) == (None, "")
