"""How handlers of every kind run and end, in an embedded worker."""

import asyncio
import threading
from typing import Any, NoReturn
from uuid import UUID

import pytest
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Context, Fail, Holdfast, NotFound, Snooze, TxContext
from holdfast.model import payload

FAST: dict[str, Any] = {"concurrency": 4, "lease": 5, "housekeeping": 0.2, "poll": 0.05}


async def ended(inbox: Inbox, *jobs: UUID, status: str = "completed") -> None:
    await until(lambda: inbox.count(jobs, status) == len(jobs))


async def test_results_are_kept_in_the_archive(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def double(n: int) -> dict[str, int]:
        return {"doubled": 2 * n}

    @hf.task
    def in_a_thread(ctx: Context, n: int) -> list[object]:
        return [n, threading.current_thread() is threading.main_thread(), ctx.attempt]

    @hf.task
    async def nothing() -> None:
        pass

    async with hf.worker(**FAST):
        one, two, three = await double.enqueue(n=21), await in_a_thread.enqueue(n=1), await nothing.enqueue()
        await ended(inbox, one.id, two.id, three.id)
    assert inbox.job(one.id)["result"] == {"doubled": 42}
    assert inbox.job(two.id)["result"] == [1, False, 1]
    assert inbox.job(three.id)["result"] is None
    found = await hf.job(one.id)
    assert (found.status, found.result) == ("completed", {"doubled": 42})
    assert found.next.startswith("it completed at ")
    with pytest.raises(NotFound, match="no job"):
        await hf.job(UUID(int=1))


async def test_what_a_tx_handler_writes_commits_with_its_completion_or_not_at_all(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def follow_up(of: UUID) -> None:
        pass

    @hf.task(max_attempts=2)
    async def book(ctx: TxContext, fail: bool) -> int:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.attempt)
        await follow_up.on(ctx.tx).enqueue(of=ctx.job_id)
        if fail and ctx.attempt == 1:
            raise RuntimeError("after the writes")
        return ctx.attempt

    async with hf.worker(**FAST):
        good, bad = await book.enqueue(fail=False), await book.enqueue(fail=True)
        await ended(inbox, good.id, bad.id)
        await until(lambda: inbox.one("select count(*) = 2 from holdfast.archive where kind = 'follow_up'"))
    for job, attempt in ((good, 1), (bad, 2)):
        assert inbox.rows("select attempt from effects where job = %s", job.id) == [{"attempt": attempt}]
        assert inbox.job(job.id)["result"] == attempt
        follow_ups = inbox.one("select count(*) from holdfast.archive where payload ->> 'of' = %s", str(job.id))
        assert follow_ups == 1, "that of the attempt that was rolled back is not there"


async def test_a_tx_handler_may_snooze_and_fail_with_its_writes(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def put_off(ctx: TxContext) -> Snooze | None:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.generation)
        return Snooze("50ms") if ctx.generation == 1 else None

    @hf.task
    async def give_up(ctx: TxContext) -> Fail:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.generation)
        return Fail("no such order")

    async with hf.worker(**FAST):
        later, never = await put_off.enqueue(), await give_up.enqueue()
        await ended(inbox, later.id)
        await ended(inbox, never.id, status="failed")
    assert inbox.effects(later.id) == 2
    assert inbox.job(later.id)["attempts"] == 1, "a snooze costs no attempt"
    assert inbox.effects(never.id) == 1
    assert inbox.job(never.id)["last_error"] == "no such order"


async def test_a_tx_handler_that_lost_its_lease_writes_nothing(hf: Holdfast, inbox: Inbox) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    @hf.task
    async def book(ctx: TxContext) -> None:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.attempt)
        inside.set()
        await go_on.wait()

    async with hf.worker(**{**FAST, "lease": 60}) as worker:
        job = await book.enqueue()
        await inside.wait()
        inbox.rows("update holdfast.inbox set lease_generation = 2, claimed_by = 'another' where id = %s", job.id)
        go_on.set()
        await until(lambda: worker.engine.tally.counters.lease_lost == 1)
    assert inbox.effects(job.id) == 0
    assert inbox.job(job.id)["claimed_by"] == "another"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Base(BaseException):
    pass


class Busy(Snooze):
    """Without what a snooze needs."""

    def __init__(self) -> None: ...


RAISED: list[BaseException] = [
    RuntimeError("plain"), Base("not an Exception"), SystemExit(3), Unprintable(), StopIteration("odd"),
    ExceptionGroup("many", [ValueError("a"), ValueError("b")]), RuntimeError("NUL \0 and \ud800 half a pair"),
    asyncio.CancelledError("its own"), RuntimeError("x" * 1_000_000), Fail(Unprintable()), Busy(),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("in_thread", [False, True])
async def test_whatever_is_raised_is_a_failed_attempt_and_costs_no_hand(
    hf: Holdfast, inbox: Inbox, error: BaseException, in_thread: bool
) -> None:
    together = asyncio.Barrier(4)

    @hf.task
    async def company() -> None:
        await together.wait()

    async def bad() -> NoReturn:
        raise error

    def bad_sync() -> NoReturn:
        raise error

    task = hf.task(bad_sync if in_thread else bad, name="bad", max_attempts=1)  # type: ignore[call-overload]
    async with hf.worker(**FAST):
        jobs = [(await task.enqueue()).id for _ in range(4)]
        await ended(inbox, *jobs, status="dead_letter")
        # All four hands are still there.
        others = [job.id for job in await company.enqueue_many([{}] * 4)]
        await ended(inbox, *others)
    for job in jobs:
        (record,) = inbox.job(job)["errors"]
        wanted = "RuntimeError" if isinstance(error, StopIteration) and not in_thread else type(error).__name__
        assert record["error"] == wanted
        assert len(str(record)) < 20_000


async def test_a_keyboard_interrupt_in_a_thread_is_a_failed_attempt(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(max_attempts=1)
    def interrupted() -> NoReturn:
        raise KeyboardInterrupt

    async with hf.worker(**FAST):
        job = await interrupted.enqueue()
        await ended(inbox, job.id, status="dead_letter")
    assert inbox.job(job.id)["last_error"] == "KeyboardInterrupt"


async def test_a_swallowed_cancellation_does_not_reach_the_next_job(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(timeout="100ms", max_attempts=1)
    async def swallows() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished all the same"
        raise AssertionError

    @hf.task(max_attempts=1)
    async def groups() -> None:
        async def fails() -> None:
            raise ValueError("in a child")

        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    async with hf.worker(**{**FAST, "concurrency": 1}):
        first, second = await swallows.enqueue(), await groups.enqueue()
        await ended(inbox, first.id)
        await ended(inbox, second.id, status="dead_letter")
    assert inbox.job(first.id)["result"] == "finished all the same"
    assert inbox.job(second.id)["errors"][0]["error"] == "ExceptionGroup"


@pytest.mark.parametrize("how", ["async", "thread", "transaction"])
async def test_endings_can_be_raised_from_anywhere(hf: Holdfast, inbox: Inbox, how: str) -> None:
    def deep_inside(generation: int) -> None:
        raise Snooze("50ms") if generation == 1 else Fail("no such order")

    async def plain(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(deep_inside, ctx.generation))

    def thread(ctx: Context) -> None:
        deep_inside(ctx.generation)

    async def transaction(ctx: TxContext) -> None:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, ctx.generation)
        deep_inside(ctx.generation)

    task = hf.task(name="ends")({"async": plain, "thread": thread, "transaction": transaction}[how])
    async with hf.worker(**FAST):
        job = await task.enqueue()
        await ended(inbox, job.id, status="failed")
    row = inbox.job(job.id)
    assert (row["last_error"], row["attempts"], row["errors"]) == ("no such order", 1, None), "a snooze costs nothing"
    assert inbox.effects(job.id) == 0, "raised, what was written is rolled back"


async def test_work_whose_result_cannot_be_stored_is_not_done_again(hf: Holdfast, inbox: Inbox) -> None:
    runs = []

    @hf.task
    async def endless() -> float:
        runs.append(1)
        return float("nan")

    async with hf.worker(**FAST):
        job = await endless.enqueue()
        await ended(inbox, job.id, status="dead_letter")
    assert "its result cannot be stored: result: is nan" in inbox.job(job.id)["last_error"]
    assert len(runs) == 1


async def test_one_bad_ending_does_not_take_its_batch_along(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing of ours lets such a result through; should one ever pass, it is alone in paying for it.
    encode = payload.encode_value
    monkeypatch.setattr(
        payload, "encode_value", lambda field, value: "{broken" if value == "bad" else encode(field, value)
    )
    together = asyncio.Barrier(4)

    @hf.task
    async def say(what: str) -> str:
        await together.wait()
        return what

    async with hf.worker(**{**FAST, "lease": 60}):
        jobs = [(await say.enqueue(what=what)).id for what in ("good", "bad", "good", "good")]
        await ended(inbox, jobs[0], jobs[2], jobs[3])
    assert inbox.status(jobs[1]) != "completed"


async def test_unknown_kinds_and_versions_wait_while_known_ones_run(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(version=2)
    async def known() -> None:
        pass

    insert = (
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, payload_version)"
        " values ('k', 1, %s::jsonb, %s) returning id"
    )
    unknown = inbox.one(insert, '{"type": "from_elsewhere"}', 1)
    newer = inbox.one(insert, '{"type": "known"}', 3)
    older = inbox.one(insert, '{"type": "known"}', 1)  # and no upcast
    shapeless = inbox.one(insert, "[1]", 1)
    async with hf.worker(**FAST):
        await ended(inbox, *[(await known.enqueue()).id for _ in range(20)])
    for id in (unknown, newer, older, shapeless):
        row = inbox.job(id)
        assert (row["status"], row["attempts"]) == ("pending", 0)


async def test_payloads_in_flight_are_upcast(hf: Holdfast, inbox: Inbox) -> None:
    got: list[tuple[int, str]] = []

    @hf.task(version=3)
    async def pay(cents: int, currency: str) -> None:
        got.append((cents, currency))

    @pay.upcast(from_version=1)
    def to_cents(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"cents": arguments["euros"] * 100}

    @pay.upcast(from_version=2)
    def with_currency(arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "currency": "EUR"}

    insert = (
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, payload_version, max_attempts)"
        " values ('k', 1, %s::jsonb, %s, 1) returning id"
    )
    jobs = [
        inbox.one(insert, '{"type": "pay", "euros": 1}', 1),
        inbox.one(insert, '{"type": "pay", "cents": 200}', 2),
        inbox.one(insert, '{"type": "pay", "cents": 300, "currency": "USD"}', 3),
    ]
    broken = inbox.one(insert, '{"type": "pay", "pounds": 1}', 1)
    async with hf.worker(**FAST):
        await ended(inbox, *jobs)
        await ended(inbox, broken, status="dead_letter")
    assert sorted(got) == [(100, "EUR"), (200, "EUR"), (300, "USD")]
    assert "KeyError" in inbox.job(broken)["last_error"]
    assert inbox.job(broken)["payload"] == {"type": "pay", "pounds": 1}, "P9: unchanged"


@pytest.mark.parametrize(
    "stored", ['{"type": "add", "n": "one"}', '{"type": "add"}', '{"type": "add", "n": 1, "m": 2}']
)
async def test_a_payload_that_does_not_fit_is_a_dead_letter_with_the_reason(
    hf: Holdfast, inbox: Inbox, stored: str
) -> None:
    @hf.task
    async def add(n: int) -> None:
        raise AssertionError("never called")

    insert = (
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, max_attempts)"
        " values ('k', 1, %s::jsonb, 2) returning id"
    )
    job = inbox.one(insert, stored)
    async with hf.worker(**FAST):
        await ended(inbox, job, status="dead_letter")
    row = inbox.job(job)
    assert len(row["errors"]) == 2
    assert "does not fit add" in row["last_error"]


async def test_priorities_come_first(hf: Holdfast, inbox: Inbox) -> None:
    order: list[int] = []

    @hf.task
    async def note(n: int) -> None:
        order.append(n)

    jobs = [(await note.options(priority=priority).enqueue(n=priority)).id for priority in (3, 1, 0, 2)]
    async with hf.worker(**{**FAST, "concurrency": 1}):
        await ended(inbox, *jobs)
    assert order == [0, 1, 2, 3]


async def test_once_in_a_synchronous_handler(hf: Holdfast, inbox: Inbox) -> None:
    entered: list[bool] = []

    @hf.task
    def ship(ctx: Context) -> None:
        with ctx.once(f"ship:{ctx.job_id}") as first:
            entered.append(first)
        if ctx.attempt == 1:
            raise RuntimeError("after the marker")

    async with hf.worker(**FAST):
        job = await ship.enqueue()
        await ended(inbox, job.id)
    assert entered == [True, False]


async def test_a_once_block_that_fails_may_be_entered_again(hf: Holdfast, inbox: Inbox) -> None:
    entered: list[bool] = []

    @hf.task
    async def ship(ctx: Context) -> None:
        async with ctx.once(f"ship:{ctx.job_id}") as first:
            entered.append(first)
            if ctx.attempt == 1:
                raise RuntimeError("inside")

    async with hf.worker(**FAST):
        await ended(inbox, (await ship.enqueue()).id)
    assert entered == [True, True]


async def test_a_once_block_with_somebody_inside_puts_the_job_off(hf: Holdfast, inbox: Inbox) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()
    entered: list[bool] = []

    @hf.task
    async def ship(ctx: Context) -> None:
        async with ctx.once("ship:9182") as first:
            entered.append(first)
            if first:
                inside.set()
                await go_on.wait()

    async with hf.worker(**FAST) as worker:
        one = await ship.enqueue()
        await inside.wait()
        two = await ship.enqueue()
        await until(lambda: worker.engine.tally.counters.snoozed > 0)
        go_on.set()
        await ended(inbox, one.id, two.id)
    assert entered == [True, False]
    assert inbox.job(two.id)["attempts"] == 1
