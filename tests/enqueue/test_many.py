"""Very many at once."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import installation
from tests.support.pooler import direct

from holdfast import ConfigurationError, Holdfast, InvalidPayload, SchemaError, Task
from holdfast.inbox import copying
from holdfast.inbox.copying import COMMON

SendReceipt = Task[..., None]


@pytest.fixture(params=["insert", "lines", "bytes"])
def copy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Each way to send: the `copy` to ask for, and the form made to be taken."""
    monkeypatch.setattr(copying, "BINARY_FROM", 0 if request.param == "bytes" else 10**9)
    return bool(request.param != "insert")


WRONG_BUCKETS = "select count(*) from holdfast.inbox where partition_bucket <> holdfast.bucket(partition_key)"


async def test_twenty_thousand_by_copy(send_receipt: SendReceipt, inbox: Inbox) -> None:
    jobs = await send_receipt.enqueue_many({"order_id": n} for n in range(20_000))
    rows = await inbox.jobs("id, payload, partition_key")
    assert [row["id"] for row in rows] == [job.id for job in jobs]
    assert [json.loads(row["payload"])["order_id"] for row in rows] == list(range(20_000))
    assert all(row["partition_key"] == str(row["id"]) for row in rows)
    assert await inbox.connection.fetchval(WRONG_BUCKETS) == 0


async def test_copy_and_insert_store_the_same(send_receipt: SendReceipt, inbox: Inbox, copy: bool) -> None:
    at = datetime(2099, 1, 1, tzinfo=UTC)
    chosen = send_receipt.options(key="ключ", at=at, queue="bulk", priority=0, max_attempts=2, headers={"a": "b"})
    await chosen.enqueue_many([{"order_id": 1, "note": "naïve 🔑"}], copy=copy)
    (row,) = await inbox.jobs(
        "payload, partition_key, available_at, queue, priority, max_attempts, payload_version, headers, kind, "
        "status::text"
    )
    assert tuple(row) == (
        '{"note": "naïve 🔑", "type": "send_receipt", "order_id": 1}', "ключ", at, "bulk", 0, 2, 1, '{"a": "b"}',
        "send_receipt", "pending",
    )  # fmt: skip
    assert await inbox.connection.fetchval(WRONG_BUCKETS) == 0


async def test_what_copy_does_not_send_is_what_the_table_says(
    send_receipt: SendReceipt, inbox: Inbox, copy: bool
) -> None:
    usual = send_receipt.options(queue="default", priority=1, max_attempts=5)
    await usual.enqueue_many([{"order_id": 1}], copy=copy)
    (row,) = await inbox.jobs(", ".join(COMMON))
    assert dict(row) == {name: column.usual for name, column in COMMON.items()}


async def test_the_version_of_the_payload_is_stored(hf: Holdfast, inbox: Inbox, copy: bool) -> None:
    @hf.task(version=3)
    def count(n: int) -> None: ...

    await count.enqueue_many([{"n": 1}], copy=copy)
    assert [row["payload_version"] for row in await inbox.jobs("payload_version")] == [3]


async def test_more_than_one_statement_holds(migrated_url: str, send_receipt: SendReceipt, inbox: Inbox) -> None:
    with psycopg.connect(direct(migrated_url)) as connection:
        rows = [{"order_id": n} for n in range(4500)]
        jobs: list[Any] = send_receipt.on(connection).enqueue_many(rows)
    assert [row["id"] for row in await inbox.jobs()] == [job.id for job in jobs]


async def test_a_bad_row_among_many_is_named_by_its_place(send_receipt: SendReceipt, inbox: Inbox) -> None:
    rows: list[dict[str, Any]] = [{"order_id": n} for n in range(10)]
    rows[7] = {"order_id": 7, "colour": "red"}
    with pytest.raises(InvalidPayload, match=r"\[7\].colour: is not an argument of send_receipt") as refused:
        await send_receipt.enqueue_many(rows)
    assert refused.value.field == "[7].colour"
    assert await inbox.count() == 0


async def test_a_bad_row_behind_those_that_were_sent_takes_them_back(send_receipt: SendReceipt, inbox: Inbox) -> None:
    rows: list[dict[str, Any]] = [{"order_id": n} for n in range(5000)]
    rows[4321]["order_id"] = "four thousand"
    await send_receipt.enqueue(0)
    with pytest.raises(InvalidPayload, match=r"\[4321\].order_id: Expected `int`, got `str`"):
        await send_receipt.enqueue_many(rows, copy=True)
    assert await inbox.count() == 1
    rows[4321]["order_id"] = 4321
    assert len(await send_receipt.enqueue_many(rows, copy=True)) == await inbox.count() - 1


async def test_an_error_of_the_callers_own_code_takes_them_back(hf: Holdfast, inbox: Inbox) -> None:
    class Model:
        def model_dump(self, mode: str) -> dict[str, int]:
            raise ZeroDivisionError("the caller's")

    @hf.task
    def store(model: Any) -> None: ...

    with pytest.raises(ZeroDivisionError, match="the caller's"):
        await store.enqueue_many([*({"model": n} for n in range(1000)), {"model": Model()}], copy=True)
    assert await inbox.count() == 0


async def test_others_get_their_turn_while_very_many_are_made(send_receipt: SendReceipt) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    await send_receipt.enqueue_many([{"order_id": n} for n in range(10_000)], copy=True)
    beside.cancel()
    assert turns >= 100


async def test_text_comes_back_as_it_was(send_receipt: SendReceipt, inbox: Inbox, copy: bool) -> None:
    odd = "a\tb\nc\rd\\e\\N\\.\x7f\x01\"' \u2028🔑"
    chosen = send_receipt.options(key=odd, queue=odd, headers={odd: odd})
    notes = [odd, "\\.", "\\N", "\\", "\\u0041", "\n"]
    await chosen.enqueue_many([{"order_id": 1, "note": note} for note in notes], copy=copy)
    rows = await inbox.jobs("payload, partition_key, queue, headers")
    assert [json.loads(row["payload"])["note"] for row in rows] == notes
    assert {(row["partition_key"], row["queue"], row["headers"]) for row in rows} == {(odd, odd, rows[0]["headers"])}
    assert json.loads(rows[0]["headers"]) == {odd: odd}
    assert await inbox.connection.fetchval(WRONG_BUCKETS) == 0


async def test_rows_are_arguments_by_name(send_receipt: SendReceipt) -> None:
    rows: Any = [{"order_id": 1}, 2]
    with pytest.raises(InvalidPayload, match=r"\[1\]: expected arguments by name, .* got a int"):
        await send_receipt.enqueue_many(rows)


async def test_a_database_that_is_not_there_is_not_asked_again(database_url: str) -> None:
    async with installation(f"{database_url}_gone") as hf:
        noop = hf.task(name="noop")(lambda: None)
        with pytest.raises(ConfigurationError, match=r"does not exist .*createdb, or correct the URL"):
            await noop.enqueue()


async def test_without_a_schema_the_error_says_what_to_run(database_url: str) -> None:
    async with installation(database_url) as hf:
        noop = hf.task(name="noop")(lambda: None)
        with pytest.raises(SchemaError, match=r"schema 'holdfast' .* Run: holdfast migrate"):
            await noop.enqueue()


def test_synchronous_code_needs_no_loop(migrated_url: str) -> None:
    hf = Holdfast(migrated_url)
    noop = hf.task(name="noop")(lambda: None)
    assert noop.enqueue_sync().id != noop.enqueue_sync().id
    assert len(noop.enqueue_many_sync([{}, {}])) == 2
    hf.close_sync()
    assert not noop.enqueue_sync().existed, "and opens again when asked"
    hf.close_sync()
