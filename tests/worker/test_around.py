"""What surrounds attempts and workers: middleware and the lifespan."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from tests.apps import around
from tests.support.waiting import until
from tests.support.workers import Fleet, Inbox

from holdfast import (
    CallNext,
    CallNextSync,
    ConfigurationError,
    Context,
    Fail,
    Holdfast,
    LeaseLost,
    Snooze,
    TxContext,
)
from holdfast.context import Desk
from holdfast.loading import served
from holdfast.model.occurrences import Occurrences
from holdfast.worker.handler_processes import pool as processes
from holdfast.worker.handler_processes.pool import HandlerProcesses
from holdfast.worker.log_lines import LogLines

FAST: dict[str, Any] = {"concurrency": 4, "lease": 5, "housekeeping": 0.2, "poll": 0.05}


async def ended(inbox: Inbox, *jobs: Any, status: str = "completed") -> None:
    await until(lambda: inbox.count([job.id for job in jobs], status) == len(jobs))


class Wraps:
    """One middleware of each kind, with the same bodies."""

    def __init__(self, hf: Holdfast, before: Callable[[], None], after: Callable[[], None], calls: int = 1) -> None:
        @hf.middleware
        async def wrap(ctx: Context, call_next: CallNext) -> None:
            before()
            for _ in range(calls):
                await call_next()
            after()

        @hf.middleware
        def wrap_sync(ctx: Context, call_next: CallNextSync) -> None:
            before()
            for _ in range(calls):
                call_next()
            after()


def nothing() -> None: ...


def raises(error: BaseException) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


WAYS = ("on_loop", "in_thread", "in_transaction")


def tasks(hf: Holdfast, act: Callable[[], Any]) -> None:
    """One of each kind; the one in a transaction writes."""

    @hf.task(max_attempts=1)
    async def on_loop() -> Any:
        return act()

    @hf.task(max_attempts=1)
    def in_thread() -> Any:
        return act()

    @hf.task(max_attempts=1)
    async def in_transaction(ctx: TxContext) -> Any:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.attempt)
        return act()


async def run_all(hf: Holdfast, inbox: Inbox, status: str) -> list[dict[str, Any]]:
    async with hf.worker(**FAST):
        jobs = [await hf.tasks[way].enqueue() for way in WAYS]
        await ended(inbox, *jobs, status=status)
    committed = status == "completed"
    assert inbox.effects(jobs[-1].id) == committed, "it runs inside the transaction"
    return [inbox.job(job.id) for job in jobs]


async def test_the_first_one_is_the_outermost_and_the_result_stays_the_handlers(hf: Holdfast, inbox: Inbox) -> None:
    order: list[str] = []

    def named(name: str) -> None:
        @hf.middleware
        async def wrap(ctx: Context, call_next: CallNext) -> str:
            order.append(f"{ctx.kind} {name} {ctx.attempt} {isinstance(ctx, TxContext)}")
            order.append(f"{name} {await call_next()}")
            return "another result"

        @hf.middleware
        def wrap_sync(ctx: Context, call_next: CallNextSync) -> None:
            order.append(f"{ctx.kind} {name} {ctx.attempt} {isinstance(ctx, TxContext)}")
            order.append(f"{name} {call_next()}")

    named("outer")
    named("inner")
    tasks(hf, lambda: 42)
    for row in await run_all(hf, inbox, "completed"):
        assert row["result"] == 42
        kind, is_tx = row["kind"], row["kind"] == "in_transaction"
        at = order.index(f"{kind} outer 1 {is_tx}")
        assert f"{kind} inner 1 {is_tx}" in order[at:]
    assert order.count("inner 42") == order.count("outer 42") == 3


class Y(Exception):
    pass


class X(Exception):
    pass


WORSE: dict[str, tuple[Callable[[], Any], Any, str, str]] = {
    "an error after success": (lambda: 42, (nothing, raises(Y("after"))), "dead_letter", "Y: after"),
    "an error before": (lambda: 42, (raises(Y("before")), nothing), "dead_letter", "Y: before"),
    "fail before": (lambda: 42, (raises(Fail("closed")), nothing), "failed", "closed"),
    "an error of the handler": (lambda: raises(X("x"))(), (nothing, nothing), "dead_letter", "X: x"),
}


@pytest.mark.parametrize(("act", "around", "status", "error"), WORSE.values(), ids=WORSE.keys())
async def test_what_a_middleware_raises_is_the_ending(
    hf: Holdfast, inbox: Inbox, act: Any, around: Any, status: str, error: str
) -> None:
    Wraps(hf, *around)
    tasks(hf, act)
    for row in await run_all(hf, inbox, status):
        assert row["last_error"] == error


async def test_a_middleware_may_put_an_attempt_off_before_it_begins(hf: Holdfast, inbox: Inbox) -> None:
    ran: list[int] = []

    @hf.middleware(only="async")
    async def limited(ctx: Context, call_next: CallNext) -> None:
        if ctx.generation == 1:
            raise Snooze("10ms")
        await call_next()

    @hf.task
    async def task() -> None:
        ran.append(1)

    async with hf.worker(**FAST):
        job = await task.enqueue()
        await ended(inbox, job)
    assert inbox.job(job.id)["attempts"] == len(ran) == 1


def swallowing(hf: Holdfast, then: BaseException | None = None) -> None:
    @hf.middleware
    async def swallow(ctx: Context, call_next: CallNext) -> None:
        try:
            await call_next()
        except BaseException:
            if then is not None:
                raise then from None

    @hf.middleware
    def swallow_sync(ctx: Context, call_next: CallNextSync) -> None:
        try:
            call_next()
        except BaseException:
            if then is not None:
                raise then from None


async def test_a_swallowed_error_stays_an_error_also_for_those_outside(hf: Holdfast, inbox: Inbox) -> None:
    seen: list[str] = []

    @hf.middleware
    async def outside(ctx: Context, call_next: CallNext) -> None:
        try:
            await call_next()
        except X as error:
            seen.append(str(error))
            raise

    swallowing(hf)
    tasks(hf, raises(X("x")))
    for row in await run_all(hf, inbox, "dead_letter"):
        assert row["last_error"] == "X: x"
    assert seen == ["x", "x"]


@pytest.mark.parametrize(
    ("first", "then", "status", "error"),
    [
        (X("x"), Snooze("1ms"), "dead_letter", "X: x"),
        (X("x"), Y("y"), "dead_letter", "Y: y"),
        (X("x"), Fail("never"), "failed", "never"),
        (Snooze("1h"), Y("y"), "dead_letter", "Y: y"),
    ],
    ids=["snooze", "another", "fail", "after a snooze"],
)
async def test_an_ending_only_gets_worse(
    hf: Holdfast, inbox: Inbox, first: BaseException, then: BaseException, status: str, error: str
) -> None:
    swallowing(hf, then)
    tasks(hf, raises(first))
    for row in await run_all(hf, inbox, status):
        assert row["last_error"] == error


async def test_a_lost_lease_stays_lost(hf: Holdfast, inbox: Inbox) -> None:
    swallowing(hf, Y("y"))
    tasks(hf, raises(LeaseLost("gone")))
    async with hf.worker(**{**FAST, "lease": 60}) as worker:
        for way in WAYS:
            await hf.tasks[way].enqueue()
        await until(lambda: worker.engine.tally.counters.lease_lost == 3)
        assert worker.engine.tally.counters.failed == 0


@pytest.mark.parametrize(
    ("calls", "error"),
    [
        (0, "RuntimeError: wrap"),
        (2, "RuntimeError: call_next was called twice"),
    ],
)
async def test_the_handler_runs_once_or_the_attempt_fails(hf: Holdfast, inbox: Inbox, calls: int, error: str) -> None:
    ran: list[int] = []
    Wraps(hf, nothing, nothing, calls)
    tasks(hf, lambda: ran.append(1))
    for row in await run_all(hf, inbox, "dead_letter"):
        assert row["last_error"].startswith(error)
    assert len(ran) == (0 if calls == 0 else 3)


async def test_it_is_inside_the_timeout(hf: Holdfast, inbox: Inbox) -> None:
    swallowing(hf)

    @hf.middleware
    async def slow(ctx: Context, call_next: CallNext) -> None:
        await call_next()
        await asyncio.sleep(60)

    @hf.task(max_attempts=1, timeout="50ms")
    async def quick() -> None: ...

    async with hf.worker(**FAST):
        job = await quick.enqueue()
        await ended(inbox, job, status="dead_letter")
    assert inbox.job(job.id)["last_error"].startswith("Timeout")


def test_a_task_without_middleware_is_refused_unless_it_is_meant() -> None:
    hf = Holdfast("postgresql://nobody@nowhere/none")

    @hf.task
    def in_thread() -> None: ...

    @hf.middleware(only="async")
    async def fine(ctx: Context, call_next: CallNext) -> None: ...

    served(hf)

    @hf.middleware
    async def timed(ctx: Context, call_next: CallNext) -> None: ...

    with pytest.raises(ConfigurationError, match=r"in_thread is a sync handler.*timed is an async.*only='async'"):
        served(hf)

    @hf.middleware(only="sync")
    def timed_sync(ctx: Context, call_next: CallNextSync) -> None: ...

    served(hf)


def test_what_is_no_middleware_and_no_lifespan_is_refused() -> None:
    hf = Holdfast("postgresql://nobody@nowhere/none")
    refused: Any = hf.middleware

    async def generates(ctx: Context, call_next: CallNext) -> AsyncIterator[None]:
        yield

    with pytest.raises(ConfigurationError, match="generates: a middleware calls call_next, and does not yield"):
        refused(generates)
    with pytest.raises(ConfigurationError, match=r"expected a function of \(ctx, call_next\)"):
        refused(lambda ctx: None)
    with pytest.raises(ConfigurationError, match="only='async', but it is a sync function"):
        refused(only="async")(lambda ctx, call_next: None)

    async def begins(app: Holdfast) -> AsyncIterator[None]:
        yield

    async def returns(app: Holdfast) -> None: ...

    make: Any = Holdfast
    for lifespan in (begins, returns):
        with pytest.raises(ConfigurationError, match=r"lifespan: it .*@asynccontextmanager"):
            make(lifespan=lifespan)
    with pytest.raises(ConfigurationError, match="lifespan_sync: expected a function"):
        make(lifespan_sync=7)


# The lifespan


async def test_the_lifespan_surrounds_a_worker_in_one_task(inbox: Inbox) -> None:
    said: list[Any] = []

    @asynccontextmanager
    async def lifespan(app: Holdfast) -> AsyncIterator[str]:
        assert app is hf
        said.append(asyncio.current_task())
        async with asyncio.TaskGroup() as group:
            helper = group.create_task(asyncio.sleep(60))
            said.append("in")
            yield "a state"
            said.append("out")
            helper.cancel()
        said.append(asyncio.current_task())

    hf = Holdfast(inbox.url, lifespan=lifespan)

    @hf.task
    async def slow(ctx: Context) -> str:
        await asyncio.sleep(0.2)
        said.append("done")
        return str(ctx.state)

    @hf.task
    def in_thread(ctx: Context) -> str:
        return str(ctx.state)

    async with hf.worker(**FAST) as worker:
        other = await in_thread.enqueue()
        job = await slow.enqueue()
        await until(lambda: worker.engine.tally.counters.started == 2)
    assert said[1:-1] == ["in", "done", "out"]
    assert said[0] is said[-1]
    assert inbox.job(job.id)["result"] == inbox.job(other.id)["result"] == "a state"
    async with hf.worker(**FAST):
        assert len(said) == 7, "it can be entered again"
    await hf.close()


async def test_an_error_of_the_lifespan_is_raised_where_the_worker_starts(
    inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    left: list[int] = []
    fails = [OSError("the cache is away"), None]

    @asynccontextmanager
    async def lifespan(app: Holdfast) -> AsyncIterator[None]:
        if (error := fails.pop(0)) is not None:
            raise error
        yield
        left.append(1)
        raise RuntimeError("while it was left")

    hf = Holdfast(inbox.url, lifespan=lifespan)

    @hf.task
    async def task(ctx: Context) -> None:
        assert ctx.state is None

    with pytest.raises(OSError, match="the cache is away"):
        async with hf.worker(**FAST):
            raise AssertionError("it started")
    assert inbox.workers() == {}
    async with hf.worker(**FAST):
        job = await task.enqueue()
        await ended(inbox, job)
    assert left == [1]
    assert "ended with an error" in caplog.text and "while it was left" in caplog.text
    assert set(inbox.workers().values()) == {"dead"}
    await hf.close()


async def test_a_lifespan_is_left_when_the_worker_cannot_start(hf: Holdfast) -> None:
    left: list[int] = []

    @asynccontextmanager
    async def lifespan(app: Holdfast) -> AsyncIterator[None]:
        try:
            yield
        finally:
            left.append(1)

    @contextmanager
    def sync(app: Holdfast) -> Any:
        yield

    app = Holdfast(hf._url, lifespan=lifespan, lifespan_sync=sync)

    @app.task
    async def task() -> None: ...

    from holdfast.worker.attempts.runner import JobRunner

    async def start(self: Any) -> None:
        raise RuntimeError("no process")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError, match="no process"):
        patch.setattr(JobRunner, "start", start)
        async with app.worker(**FAST):
            raise AssertionError("it started")
    assert left == [1]


async def test_without_a_lifespan_there_is_no_state(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(max_attempts=1)
    async def asks(ctx: Context) -> None:
        _ = ctx.state

    async with hf.worker(**FAST):
        job = await asks.enqueue()
        await ended(inbox, job, status="dead_letter")
    assert "ctx.state: this process has none; pass Holdfast(lifespan=…)" in inbox.job(job.id)["last_error"]


KINDS = ("on_loop", "in_transaction", "in_thread", "in_process")


def test_in_the_processes_of_the_command(inbox: Inbox, fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "around"
    worker = fleet.start(app="tests.apps.around:hf", environment={"AROUND_FILE": str(file)})
    assert sorted(file.read_text().splitlines()) == ["process begins", "worker begins"], "before the first claim"
    jobs = [inbox.enqueue(kind) for kind in KINDS]
    plain = inbox.enqueue("plain_in_process", n=5)
    inbox.wait([*jobs, plain])
    assert worker.drain() == 0
    said = file.read_text().splitlines()
    for kind in KINDS:
        assert said.index(f"before {kind}") < said.index(f"after {kind} True")
    assert "after plain_in_process 5" in said
    assert "process ends" in said, "one that idles leaves its lifespan before it is killed"
    assert said[-1] == "worker ends"


@pytest.fixture
async def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HandlerProcesses]:
    monkeypatch.setenv("AROUND_FILE", str(tmp_path / "around"))
    definitions = [task._definition for task in around.hf.tasks.values()]
    desk = cast(Desk, None)  # these handlers ask for nothing
    pool = HandlerProcesses("tests.apps.around:hf", definitions, desk, Occurrences(LogLines()))
    yield pool
    await pool.close()


async def test_a_process_that_has_idled_leaves_its_lifespan(
    pool: HandlerProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.start()
    pool._put_back(await pool._start())
    monkeypatch.setattr(processes, "IDLE", 0.1)
    await until(lambda: len(pool._all) == 1)
    assert (tmp_path / "around").read_text().splitlines() == ["process begins", "process begins", "process ends"]
    assert pool._idle[0].alive, "the last one stays"


@pytest.mark.parametrize("how", ["raises", "hangs"])
async def test_a_process_that_cannot_leave_its_lifespan_is_killed(
    pool: HandlerProcesses, how: str, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any
) -> None:
    monkeypatch.setenv("AROUND_LEAVES", how)
    monkeypatch.setattr("holdfast.worker.handler_processes.process.LEAVING", 0.5 if how == "hangs" else 20)
    await pool.start()
    (process,) = pool._all
    began = time.monotonic()
    await pool.close()
    assert not process.alive
    assert time.monotonic() - began < 15
    if how == "hangs":
        assert "which did not leave lifespan_sync within 0.5 s" in caplog.text
    else:
        assert "lifespan_sync raised an error when it was left" in capfd.readouterr().err


@pytest.mark.parametrize("where", ["lifespan", "lifespan_sync"])
def test_a_lifespan_that_fails_ends_the_command(inbox: Inbox, fleet: Fleet, tmp_path: Path, where: str) -> None:
    environment = {"AROUND_FILE": str(tmp_path / "around"), "AROUND_REFUSES": where}
    worker = fleet.launch(app="tests.apps.around:hf", environment=environment)
    assert worker.wait() == 78
    assert f"{where}" in worker.log and "could not be entered: OSError: the cache is away" in worker.log
    assert "Traceback" in worker.log and f"in {where}" in worker.log
