"""Tasks with keep, run by a real worker."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from tests.support.inbox import Session
from tests.support.pooler import database_at
from tests.support.proxy import Proxy, proxied
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import ConfigurationError, Context, Fail, Holdfast, NotFound, TaskOptions, TxContext
from holdfast.db.link import Link
from holdfast.model.keep import keep_of
from holdfast.model.occurrences import Occurrences
from holdfast.model.outcome import Completed
from holdfast.worker.attempts.completer import Completer
from holdfast.worker.leases import ledger as marks
from holdfast.worker.leases.ledger import Ledger
from holdfast.worker.tally import Tally

FAST: dict[str, Any] = {"concurrency": 4, "housekeeping": 0.2, "poll": 0.05}


def rows(inbox: Inbox) -> tuple[int, int]:
    live, ended = (int(inbox.one(f"select count(*) from holdfast.{table}")) for table in ("inbox", "archive"))
    return live, ended


async def test_no_row_is_left_however_it_ran(hf: Holdfast, inbox: Inbox) -> None:
    ran: list[str] = []

    @hf.task(keep=None)
    async def on_loop() -> str:
        ran.append("loop")
        return "not kept"

    @hf.task(keep=None)
    def in_thread() -> None:
        ran.append("thread")

    @hf.task(keep=None)
    async def in_transaction(ctx: TxContext) -> None:
        ran.append("transaction")

    @hf.task(keep=None, ordered=True)
    async def in_order(ctx: Context) -> None:
        ran.append("order")

    async with hf.worker(**FAST):
        for task in (on_loop, in_thread, in_transaction):
            await task.enqueue()
        for _ in range(3):
            await in_order.options(key="a").enqueue()
        await until(lambda: len(ran) == 6 and rows(inbox) == (0, 0))
    assert sorted(ran) == ["loop", "order", "order", "order", "thread", "transaction"]


async def test_rows_are_kept_for_as_long_as_their_task_says(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(keep="7d")
    async def on_loop() -> str:
        return "kept"

    @hf.task(keep=timedelta(days=300))
    def in_thread() -> None: ...

    @hf.task(keep="3d")
    async def in_transaction(ctx: TxContext) -> None: ...

    @hf.task(keep="7d", max_attempts=1)
    async def fails() -> None:
        raise Fail("no")

    @hf.task
    async def as_installed() -> None: ...

    tasks = (on_loop, in_thread, in_transaction, fails, as_installed)
    async with hf.worker(**FAST):
        jobs = [await task.enqueue() for task in tasks]
        await until(lambda: rows(inbox) == (0, 5))
        assert await jobs[0].result(timeout=30) == "kept"
    found = inbox.rows("select kind, keep_days from holdfast.archive")
    assert {row["kind"]: row["keep_days"] for row in found} == {
        "on_loop": 7, "in_thread": 365, "in_transaction": 3, "fails": None, "as_installed": None,
    }  # fmt: skip
    assert [row["days"] for row in inbox.rows("select days from holdfast.keep_classes order by days")] == [3, 7, 365]


async def test_housekeeping_makes_leaves_for_days_to_come(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(keep="7d")
    async def week() -> None: ...

    leaves = "select count(*) from pg_partition_tree('holdfast.archive') where isleaf and relid::text ~ '_(7d|rest)$'"

    def made() -> bool:
        inbox.rows("update holdfast.chores set ran_at = ran_at - interval '1 hour' where name = 'partitions'")
        return bool(inbox.one(leaves) == 14)

    async with hf.worker(**FAST):  # its first round may come before it has declared its tasks
        await until(made)


async def test_what_can_be_said_about_it(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(keep=None)
    async def gone() -> str:
        return "not kept"

    job, (other,) = await gone.enqueue(), await hf.enqueue_many([gone.job()])
    assert await job.status() == "pending"
    for refused in (job, other):
        with pytest.raises(ConfigurationError, match="keep=None, so a completed job leaves no row"):
            await refused.result(timeout=30)
    with pytest.raises(ConfigurationError, match="keep=None"):
        await asyncio.to_thread(job.result_sync, timeout=30)
    async with hf.worker(**FAST):
        await until(lambda: rows(inbox) == (0, 0))
    with pytest.raises(NotFound, match="It has completed, and its task has keep=None; or its enqueue has not"):
        await job.status()
    with pytest.raises(NotFound, match="keep=None"):
        await asyncio.to_thread(job.state_sync)
    with pytest.raises(NotFound, match="its row was not kept"):
        await hf.result(job.id)


async def test_keys_hold_and_unique_jobs_are_released(hf: Holdfast, inbox: Inbox) -> None:
    ran: list[int] = []

    @hf.task(keep=None)
    async def gone(n: int) -> None:
        ran.append(n)

    async with hf.worker(**FAST):
        first = await gone.options(idempotency_key="k").enqueue(1)
        until_done = gone.options(unique_key="u", unique_done=True)
        await until_done.enqueue(2)
        await until(lambda: sorted(ran) == [1, 2] and rows(inbox) == (0, 0))
        again = await gone.options(idempotency_key="k").enqueue(1)
        assert (again.id, again.existed) == (first.id, True)
        assert not (await until_done.enqueue(3)).existed
        await until(lambda: sorted(ran) == [1, 2, 3] and rows(inbox) == (0, 0))


async def test_a_changed_keep_holds_for_what_ends_from_then_on(hf: Holdfast, inbox: Inbox, migrated_url: str) -> None:
    """The worker's code decides, and the database knows it."""
    changes: list[tuple[TaskOptions, int | None]] = [({}, None), ({"keep": None}, 0), ({"keep": "7d"}, 7), ({}, None)]
    for number, (options, kept) in enumerate(changes):
        app = Holdfast(migrated_url)
        ran: list[int] = []

        async def changing() -> None:
            ran.append(1)  # noqa: B023

        task = app.task(**options)(changing)

        before = rows(inbox)[1]
        async with app.worker(**FAST):
            await task.enqueue()
            await until(lambda: bool(ran) and rows(inbox)[0] == 0)  # noqa: B023
        assert rows(inbox)[1] - before == (0 if kept == 0 else 1), number
        assert inbox.one("select keep_days from holdfast.kinds where kind = 'changing'") == kept
        await app.close()


@pytest_asyncio.fixture
async def proxy(migrated_url: str) -> AsyncIterator[Proxy]:
    async with proxied(migrated_url) as proxy:
        yield proxy


@pytest.mark.direct  # which connection a pooler gives to a statement cannot be foreseen
async def test_a_completion_whose_answer_is_cut_off_is_a_completion(one: Session, proxy: Proxy) -> None:
    ids = await one.add(3)
    claims = {claim.id: claim for claim in await one.claim("w1")}
    lost = claims[ids[2]]
    await one.connection.execute("update holdfast.inbox set lease_generation = 7 where id = $1", lost.id)
    link = Link(database_at(proxy.url), "write")
    ledger, tally = Ledger(), Tally()
    completer = Completer(link, ledger, Occurrences(tally), 30.0, 10, keep_of({"job": 0}))
    for claim in claims.values():
        claim.slot = ledger.hold(claim.id, claim.generation, marks.now())
        completer.add(claim, Completed())
    await link.run("inbox", "blocked", ["default"])  # connects
    proxy.cut_after(b"delete from", b"SELECT 1")
    completer.start()
    assert await completer.close(within=30)
    await link.close()
    assert proxy.cuts == 1
    assert (tally.counters.completed, tally.counters.lease_lost) == (2, 1)
    assert [row["id"] for row in await one.connection.fetch("select id from holdfast.inbox")] == [lost.id]
    assert await one.connection.fetchval("select count(*) from holdfast.archive") == 0
