"""`drain`: the real claim, runner and endings, one job at a time."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

import pytest
from tests.support.workers import Inbox

from holdfast import (
    Backoff,
    CallNext,
    CallNextSync,
    ConfigurationError,
    Context,
    Fail,
    Holdfast,
    InvalidInput,
    InvalidPayload,
    JobFailed,
    LeaseLost,
    Retry,
    Snooze,
    Timeout,
    TxContext,
)
from holdfast.testing import Drained, DrainLimit, drain, draining


async def test_it_runs_what_is_due_and_what_that_enqueues(hf: Holdfast) -> None:
    @hf.task
    async def first(n: int) -> int:
        if n:
            await first.enqueue(n - 1)
        return n

    @hf.task
    def second(word: str) -> str:
        return word.upper()

    await first.enqueue(2)
    await second.options(queue="other", key="k").enqueue("a")
    drained = await drain(hf)
    assert len(drained) == 4
    assert drained.left == 0
    assert [job.result for job in drained.of(first)] == [2, 1, 0]
    ((ran),) = drained.of(second)
    assert (ran.ending, ran.result, ran.queue, ran.key, ran.attempt) == ("completed", "A", "other", "k", 1)
    assert {job.ending for job in drained} == {"completed"}
    assert await drain(hf) == Drained((), 0)


async def test_what_is_not_due_is_left(hf: Holdfast) -> None:
    @hf.task
    async def job() -> None: ...

    await job.options(delay="1h").enqueue()
    await job.options(queue="paused").enqueue()
    await hf.pause("paused")
    drained = await drain(hf)
    assert (len(drained), drained.left) == (0, 2)
    await hf.resume("paused")
    assert [ran.queue for ran in await drain(hf)] == ["paused"]


async def test_queues_and_limit(hf: Holdfast) -> None:
    @hf.task
    async def job() -> None: ...

    for queue in ("a", "a", "b", "c"):
        await job.options(queue=queue).enqueue()
    assert [ran.queue for ran in await drain(hf, queues=["b"])] == ["b"]
    drained = await drain(hf, limit=2)
    assert (len(drained), drained.left) == (2, 1)
    assert len(await drain(hf)) == 1
    with pytest.raises(InvalidInput, match=r"queues: expected names, such as \['b'\]"):
        await drain(hf, queues="b")
    with pytest.raises(InvalidInput, match="errors: expected 'raise' or 'retry', got 'ignore'"):
        await drain(hf, errors="ignore")  # type: ignore[arg-type]


class Broken(Exception): ...


async def test_an_error_is_raised_after_it_was_written(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(retry=Backoff(base="1h"))
    async def job(n: int) -> None:
        if n == 2:
            raise Broken("in two")

    jobs = [await job.enqueue(n) for n in (1, 2, 3)]
    with pytest.raises(Broken, match="in two") as caught:
        await drain(hf)
    assert any(entry.name == "job" for entry in caught.traceback), "it shows where"
    (note,) = caught.value.__notes__
    assert note.startswith(f"Raised by job {jobs[1].id}, attempt 1 of 5. The job waits for its next attempt.")
    assert [(await each.state()).status for each in jobs] == ["completed", "pending", "pending"]
    assert "Broken: in two" in ((await jobs[1].state()).last_error or "")
    assert len(await drain(hf)) == 1, "the rest"


async def test_errors_go_through_retries(hf: Holdfast) -> None:
    @hf.task(max_attempts=2, retry=Backoff(base=0, jitter=0))
    async def job() -> None:
        raise Broken

    @hf.task(retry=Backoff(give_up=(Broken,)))
    async def hopeless() -> None:
        raise Broken("for good")

    @hf.task(retry=Backoff(base="1h"))
    async def later() -> None:
        raise Broken

    for each in (job, hopeless, later):
        await each.enqueue()
    drained = await drain(hf, errors="retry")
    assert [(ran.attempt, ran.ending) for ran in drained.of(job)] == [(1, "retried"), (2, "dead_letter")]
    assert drained.of(hopeless)[0].error == "Broken: for good"
    assert [ran.ending for ran in drained.of(later)] == ["retried"]
    assert drained.left == 1


async def test_endings_are_no_errors(hf: Holdfast) -> None:
    @hf.task(max_snoozes=0)
    async def job(how: str) -> Any:
        match how:
            case "snooze":
                raise Snooze("1h")
            case "fail":
                return Fail("no")
            case "retry":
                raise Retry("1h", "busy")
            case "lost":
                raise LeaseLost("stale")

    @hf.task
    async def sleepy() -> Snooze:
        return Snooze("1h")

    for how in ("fail", "retry", "lost", "snooze"):
        await job.enqueue(how)
    await sleepy.enqueue()
    drained = await drain(hf)
    assert [(ran.ending, ran.error) for ran in drained] == [
        ("failed", "no"), ("retried", "Retry: busy"), ("lost", None),
        ("dead_letter", "SnoozeLimit: the handler has snoozed this job 0 times"), ("snoozed", None),
    ]  # fmt: skip


async def test_what_no_exception_caused_is_raised_too(hf: Holdfast) -> None:
    @hf.task
    async def job() -> Any:
        return object()

    await job.enqueue()
    with pytest.raises(JobFailed, match="is a dead letter after 1 attempt: UnstorableResult") as caught:
        await drain(hf)
    assert caught.value.error == "UnstorableResult"


async def test_a_wrong_payload_is_raised(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def job(n: int) -> None: ...

    inbox.rows("select holdfast.enqueue('job', '{\"n\": \"x\"}')")
    with pytest.raises(InvalidPayload, match="does not fit job"):
        await drain(hf)


async def test_a_job_that_enqueues_itself_forever(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "MOST", 20)

    @hf.task
    async def tick() -> None:
        await tick.enqueue()

    await tick.enqueue()
    with pytest.raises(DrainLimit) as caught:
        await drain(hf)
    assert str(caught.value) == (
        "drain() has run 20 attempts, and jobs are still due; expected that it comes to an end. Does a job enqueue "
        "itself again? Waiting: 1 × tick; the last ones that ran: tick, tick, tick. To run only some, or more, pass "
        "limit=…"
    )
    drained = await drain(hf, limit=30)
    assert (len(drained), drained.left) == (30, 1)
    assert drained.jobs[0].attempt == 1, "the one that was handed back has lost no attempt"


async def test_exactly_as_many_as_may_run(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "MOST", 3)

    @hf.task
    async def job() -> None: ...

    await job.enqueue_many([{}] * 3)
    assert len(await drain(hf)) == 3


async def test_ordered_keys(hf: Holdfast) -> None:
    ran: list[tuple[str, int]] = []

    @hf.task(ordered=True, queue="ordered", max_attempts=2, retry=Backoff(base=0, jitter=0))
    async def step(key: str, n: int) -> None:
        if (key, n) == ("a", 1) and ran.count(("a", 1)) == 0:
            ran.append((key, n))
            raise Broken
        ran.append((key, n))

    @hf.task
    async def free() -> None:
        ran.append(("free", 0))

    for n in range(3):
        for key in "ab":
            await step.options(key=key).enqueue(key, n)
    await free.enqueue()
    await hf.set_queue("by hand", ordered=True, owned=True)
    for _ in range(5):
        await free.options(queue="by hand", key="k").enqueue()
    drained = await drain(hf, errors="retry")
    assert drained.left == 0
    assert [n for key, n in ran if key == "a"] == [0, 1, 1, 2]
    assert [n for key, n in ran if key == "b"] == [0, 1, 2]
    assert ran.count(("free", 0)) == 6


async def test_in_a_transaction(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def book(ctx: TxContext, n: int) -> int:
        await ctx.tx.execute("create table if not exists booked (n int)")
        await ctx.tx.execute("insert into booked values ($1)", n)
        await follow.on(ctx.tx).enqueue()
        if n == 2:
            raise Broken
        return n

    @hf.task
    async def follow() -> None: ...

    await book.enqueue(1)
    drained = await drain(hf)
    assert [(ran.kind, ran.ending, ran.result) for ran in drained] == [
        ("book", "completed", 1), ("follow", "completed", None),
    ]  # fmt: skip
    await book.enqueue(2)
    with pytest.raises(Broken):
        await drain(hf)
    assert inbox.rows("select n from booked") == [{"n": 1}]


async def test_the_context(hf: Holdfast) -> None:
    seen: list[Any] = []

    @hf.task
    async def job(ctx: Context) -> None:
        async with ctx.once("effect") as first:
            seen.append((ctx.job_id, ctx.key, ctx.attempt, dict(ctx.headers), first))
        ctx.progress(0.5, "half")

    @hf.task
    def plain(ctx: Context) -> None:
        with ctx.once("effect") as first:
            seen.append((ctx.kind, first))

    made = await job.options(key="k", headers={"trace": "1"}).enqueue()
    await plain.enqueue()
    await drain(hf)
    assert seen == [(made.id, "k", 1, {"trace": "1"}, True), ("plain", False)]


async def test_threads_and_processes_run_here(hf: Holdfast) -> None:
    where: dict[str, threading.Thread] = {}

    @hf.task
    async def on_loop() -> None:
        where["loop"] = threading.current_thread()

    @hf.task
    def in_thread() -> None:
        where["thread"] = threading.current_thread()

    @hf.task(process=True)
    def in_process() -> str:
        where["process"] = threading.current_thread()
        return "done"

    for each in (on_loop, in_thread, in_process):
        await each.enqueue()
    drained = await drain(hf)
    assert [ran.result for ran in drained.of(in_process)] == ["done"]
    assert where["loop"] is threading.current_thread()
    assert threading.current_thread() not in (where["thread"], where["process"])


async def test_lifespan_state_and_middleware(inbox: Inbox) -> None:
    said: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Holdfast) -> AsyncIterator[str]:
        said.append("enter")
        yield "state"
        said.append("leave")

    @contextmanager
    def lifespan_sync(app: Holdfast) -> Iterator[str]:
        said.append("enter process")
        yield "state of the process"
        said.append("leave process")

    hf = Holdfast(inbox.url, lifespan=lifespan, lifespan_sync=lifespan_sync)

    @hf.middleware
    async def around(ctx: Context, call_next: CallNext) -> None:
        said.append(f"around {ctx.kind}")
        await call_next()

    @hf.middleware
    def around_sync(ctx: Context, call_next: CallNextSync) -> None:
        said.append(f"around {ctx.kind}")
        call_next()

    @hf.task
    async def one(ctx: Context) -> None:
        said.append(ctx.state)

    @hf.task(process=True)
    def two(ctx: Context) -> None:
        said.append(ctx.state)

    assert len(await drain(hf)) == 0
    assert said == [], "with nothing to do, nothing is opened"
    await one.enqueue()
    await drain(hf)
    assert said == ["enter", "around one", "state", "leave"]
    said.clear()
    await two.enqueue()
    await drain(hf)
    assert said == [
        "enter", "enter process", "around two", "state of the process", "leave process", "leave",
    ]  # fmt: skip
    await hf.close()


async def test_a_lifespan_that_fails(inbox: Inbox) -> None:
    fails_late = False

    @asynccontextmanager
    async def lifespan(app: Holdfast) -> AsyncIterator[None]:
        if not fails_late:
            raise Broken("on the way in")
        yield
        raise Broken("on the way out")

    hf = Holdfast(inbox.url, lifespan=lifespan)

    @hf.task
    async def job() -> None: ...

    await job.enqueue()
    with pytest.raises(Broken, match="on the way in"):
        await drain(hf)
    fails_late = True
    with pytest.raises(Broken, match="on the way out"):
        await drain(hf)
    await hf.close()


async def test_versions_and_kinds_that_it_does_not_know(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(version=2)
    async def job(n: int, m: int) -> int:
        return n + m

    @job.upcast(from_version=1)
    def add(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "m": 10}

    inbox.rows("select holdfast.enqueue('job', '{\"n\": 1}', version => 1)")
    inbox.rows("select holdfast.enqueue('job', '{\"n\": 1}', version => 3)")
    inbox.rows("select holdfast.enqueue('unknown', '{}')")
    drained = await drain(hf)
    assert ([ran.result for ran in drained], drained.left) == ([11], 2)


async def test_a_timeout(hf: Holdfast) -> None:
    @hf.task(timeout="50ms")
    async def slow() -> None:
        await asyncio.sleep(60)

    @hf.task(timeout="50ms")
    async def slow_tx(ctx: TxContext) -> None:
        await asyncio.sleep(60)

    @hf.task(timeout="50ms")
    def slow_thread(ctx: Context) -> None:
        assert ctx.wait_stopping(30)
        ctx.check()

    for each in (slow, slow_tx, slow_thread):
        await each.enqueue()
        with pytest.raises(Timeout, match=r"longer than the 0\.05 s"):
            await drain(hf)


async def test_a_job_that_is_not_kept_leaves_no_row(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(keep=None)
    async def tick() -> None: ...

    await tick.enqueue()
    await tick.options(idempotency_key="a").enqueue()
    assert [each.ending for each in await drain(hf)] == ["completed", "completed"]
    assert inbox.one("select (select count(*) from holdfast.inbox) + (select count(*) from holdfast.archive)") == 0


async def test_cancelled_jobs_do_not_run(hf: Holdfast) -> None:
    ran: list[UUID] = []

    @hf.task
    async def job(ctx: Context) -> None:
        ran.append(ctx.job_id)
        await hf.cancel(ctx.job_id)
        raise Broken

    made = await job.enqueue()
    drained = await drain(hf, errors="retry")
    assert [each.ending for each in drained] == ["cancelled"]
    assert ran == [made.id]


async def test_what_was_cancelled_and_snoozed_meanwhile_does_not_run_again(hf: Holdfast) -> None:
    runs = 0

    @hf.task
    async def job(ctx: Context) -> Snooze:
        nonlocal runs
        runs += 1
        await hf.cancel(ctx.job_id)
        return Snooze(0)

    await job.enqueue()
    drained = await drain(hf)
    assert [each.ending for each in drained] == ["snoozed", "cancelled"]
    assert runs == 1


async def test_if_the_test_stops_it_the_job_is_handed_back(hf: Holdfast) -> None:
    begun = asyncio.Event()

    @hf.task
    async def job() -> None:
        begun.set()
        await asyncio.sleep(60)

    made = await job.enqueue()
    work = asyncio.create_task(drain(hf))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    state = await made.state()
    assert (state.status, state.attempts) == ("pending", 0)


async def test_each_attempt_has_its_own_variables(hf: Holdfast) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="unset")
    seen: list[str] = []

    @hf.task
    async def job() -> None:
        seen.append(variable.get())
        variable.set("leaked")

    await job.enqueue_many([{}, {}])
    await drain(hf)
    assert seen == ["unset", "unset"]
    assert variable.get() == "unset"


async def test_a_job_is_kept_as_its_task_says(hf: Holdfast, migrated_url: str) -> None:
    @hf.task(keep=None)
    async def gone() -> str:
        return "not kept"

    @hf.task(keep=None, process=True)
    def gone_too() -> None: ...

    @hf.task(keep="7d")
    async def week() -> None: ...

    @hf.task
    async def kept() -> None: ...

    for task in (gone, gone_too, week, kept):
        await task.enqueue()
    assert [ran.ending for ran in await drain(hf)] == ["completed"] * 4
    rows = Inbox(migrated_url).rows("select kind, keep_days from holdfast.archive order by kind")
    assert [tuple(row.values()) for row in rows] == [("kept", None), ("week", 7)]


async def test_without_tasks(migrated_url: str) -> None:
    with pytest.raises(ConfigurationError, match="this application has no tasks; import the modules"):
        await drain(Holdfast(migrated_url))


async def test_with_nothing_to_do_it_is_fast(hf: Holdfast) -> None:
    """Measured: 0.5 ms. An embedded worker takes 70 to start and stop. A busy machine is that fast only at times."""

    @hf.task
    async def job() -> None: ...

    await drain(hf)
    took = [1.0]
    for _ in range(1000):
        began = time.perf_counter()
        await drain(hf)
        took.append(time.perf_counter() - began)
        if len(took) > 20 and min(took) < 0.005:
            return
    raise AssertionError(f"the fastest of {len(took)} took {min(took)} s")
