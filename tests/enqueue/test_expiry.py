"""Expiry as producers set it: every way to enqueue stores it; what could never start is rejected."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import CALLERS, settle
from tests.support.inbox import until_waiting
from tests.support.pooler import direct
from tests.support.waiting import until

from holdfast import ConfigurationError, Holdfast, InvalidInput, JobFailed, Task

Send = Task[..., None]
NOON = datetime(2099, 1, 1, 12, tzinfo=UTC)
LEFT = "id, extract(epoch from expires_at - clock_timestamp())::float8 as left"


@pytest.fixture
def send(hf: Holdfast) -> Send:
    @hf.task
    def send(n: int) -> None: ...

    return send


@pytest.mark.parametrize("expires", ["10m", 600, 600.0, timedelta(minutes=10)], ids=str)
async def test_a_duration_counts_from_the_enqueue(send: Send, inbox: Inbox, expires: Any) -> None:
    await send.options(expires=expires, delay="5m").enqueue(1)
    (row,) = await inbox.jobs(LEFT)
    assert 590 < row["left"] <= 600


async def test_a_job_without_one_never_expires(send: Send, inbox: Inbox) -> None:
    job = await send.enqueue(1)
    (row,) = await inbox.jobs("expires_at")
    assert row["expires_at"] is None
    assert (await job.state()).expires_at is None


async def test_a_task_has_one_for_all_its_jobs(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(expires="10m")
    def note(n: int) -> None: ...

    await note.enqueue(1)
    await note.options(expires="1h").enqueue(2)
    await note.options(expires=NOON).enqueue(3)
    await hf.enqueue_many([note.job(4), note.options(expires="1h").job(5)])
    rows = [row["left"] for row in await inbox.jobs(LEFT)]
    assert [round(left / 600) for left in rows if left < 3601] == [1, 6, 1, 6]
    assert (await inbox.jobs("expires_at"))[2]["expires_at"] == NOON


@pytest.mark.parametrize("number", [1, 10, 2500], ids=["lines", "more lines", "binary"])
@pytest.mark.parametrize("expires", ["10m", NOON], ids=["duration", "time"])
async def test_many_by_copy(send: Send, inbox: Inbox, number: int, expires: Any) -> None:
    await send.options(expires=expires).enqueue_many([{"n": n} for n in range(number)], copy=True)
    rows = await inbox.connection.fetch("select expires_at, count(*) from holdfast.inbox group by 1")
    assert len(rows) == 1 and rows[0]["count"] == number
    left = (rows[0]["expires_at"] - datetime.now(UTC)).total_seconds()
    assert rows[0]["expires_at"] == NOON or 500 < left < 700


@pytest.mark.parametrize("door", CALLERS)
async def test_in_a_callers_transaction(hf: Holdfast, send: Send, inbox: Inbox, migrated_url: str, door: str) -> None:
    async with CALLERS[door](migrated_url) as seat:
        await settle(send.on(seat.connection, expires=NOON).enqueue(1))
        await settle(send.on(seat.connection, expires=NOON).enqueue_many([{"n": 2}, {"n": 3}]))
    assert [row["expires_at"] for row in await inbox.jobs("expires_at")] == [NOON] * 3


async def test_the_state_of_a_job_shows_it(send: Send, inbox: Inbox) -> None:
    job = await send.options(expires=NOON).enqueue(1)
    assert (await job.state()).expires_at == NOON
    await inbox.connection.execute("update holdfast.inbox set expires_at = now() - interval '1 s'")
    assert "; the next claim, or housekeeping, ends it" in (await job.state()).next
    await inbox.connection.execute("update holdfast.inbox set status = 'blocked'")
    assert "; the next claim, or housekeeping, ends it" in (await job.state()).next


async def test_who_waits_for_its_result_is_told(hf: Holdfast, inbox: Inbox) -> None:
    ran = []

    @hf.task
    async def note(n: int) -> None:
        ran.append(n)

    late = await note.options(expires=datetime(2020, 1, 1, tzinfo=UTC)).enqueue(1)
    job = await note.options(expires="1h").enqueue(2)
    async with hf.worker(poll=0.05):
        with pytest.raises(
            JobFailed, match="ended as expired after 0 attempts: not started by 2020-01-01T00:00:00"
        ) as failed:
            await late.result(30)
        await job.result(30)
        await until(lambda: ran == [2])
    assert (failed.value.status, failed.value.error, failed.value.attempts) == ("expired", None, 0)
    state = await late.state()
    assert (state.status, state.attempts, state.errors) == ("expired", 0, [])
    assert state.next.startswith("it expired at ") and "before it started (not started by 2020" in state.next


# What could never start


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "zero": ({"expires": 0}, "expires: expected a duration above zero, got 0"),
    "negative": ({"expires": timedelta(-1)}, "expires: expected a duration of zero or more"),
    "words": ({"expires": "soon"}, "expires: expected a duration such as"),
    "no zone": ({"expires": datetime(2099, 1, 1)}, "expires: has no time zone"),  # noqa: DTZ001
    "delay": ({"expires": "10m", "delay": "10m"}, "expires: the job is due after '10m', and would expire before that"),
    "at": ({"expires": NOON, "at": NOON}, "expires: expected a time after at"),
    "delay, and a time": ({"expires": datetime(2021, 1, 1, tzinfo=UTC), "delay": "1h"}, "expires: the job is due at "),
    "at, and a duration": ({"expires": "10m", "at": NOON}, "expires: the job is due at 2099-01-01T12:00:00"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_mistakes_are_named(send: Send, inbox: Inbox, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        await send.options(**options).enqueue(1)
    with pytest.raises(InvalidInput, match=words):
        await send.options(**options).enqueue_many([{"n": 1}, {"n": 2}])
    with pytest.raises(InvalidInput, match=words):
        await send.options(**options).enqueue_many([{"n": 1}], copy=True)
    assert await inbox.count() == 0


async def test_a_delay_beyond_the_expiry_of_the_task(hf: Holdfast) -> None:
    @hf.task(expires="10m")
    def note(n: int) -> None: ...

    with pytest.raises(InvalidInput, match="would expire before that, after 600 s"):
        await note.options(delay="1h").enqueue(1)


async def test_a_task_has_a_duration(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput, match="expires: of a task, expected a duration"):
        hf.task(name="a", expires=NOON)(lambda: None)  # type: ignore[call-overload]


async def test_a_schedule_has_a_duration(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(expires="10m")
    def report() -> None: ...

    assert hf.every("5m", expires="1m")(report) is report
    assert hf._schedules["report"].options["expires"] == 60
    with pytest.raises(ConfigurationError, match="expires: of a schedule, expected a duration"):
        hf.every("5m", name="other")(report.options(expires=NOON))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("expires => '0'", "expires must be above zero"),
        ("expires => '-1 h'", "expires must be above zero"),
        ("expires => '36501 days'", "expires is too far ahead"),
        ("expires_at => 'infinity'", "expires_at is too far ahead"),
        ("expires => '1 h', expires_at => now()", "give expires or expires_at, not both"),
        ("expires => '1 h', delay => '1 h'", "expires: the job is due at"),
        ("expires_at => now(), at => '2099-01-01'", "expires: the job is due at 2099"),
    ],
)
async def test_sql_names_them_too(inbox: Inbox, arguments: str, words: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match=words) as refused:
        await inbox.connection.fetchval(f"select holdfast.enqueue('send', {arguments})")
    assert refused.value.sqlstate == "HF001"


async def test_sql_takes_a_duration(inbox: Inbox) -> None:
    await inbox.connection.execute("select holdfast.enqueue('send', expires => '10 min', delay => '5 min')")
    (row,) = await inbox.jobs(LEFT)
    assert 590 < row["left"] <= 600


# Unique jobs


async def test_a_job_that_is_replaced_gets_the_new_expiry(send: Send, inbox: Inbox) -> None:
    for expires in (NOON, None, NOON):
        await send.options(unique_key="a", replace="arguments", expires=expires).enqueue(1)
        (row,) = await inbox.jobs("expires_at")
        assert row["expires_at"] == expires
    await send.options(unique_key="a").enqueue(1)
    (row,) = await inbox.jobs("expires_at")
    assert row["expires_at"] == NOON, "one that is only found keeps its own"


@pytest.mark.parametrize("status", ["pending", "blocked"])
@pytest.mark.parametrize("done", [False, True], ids=["until started", "until done"])
async def test_one_that_has_expired_does_not_stand_for_a_new_one(
    send: Send, inbox: Inbox, status: str, done: bool
) -> None:
    """It waits to be ended, and would never run: a job that finds it would be lost."""
    task = send.options(unique_key="a", unique_done=done, expires="1h")
    first = await task.enqueue(1)
    await inbox.connection.execute(
        "update holdfast.inbox set expires_at = now() - interval '1 s', status = $1::text::holdfast.inbox_status",
        status,
    )
    second = await task.enqueue(2)
    assert not second.existed
    assert (await task.enqueue(3)).id == second.id
    assert [row["id"] for row in await inbox.jobs()] == [second.id]
    assert await first.status() == "expired"


@pytest.mark.parametrize("how", ["ended by the chore", "claimed by a worker"])
@pytest.mark.parametrize("done", [False, True], ids=["until started", "until done"])
async def test_one_that_another_session_ends_at_this_moment_does_not_either(
    send: Send, inbox: Inbox, migrated_url: str, how: str, done: bool
) -> None:
    """Both lock the row before they change it. A lock alone does not make the insert wait: the job is in its way."""
    task = send.options(unique_key="a", unique_done=done, idempotency_key=None, expires="1h")
    first = await task.enqueue(1)
    await inbox.connection.execute("update holdfast.inbox set expires_at = now() - interval '1 s'")
    rival = await asyncpg.connect(direct(migrated_url))
    transaction = rival.transaction()
    await transaction.start()
    await rival.execute("select from holdfast.inbox where id = $1 for update", first.id)
    second = asyncio.create_task(task.enqueue(2))
    await until_waiting(inbox.connection, 0)
    if how == "ended by the chore":
        await rival.fetch("select * from holdfast.expire_jobs(array[$1::uuid])", first.id)
    else:
        await rival.execute(
            "update holdfast.inbox set status = 'processing', claimed_by = 'w', claimed_at = holdfast.clock(),"
            " lease_expires_at = now() + interval '90 s', lease_generation = 1, attempts = 1 where id = $1", first.id
        )  # fmt: skip
    await transaction.commit()
    await rival.close()
    job = await second
    assert not job.existed
    assert job.id in [row["id"] for row in await inbox.jobs()]


async def test_replacing_the_arguments_does_not_make_a_job_expire_before_it_is_due(send: Send, inbox: Inbox) -> None:
    await send.options(unique_key="a", delay="1h", expires="2h").enqueue(1)
    with pytest.raises(InvalidInput, match="before it could start"):
        await send.options(unique_key="a", replace="arguments", expires="10m").enqueue(2)
    assert (await send.options(unique_key="a", replace="time", expires="10m").enqueue(3)).replaced


async def test_a_running_one_that_has_expired_is_found(send: Send, inbox: Inbox) -> None:
    task = send.options(unique_key="a", unique_done=True, expires="1h")
    first = await task.enqueue(1)
    await inbox.connection.execute(
        "update holdfast.inbox set expires_at = now() - interval '1 s', status = 'processing', lease_generation = 1"
    )
    assert (await task.enqueue(2)).id == first.id
    assert await first.status() == "processing"


async def test_its_idempotency_key_is_remembered(send: Send, inbox: Inbox) -> None:
    task = send.options(unique_key="a", idempotency_key="i", expires="1h")
    first = await task.enqueue(1)
    await inbox.connection.execute("update holdfast.inbox set expires_at = now() - interval '1 s'")
    await send.options(unique_key="a").enqueue(2)
    assert await first.status() == "expired"
    assert (await task.enqueue(1)).id == first.id
    assert await inbox.connection.fetchval("select expires_at > now() + interval '1 day' from holdfast.dedupe")


async def test_a_dead_letter_that_is_revived_can_run(hf: Holdfast, send: Send, inbox: Inbox) -> None:
    job = await send.options(expires="1h").enqueue(1)
    await inbox.connection.execute(
        "update holdfast.inbox set expires_at = now() - interval '1 h', status = 'dead_letter', dead_at = now()"
    )
    await hf.revive([job.id])
    (row,) = await inbox.jobs("status::text, expires_at")
    assert tuple(row) == ("pending", None)
