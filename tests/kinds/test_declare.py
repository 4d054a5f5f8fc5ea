"""What workers declare about their tasks, and what others make of it."""

import threading
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast import Backoff, ConfigurationError, Holdfast, Snooze
from tests.support.pooler import direct
from tests.support.waiting import until


@pytest.fixture
async def hf(migrated_url: str) -> AsyncIterator[Holdfast]:
    app = Holdfast(migrated_url)
    yield app
    await app.close()


@pytest.fixture
async def bystander(migrated_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(direct(migrated_url))
    yield connection
    await connection.close()


KINDS = """
    select kind, version, app, arguments::text, retry_base, retry_cap, max_snoozes from holdfast.kinds order by kind
"""
WAIT = "select extract(epoch from available_at - now())::float8 from holdfast.inbox where id = $1"


async def test_a_worker_declares_its_tasks(hf: Holdfast, bystander: Any) -> None:
    @hf.task(version=2, retry=Backoff(base="5s", cap="1m"), max_snoozes=3)
    async def pay(order_id: int, note: str | None = None) -> None: ...

    @hf.task
    async def ship() -> None: ...

    async with hf.worker():
        rows = await bystander.fetch(KINDS)
    assert [tuple(row) for row in rows] == [
        ("pay", 2, "tests", '{"note": "str | None", "order_id": "int"}', 5, 60, 3),
        ("ship", 1, "tests", "{}", None, None, None),
    ]


async def test_an_older_version_overwrites_nothing(hf: Holdfast, migrated_url: str, bystander: Any) -> None:
    @hf.task(version=2, retry=Backoff(base="5s"))
    async def pay(order_id: int) -> None: ...

    async with hf.worker():
        pass
    older = Holdfast(migrated_url)

    @older.task(name="pay")
    async def pay_as_it_was() -> None: ...

    async with older.worker():
        assert [tuple(row)[:2] for row in await bystander.fetch(KINDS)] == [("pay", 2)]
    await older.close()


async def test_another_application_s_task_of_the_same_name_is_refused(hf: Holdfast, bystander: Any) -> None:
    await bystander.execute(
        "insert into holdfast.kinds (kind, version, app, arguments) values ('send', 1, 'crm', '{\"email\": \"str\"}')"
    )

    @hf.task
    async def send(order_id: int) -> None: ...

    with pytest.raises(ConfigurationError, match=r"'crm' has another task 'send'.*email: str.*takes order_id: int"):
        async with hf.worker():
            pass
    assert await bystander.fetchval("select app from holdfast.kinds where kind = 'send'") == "crm"
    await bystander.execute("update holdfast.kinds set seen_at = now() - interval '8 days'")
    async with hf.worker():  # it has not been seen for a week
        assert await bystander.fetchval("select app from holdfast.kinds where kind = 'send'") == "tests"


async def test_the_delay_in_sql_is_that_of_the_policy(bystander: Any) -> None:
    await bystander.execute("""
        insert into holdfast.kinds (kind, version, app, arguments, retry_base, retry_factor, retry_cap, retry_jitter)
        values ('pay', 1, 'a', '{}', 5, 3, 60, 0), ('jittered', 1, 'a', '{}', 10, 1, 10, 0.5)""")
    await bystander.execute("update holdfast.settings set value = '0' where name = 'backoff_jitter'")
    delay = "select extract(epoch from holdfast.retry_delay($1, $2))::float8"
    assert [await bystander.fetchval(delay, "pay", n) for n in (1, 2, 3, 4, 2**31 - 1)] == [5, 15, 45, 60, 60]
    assert [await bystander.fetchval(delay, "unknown", n) for n in (1, 2)] == [2, 4], "the settings"
    many = await bystander.fetch(f"{delay} from generate_series(1, 200)", "jittered", 1)
    assert 10 <= min(row[0] for row in many) < 11
    assert 14 < max(row[0] for row in many) <= 15


async def test_a_sweep_retries_by_the_policy_of_a_task_that_it_does_not_have(hf: Holdfast, bystander: Any) -> None:
    await bystander.execute("""
        insert into holdfast.kinds (kind, version, app, arguments, retry_base, retry_factor, retry_cap, retry_jitter)
        values ('pay', 1, 'a', '{}', 1000, 1, 1000, 0)""")
    job = await bystander.fetchval("select holdfast.enqueue('pay')")
    await bystander.execute("""
        update holdfast.inbox set status = 'processing', claimed_by = 'gone', claimed_at = now(), lease_generation = 1,
            attempts = 1, lease_expires_at = now() - interval '1 hour'""")

    @hf.task
    async def other() -> None: ...

    async with hf.worker(housekeeping=0.05, lease=0.3):
        await until(lambda: hf.job_sync(job).status == "pending")
    wait = await bystander.fetchval(WAIT, job)
    assert 900 < wait <= 1000


async def test_a_handler_s_errors_are_retried_by_its_policy(hf: Holdfast, bystander: Any) -> None:
    @hf.task(retry=Backoff(base="1000s", jitter=0, give_up=(ValueError,)))
    async def pay(n: int) -> None:
        raise ValueError if n else OSError

    waits, gives_up = await pay.enqueue(0), await pay.enqueue(1)
    async with hf.worker(poll=0.05):
        await until(lambda: waits.state_sync().attempts == 1 and waits.status_sync() == "pending")
        await until(lambda: gives_up.status_sync() == "dead_letter")
    wait = await bystander.fetchval(WAIT, waits.id)
    assert 900 < wait <= 1000
    assert gives_up.state_sync().attempts == 1


async def test_snoozing_has_a_bound(hf: Holdfast, bystander: Any) -> None:
    @hf.task(max_snoozes=3)
    async def wait_for_file() -> Snooze:
        return Snooze(0)

    job = await wait_for_file.enqueue()
    async with hf.worker(poll=0.05):
        await until(lambda: job.status_sync() == "dead_letter")
        state = await job.state()
        assert state.last_error == "SnoozeLimit: the handler has snoozed this job 3 times"
        assert [error["error"] for error in state.errors] == ["SnoozeLimit"]
        assert [(each.error, each.count) for each in await hf.dead_groups() if each.group] == [("SnoozeLimit", 1)]
        assert await bystander.fetchval("select lease_generation from holdfast.inbox") == 4
        await hf.revive([job.id])  # it may be snoozed as often again
        await until(lambda: job.status_sync() == "dead_letter" and len(job.state_sync().errors) == 2)


async def test_a_cancelled_job_that_snoozes_once_too_often_ends_as_cancelled(hf: Holdfast) -> None:
    began, goes_on = threading.Event(), threading.Event()

    @hf.task(max_snoozes=0)
    def wait_for_file() -> Snooze:
        began.set()
        goes_on.wait(30)
        return Snooze(0)

    job = await wait_for_file.enqueue()
    async with hf.worker(poll=0.05, housekeeping=0.2):
        await until(began.is_set)
        assert await hf.cancel(job.id) == "processing"
        goes_on.set()
        await until(lambda: job.status_sync() != "processing")
        await until(lambda: job.status_sync() != "failed")  # until housekeeping moves it
    assert job.status_sync() == "cancelled"
