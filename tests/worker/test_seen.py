"""Errors are seen: what the log says about attempts, and which attempt a record belongs to."""

import asyncio
import json
import logging
import time
from contextvars import ContextVar
from typing import Any

import pytest
from tests.support.waiting import until
from tests.support.workers import Fleet, Inbox

from holdfast import Context, Holdfast, TxContext
from holdfast.model.job import Claim
from holdfast.worker.logs import JsonFormatter, TextFormatter, about, mark_records

FAST: dict[str, Any] = {"concurrency": 4, "lease": 5, "housekeeping": 0.2, "poll": 0.05}

shop = logging.getLogger("shop")


async def ended(inbox: Inbox, *jobs: Any, status: str = "completed") -> None:
    await until(lambda: inbox.count([job.id for job in jobs], status) == len(jobs))


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == level and record.name == "holdfast.worker"]


def fields(record: logging.LogRecord) -> list[Any]:
    return [getattr(record, f"holdfast_{name}") for name in ("job_id", "kind", "queue", "attempt", "worker")]


@pytest.mark.parametrize("way", ["on_loop", "in_thread", "in_transaction"])
async def test_a_failed_attempt_is_a_warning_and_a_dead_letter_an_error(
    hf: Holdfast, inbox: Inbox, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    @hf.task(max_attempts=2)
    async def on_loop() -> None:
        raise RuntimeError("as it was made")

    @hf.task(max_attempts=2)
    def in_thread() -> None:
        raise RuntimeError("as it was made")

    @hf.task(max_attempts=2)
    async def in_transaction(ctx: TxContext) -> None:
        raise RuntimeError("as it was made")

    async with hf.worker(**FAST) as worker:
        job = await hf.tasks[way].enqueue()
        await ended(inbox, job, status="dead_letter")
        await until(lambda: bool(lines(caplog, logging.ERROR)))
    warnings, errors = lines(caplog, logging.WARNING), lines(caplog, logging.ERROR)
    said = [record.message for record in (*warnings, *errors)]
    assert said == [
        f"{way} {job.id} attempt 1 of 2 failed: RuntimeError: as it was made",
        f"{way} {job.id} attempt 2 of 2 failed: RuntimeError: as it was made",
        f"{way} {job.id} is a dead letter after attempt 2: RuntimeError: as it was made",
    ]
    for record in (*warnings, *errors):
        assert record.exc_info and isinstance(record.exc_info[1], RuntimeError)
        assert f"in {way}" in logging.Formatter().formatException(record.exc_info)
        assert fields(record) == [str(job.id), way, "default", min(2, said.index(record.message) + 1), worker.name]


async def test_a_timeout_is_a_warning_that_shows_where_it_waited(
    hf: Holdfast, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    @hf.task(max_attempts=1, timeout="50ms")
    async def hangs() -> None:
        await asyncio.sleep(60)

    async with hf.worker(**FAST):
        job = await hangs.enqueue()
        await ended(inbox, job, status="dead_letter")
    (warning,) = lines(caplog, logging.WARNING)
    assert "attempt 1 of 1 failed: Timeout: the attempt ran longer than the 0.05 s" in warning.message
    assert warning.exc_info
    assert "await asyncio.sleep(60)" in logging.Formatter().formatException(warning.exc_info)


@pytest.mark.parametrize("way", ["on_loop", "in_thread", "in_transaction"])
async def test_a_result_that_cannot_be_stored_is_a_dead_letter_at_once(
    hf: Holdfast, inbox: Inbox, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    @hf.task
    async def on_loop() -> object:
        return object()

    @hf.task
    def in_thread() -> object:
        return object()

    @hf.task
    async def in_transaction(ctx: TxContext) -> object:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.attempt)
        return object()

    async with hf.worker(**FAST):
        job = await hf.tasks[way].enqueue()
        await ended(inbox, job, status="dead_letter")
    assert inbox.job(job.id)["attempts"] == 1
    assert inbox.effects(job.id) == 0, "what it wrote in its transaction is rolled back: a revived job may write it"
    (error,) = lines(caplog, logging.ERROR)
    assert (
        "UnstorableResult: the handler finished, but its result cannot be stored: result: is a object" in error.message
    )


@pytest.mark.parametrize(
    ("statements", "raises"),
    [(["commit"], False), (["rollback"], False), (["commit", "begin"], False), (["commit"], True)],
)
async def test_a_handler_that_ends_its_transaction_is_caught(
    hf: Holdfast, inbox: Inbox, caplog: pytest.LogCaptureFixture, statements: list[str], raises: bool
) -> None:
    @hf.task
    async def impatient(ctx: TxContext) -> None:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.attempt)
        for statement in statements:
            await ctx.tx.execute(statement)
        if raises:
            raise RuntimeError("afterwards")

    @hf.task
    async def patient(ctx: TxContext) -> None:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.attempt)
        async with ctx.tx.transaction():
            await ctx.tx.execute("set local application_name = 'mine'")

    async with hf.worker(**FAST):
        job, good = await impatient.enqueue(), await patient.enqueue()
        await ended(inbox, job, status="dead_letter")
        await ended(inbox, good)
    row = inbox.job(job.id)
    assert row["attempts"] == 1, "a retry would write it twice"
    assert row["last_error"].startswith("TransactionEnded: the handler ended the transaction of ctx.tx itself")
    (error,) = lines(caplog, logging.ERROR)
    assert "TransactionEnded" in error.message


@pytest.mark.parametrize("way", ["on_loop", "later", "in_transaction"])
async def test_a_handler_that_blocks_the_loop_is_named(
    hf: Holdfast, inbox: Inbox, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    @hf.task
    async def on_loop() -> None:
        time.sleep(1.1)  # noqa: ASYNC251 - the point

    @hf.task
    async def later() -> None:
        await asyncio.sleep(0)
        time.sleep(1.1)  # noqa: ASYNC251 - the point
        await asyncio.sleep(0)

    @hf.task
    async def in_transaction(ctx: TxContext) -> None:
        time.sleep(1.1)  # noqa: ASYNC251 - the point

    @hf.task
    async def waits() -> None:
        await asyncio.sleep(1.1)

    @hf.task
    def in_thread() -> None:
        time.sleep(1.1)

    async with hf.worker(**FAST):
        quiet = await waits.enqueue(), await in_thread.enqueue()
        await ended(inbox, *quiet)
        job = await hf.tasks[way].enqueue()
        await ended(inbox, job)
    (warning,) = lines(caplog, logging.WARNING)
    assert warning.message.startswith(f"{way} {job.id} blocked the event loop for ")
    assert float(warning.message.partition(" for ")[2].split()[0]) >= 1.1


bound: ContextVar[str] = ContextVar("bound", default="nothing")


async def test_each_attempt_has_a_context_of_its_own(
    hf: Holdfast, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shop")
    found: list[str] = []

    async def child() -> None:
        shop.info("from a task")

    @hf.task
    async def on_loop(ctx: Context) -> None:
        found.append(bound.get())
        bound.set("a value")
        await asyncio.sleep(0)
        assert bound.get() == "a value"
        await asyncio.create_task(child())
        await asyncio.to_thread(shop.info, "from a thread")
        shop.info("with %s", "extra", extra={"job_id": 1, "kind": 2, "queue": 3, "attempt": 4, "worker": 5})

    @hf.task
    def in_thread(ctx: Context) -> None:
        found.append(bound.get())
        bound.set("a value")
        shop.info("from a handler's thread")

    async with hf.worker(**{**FAST, "concurrency": 1}) as worker:
        for task in (on_loop, on_loop, in_thread, in_thread, on_loop):
            job = await task.enqueue()
            await ended(inbox, job)
            records = [record for record in caplog.records if record.name == "shop"]
            caplog.clear()
            assert len(records) == (3 if task is on_loop else 1)
            for record in records:
                assert fields(record) == [str(job.id), task._definition.kind, "default", 1, worker.name]
        shop.info("outside")
        assert not hasattr(caplog.records[-1], "holdfast_job_id")
    assert found == ["nothing"] * 5, "what one handler binds, another does not see"


def test_json_lines_hold_whatever_is_logged() -> None:
    claim = Claim(
        worker="w1", id=None, generation=3, fence=9, attempt=2, max_attempts=5, kind="k", version=1, payload="{}",  # type: ignore[arg-type]
        queue="q", key="key", headers=None, idempotency_key=None,
    )  # fmt: skip
    mark_records()
    mark_records()
    kept: list[logging.LogRecord] = []
    logger = logging.Logger("odd")
    handler = logging.Handler()
    handler.emit = kept.append  # type: ignore[method-assign,assignment]
    logger.addHandler(handler)
    with about(claim):
        logger.info("plain %s", "é", extra={"order": 7, "when": Fine(), "queue": "mine"})
    logger.info("half a pair \ud800", extra={"nan": float("nan"), "odd": {1: Unprintable()}})
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("failed")
    for record in kept:
        assert "\n" not in JsonFormatter().format(record)
    first, second, third = (json.loads(JsonFormatter().format(record)) for record in kept)
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "INFO", "logger": "odd", "message": "plain é", "order": 7, "when": "fine", "job_id": "None",
        "kind": "k", "queue": "q", "attempt": 2, "worker": "w1",
    }  # fmt: skip
    assert second["message"] == "half a pair \\ud800"
    assert third["exception"].startswith("Traceback") and third["exception"].endswith("ValueError: two\nlines")
    text = TextFormatter().format(kept[0])
    assert text.endswith("odd plain é [job_id=None kind=k queue=q attempt=2 worker=w1]")


class Fine:
    def __repr__(self) -> str:
        return "fine"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


KINDS = ("on_loop", "in_transaction", "in_thread", "in_process")


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_command_logs_the_same_of_every_kind_of_handler(inbox: Inbox, fleet: Fleet, form: str) -> None:
    worker = fleet.start(app="tests.apps.seen:hf", options=["--log-format", form])
    jobs = {kind: inbox.enqueue(kind, max_attempts=1) for kind in KINDS}
    inbox.wait(jobs.values(), "dead_letter")
    assert worker.drain() == 0
    if form == "text":
        for kind, job in jobs.items():
            assert f"INFO    shop working [job_id={job} kind={kind} queue=default attempt=1 worker=" in worker.log
            assert f"ERROR   holdfast.worker {kind} {job} is a dead letter after attempt 1" in worker.log
        assert worker.log.count("Traceback (most recent call last):") >= 8
        return
    logged = [json.loads(line) for line in worker.log.splitlines()]
    for kind, job in jobs.items():
        (working,) = [line for line in logged if line["logger"] == "shop" and line["kind"] == kind]
        assert (working["job_id"], working["queue"], working["attempt"]) == (str(job), "default", 1)
        assert (working["message"], working["order"], working["level"]) == ("working", 7, "INFO")
        failed, dead = [
            line for line in logged if line["level"] in ("WARNING", "ERROR") and line.get("job_id") == str(job)
        ]
        assert (failed["level"], dead["level"]) == ("WARNING", "ERROR")
        for line in (failed, dead):
            assert "RuntimeError: as it was made" in line["exception"]
            assert f"in {kind}" in line["exception"]
            assert line["worker"] == working["worker"]
