"""`frozen_clock` and `fire_schedules`: time passes when the test says so."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.support.pooler import database_at, direct
from tests.support.workers import Inbox

from holdfast import Backoff, Context, Holdfast, InvalidInput, Retry, Snooze, TxContext
from holdfast.schema import migrate
from holdfast.testing import (
    Fired,
    assert_enqueued,
    drain,
    drain_sync,
    fire_schedules,
    fire_schedules_sync,
    frozen_clock,
)

NOON = datetime(2030, 5, 1, 12, tzinfo=UTC)


def bodies(inbox: Inbox) -> dict[str, tuple[str, str]]:
    """Every function of the schema, as it is and as it is recorded."""
    rows = inbox.rows(
        "select p.proname::text as name, string_agg(pg_get_functiondef(p.oid), ' ') as text, min(f.digest) as digest "
        "from pg_proc p left join holdfast.functions f on f.name = p.proname "
        "where p.pronamespace = 'holdfast'::regnamespace group by p.proname"
    )
    return {row["name"]: (row["text"], row["digest"]) for row in rows}


@pytest.fixture
def unchanged(inbox: Inbox) -> Iterator[None]:
    """After the test, every function is as it was."""
    before = bodies(inbox)
    yield
    assert bodies(inbox) == before


@pytest.mark.parametrize("at", [None, NOON, datetime(2001, 1, 1, tzinfo=UTC)])
async def test_delays(hf: Holdfast, at: datetime | None, unchanged: None) -> None:
    @hf.task
    async def job(n: int) -> int:
        return n

    async with frozen_clock(hf, at) as clock:
        now = clock.now
        assert at is None or now == at
        await job.enqueue(0)
        await job.options(delay="1h").enqueue(1)
        await job.options(at=now + timedelta(hours=2)).enqueue(2)
        await job.options(delay="3h").enqueue_many([{"n": 3}])
        await job.options(unique_key="u", delay="4h").enqueue(4)
        await job.options(at=now - timedelta(hours=1)).enqueue(5)
        await assert_enqueued(job, n=1, delay="1h", within="1h", at=now + timedelta(hours=1))
        assert [ran.result for ran in await drain(hf)] == [0, 5]
        for n in (1, 2, 3, 4):
            assert await clock.advance("59m59s") == now + timedelta(hours=n - 1, minutes=59, seconds=59)
            assert len(await drain(hf)) == 0
            await clock.advance(1)
            assert [ran.result for ran in await drain(hf)] == [n]
        assert (await drain(hf)).left == 0


async def test_on_a_callers_connection_and_from_sql(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def job(n: int) -> int:
        return n

    async with frozen_clock(hf, NOON) as clock:
        connection = await asyncpg.connect(direct(inbox.url))
        async with connection.transaction():
            await job.on(connection, delay="1h").enqueue(1)
        await connection.execute("select holdfast.enqueue('job', '{\"n\": 2}', delay => '2 hours')")
        await connection.close()
        for n in (1, 2):
            assert len(await drain(hf)) == 0
            await clock.advance("1h")
            assert [ran.result for ran in await drain(hf)] == [n]


async def test_retries_snoozes_and_horizons(hf: Holdfast) -> None:
    @hf.task(max_attempts=3, retry=Backoff(base="10s", factor=3, jitter=0))
    async def fails() -> None:
        raise ZeroDivisionError

    @hf.task
    async def asks(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise Retry("2h")

    @hf.task
    async def sleeps(until: datetime) -> Snooze | None:
        return Snooze("3h") if clock.now < until else None

    @hf.task
    async def once(ctx: Context) -> bool:
        async with ctx.once("effect") as first:
            return first

    async with frozen_clock(hf, NOON) as clock:
        await fails.enqueue()
        assert len(await drain(hf, errors="retry")) == 1
        for pause, ending in (("10s", "retried"), ("30s", "dead_letter")):
            await clock.advance(pause)
            assert [ran.ending for ran in await drain(hf, errors="retry")] == [ending]
        await asks.enqueue()
        await sleeps.enqueue(NOON + timedelta(hours=2))
        await drain(hf)
        assert (await drain(hf)).left == 2
        await clock.advance("2h")
        assert [ran.kind for ran in await drain(hf)] == ["asks"]
        await clock.advance("1h")
        assert [(ran.kind, ran.ending) for ran in await drain(hf)] == [("sleeps", "completed")]
        for days, first in ((0, True), (29, False), (31, False)):
            await clock.advance(timedelta(days=days))
            await once.options(idempotency_key="k").enqueue()
            drained = await drain(hf)
            assert [ran.result for ran in drained] in ([first], [])
        dead = await hf.find_jobs(status="dead_letter")
        await hf.revive(dead)
        assert [ran.kind for ran in await drain(hf, errors="retry")] == ["fails"]


async def test_ordered_keys_wait_for_the_retry(hf: Holdfast) -> None:
    @hf.task(ordered=True, retry=Backoff(base="1m", jitter=0))
    async def step(ctx: Context, n: int) -> int:
        if n == 0 and ctx.attempt == 1:
            raise ZeroDivisionError
        return n

    async with frozen_clock(hf, NOON) as clock:
        await step.options(key="k").enqueue(0)
        await step.options(key="k").enqueue(1)
        assert [ran.ending for ran in await drain(hf, errors="retry")] == ["retried"]
        await clock.advance("59s")
        assert len(await drain(hf)) == 0
        await clock.advance("1s")
        assert [ran.result for ran in await drain(hf)] == [0, 1]


async def test_a_worker_inside(hf: Holdfast) -> None:
    @hf.task
    async def job(n: int) -> int:
        return n

    async with frozen_clock(hf, NOON) as clock, hf.worker(poll=0.02):
        later = await job.options(delay="1h").enqueue(1)
        assert await (await job.enqueue(0)).result(timeout="60s") == 0
        await clock.advance("1h")
        assert await later.result(timeout="60s") == 1


async def test_it_can_be_set_back_and_used_again(hf: Holdfast, unchanged: None) -> None:
    @hf.task
    async def job() -> None: ...

    for _ in range(2):
        async with frozen_clock(hf, NOON) as clock:
            await job.enqueue()
            await clock.set(NOON - timedelta(days=1))
            assert len(await drain(hf)) == 0
            await job.enqueue()
            assert len(await drain(hf)) == 1
            await clock.set(NOON)
            assert len(await drain(hf)) == 1
            with pytest.raises(InvalidInput, match="instant: has no time zone"):
                await clock.set(datetime(2026, 1, 1))  # noqa: DTZ001
            with pytest.raises(InvalidInput, match="duration: expected a duration of zero or more"):
                await clock.advance(-1)
            with pytest.raises(InvalidInput, match="frozen already"):
                async with frozen_clock(hf):
                    raise AssertionError
    await job.enqueue()
    assert len(await drain(hf)) == 1, "by the real clock"


async def test_it_is_restored_when_the_test_fails(hf: Holdfast, unchanged: None) -> None:
    with pytest.raises(ZeroDivisionError):
        async with frozen_clock(hf, NOON):
            raise ZeroDivisionError


async def test_migrate_puts_the_real_clock_back(hf: Holdfast, inbox: Inbox, unchanged: None) -> None:
    """As after a test run that was killed."""
    await frozen_clock(hf, NOON).__aenter__()
    assert inbox.one("select holdfast.clock()") == NOON
    steps = await migrate.pending(database_at(inbox.url))
    assert {"clock", "store_job", "fail_attempts"} <= {step.name for step in steps}
    await hf.migrate()


async def test_another_schema(database_url: str) -> None:
    hf = Holdfast(database_url, schema="order")
    await hf.migrate()

    @hf.task
    async def job() -> None: ...

    async with frozen_clock(hf, NOON) as clock:
        await job.options(delay="1h").enqueue()
        assert len(await drain(hf)) == 0
        await clock.advance("1h")
        assert len(await drain(hf)) == 1
    assert await migrate.pending(hf._database) == []
    await hf.close()


# Schedules


async def test_schedules(hf: Holdfast) -> None:
    @hf.cron("0 7 * * 1-5", tz="Europe/Berlin")
    @hf.task
    async def report(day: str = "today") -> None: ...

    @hf.every("20m")
    @hf.task
    async def tick() -> None: ...

    monday = datetime(2030, 5, 6, 4, 30, tzinfo=UTC)
    async with frozen_clock(hf, monday) as clock:
        assert await fire_schedules(hf) == []
        await clock.advance("40m")
        seven = datetime(2030, 5, 6, 5, tzinfo=UTC)
        assert await fire_schedules(hf) == [
            Fired("tick", seven - timedelta(minutes=20)), Fired("report", seven), Fired("tick", seven),
        ]  # fmt: skip
        assert await fire_schedules(hf) == []
        drained = await drain(hf)
        assert sorted(ran.kind for ran in drained) == ["report", "tick", "tick"]


async def test_schedules_after_an_outage(hf: Holdfast) -> None:
    @hf.every("1m", missed="skip")
    @hf.task
    async def skips() -> None: ...

    @hf.every("1m", missed="latest")
    @hf.task
    async def latest() -> None: ...

    async with frozen_clock(hf, NOON) as clock:
        await clock.advance("10m45s")
        fired = await fire_schedules(hf, late=True)
        assert fired == [Fired("latest", NOON + timedelta(minutes=10))]
        await clock.advance("250m")
        assert len(await fire_schedules(hf)) == 500, "more than one statement fires"


async def test_a_schedule_that_cannot_fire_is_an_error(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def job() -> None: ...

    async with frozen_clock(hf):
        inbox.rows("insert into holdfast.schedules (name, kind, cron) values ('bad', 'job', 'every day')")
        with pytest.raises(InvalidInput, match="cron"):
            await fire_schedules(hf)


# For code that does not await


def test_without_await(inbox: Inbox, unchanged: None) -> None:
    hf = Holdfast(inbox.url)

    @hf.every("1h")
    @hf.task
    def job(n: int = 0) -> int:
        return n

    with frozen_clock(hf, NOON) as clock:
        job.options(delay="1h").enqueue_sync(1)
        assert len(drain_sync(hf)) == 0
        assert clock.advance_sync("1h") == NOON + timedelta(hours=1)
        assert fire_schedules_sync(hf) == [Fired("job", NOON + timedelta(hours=1))]
        assert sorted(ran.result for ran in drain_sync(hf)) == [0, 1]
        assert clock.set_sync(NOON) == NOON
    hf.close_sync()


def test_what_reads_the_clock_is_replaced() -> None:
    """A statement or a function that is new here reads `clock_timestamp()` as the others do, so that it is found."""
    from importlib.resources import files

    from holdfast.schema.functions import functions
    from holdfast.testing.clock import REAL

    others = ("clock_timestamp ()", "now()", "statement_timestamp()", "transaction_timestamp()", "current_timestamp")
    texts: dict[str, str] = {each.name: each.text for each in functions() if each.name != "clock"}
    for room in ("inbox", "housekeeping", "queues", "schedules", "ownership", "kinds"):
        for file in files("holdfast").joinpath(room).iterdir():
            if file.name.endswith(".sql"):
                texts[f"{room}/{file.name}"] = file.read_text(encoding="utf-8")
    plain: dict[str, Any] = {
        name: "\n".join(line.partition("--")[0] for line in text.splitlines()) for name, text in texts.items()
    }
    assert any(REAL in text for text in plain.values())
    assert {name: other for name, text in plain.items() for other in others if other in text} == {}


async def test_expiry(hf: Holdfast) -> None:
    @hf.task(expires="10m")
    async def code(phone: str) -> None: ...

    @hf.task(expires="10m")
    async def code_tx(ctx: TxContext, phone: str) -> None: ...

    async with frozen_clock(hf, NOON) as clock:
        for task in (code, code_tx):
            await task.enqueue("1")
            await clock.advance("9m")
            assert [each.ending for each in await drain(hf)] == ["completed"]
            late = await task.enqueue("2")
            await clock.advance("10m")
            assert [each.ending for each in await drain(hf)] == ["expired"]
            assert await late.status() == "expired"
