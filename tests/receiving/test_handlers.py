"""Handlers of events: what they take, and what waits because nothing takes it."""

import asyncio
import dataclasses
import json
import logging
from typing import Any

import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from tests.support.hooks import SECRET, plain_body, signed, structured
from tests.support.workers import Inbox

from holdfast import (
    ConfigurationError,
    Context,
    Event,
    Holdfast,
    InvalidPayload,
    Received,
    TxContext,
)


class OfMsgspec(msgspec.Struct):
    order_id: int


@dataclasses.dataclass
class OfDataclass:
    order_id: int


class OfPydantic(pydantic.BaseModel):
    order_id: int = pydantic.Field(gt=0)


@pydantic.dataclasses.dataclass
class OfPydanticDataclass:
    order_id: int


async def receive(hf: Holdfast, body: bytes, content_type: str = "application/json") -> Received:
    headers = signed(body, content_type=content_type)
    return await hf.receive(source="shop", secrets=[SECRET], headers=headers, body=body)


async def as_structured(hf: Holdfast, id: str = "e1", **attributes: Any) -> Received:
    return await receive(hf, structured(id, **attributes), content_type="application/cloudevents+json")


@pytest.mark.parametrize("data", [OfMsgspec, OfDataclass, OfPydantic, OfPydanticDataclass])
async def test_the_data_is_read_as_annotated(hf: Holdfast, data: type[Any]) -> None:
    seen: list[Event[Any]] = []

    async def paid(event: Event[Any]) -> None:
        seen.append(event)

    paid.__annotations__["event"] = Event[data]  # type: ignore[valid-type]
    hf.on_event("order.paid", source="shop")(paid)
    received = await as_structured(
        hf, partitionkey="order:1", tenant="t", schemaversion=1, time="2026-11-16T15:00:00Z", traceparent="00-1"
    )
    async with hf.worker():
        await hf.result(received.job, timeout="20s")
    (event,) = seen
    assert event.data == data(order_id=1)
    assert (event.id, event.source, event.type, event.version) == ("e1", "shop", "order.paid", 1)
    assert (event.key, event.tenant, event.headers) == ("order:1", "t", {"traceparent": "00-1"})
    assert event.at is not None and event.at.isoformat() == "2026-11-16T15:00:00+00:00"


async def test_contexts_threads_and_transactions(hf: Holdfast, inbox: Inbox) -> None:
    @hf.on_event("sync", source="shop")
    def in_thread(ctx: Context, event: Event[OfMsgspec]) -> str:
        return f"{ctx.headers['traceparent']} {event.data.order_id}"

    @hf.on_event("tx", source="shop")
    async def in_transaction(ctx: TxContext, event: Event[OfMsgspec]) -> int:
        await ctx.tx.execute("insert into effects values ($1, $2)", ctx.job_id, event.data.order_id)
        return event.data.order_id

    @hf.on_event("any", source="shop")
    async def anything(event: Event) -> Any:  # type: ignore[type-arg]
        return event.data

    first = await as_structured(hf, "1", type="sync", traceparent="00-1")
    second = await as_structured(hf, "2", type="tx")
    third = await as_structured(hf, "3", type="any")
    async with hf.worker():
        assert await hf.result(first.job, timeout="20s") == "00-1 1"
        assert await hf.result(second.job, timeout="20s") == 1
        assert await hf.result(third.job, timeout="20s") == {"order_id": 1}
    assert inbox.effects(second.job) == 1
    assert await anything(Event(id="1", source="s", type="t", data=7)) == 7, "a plain call"


async def test_data_that_does_not_fit_is_a_failed_attempt(hf: Holdfast, inbox: Inbox) -> None:
    @hf.on_event("order.paid", source="shop", max_attempts=1)
    async def paid(event: Event[OfPydantic]) -> None: ...

    received = await receive(hf, plain_body(order_id=0))
    async with hf.worker():
        await asyncio.to_thread(inbox.wait, received.job, "dead_letter")
    assert InvalidPayload.__name__ in inbox.job(received.job)["last_error"]


async def test_versions_are_upcast_and_newer_ones_wait(
    hf: Holdfast, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    @hf.on_event("order.paid", source="shop", version=3)
    async def paid(event: Event[dict[str, Any]]) -> list[Any]:
        return [event.version, event.data]

    @paid.upcast(from_version=2)
    def second(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "tax": 0}

    old = await as_structured(hf, "1", schemaversion="2")
    oldest = await as_structured(hf, "2", schemaversion="1")
    newer = await as_structured(hf, "3", schemaversion="4")
    unknown = await as_structured(hf, "4", type="order.lost")
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        async with hf.worker():
            assert await hf.result(old.job, timeout="20s") == [3, {"order_id": 1, "tax": 0}]
            while "jobs are waiting that no live worker can run" not in caplog.text:
                await asyncio.sleep(0.05)
    for each in (oldest, newer, unknown):
        assert (inbox.status(each.job), inbox.job(each.job)["attempts"]) == ("pending", 0)
    for words in ("shop/order.paid in queue", "shop/order.paid version 4", "shop/order.lost"):
        assert words in caplog.text


async def test_options_are_those_of_the_handler(hf: Holdfast, inbox: Inbox) -> None:
    @hf.on_event("order.paid", source="shop", ordered=True, priority=0, max_attempts=9, queue="money", expires="1h")
    async def paid(event: Event[OfMsgspec]) -> None: ...

    received = await as_structured(hf, partitionkey="order:1")
    (row,) = inbox.rows("select * from holdfast.inbox")
    assert row["id"] == received.job
    assert (row["queue"], row["priority"], row["max_attempts"], row["ordered"]) == ("money", 0, 9, True)
    assert (row["partition_key"], row["kind"]) == ("order:1", "shop/order.paid")
    assert (row["expires_at"] - row["available_at"]).total_seconds() == pytest.approx(3600, abs=1)
    assert hf._queues_of_sources() == {"in.shop"}, "beside its own queue: unknown types wait there"


async def test_events_of_a_key_run_in_order_of_arrival(hf: Holdfast, inbox: Inbox) -> None:
    seen: list[tuple[str | None, int]] = []

    @hf.on_event("order.paid", source="shop", ordered=True)
    async def paid(event: Event[dict[str, int]]) -> None:
        seen.append((event.key, event.data["n"]))

    jobs = [
        (await as_structured(hf, f"e{n}", partitionkey=f"k{n % 3}", data={"n": n})).job for n in range(30)
    ]  # fmt: skip
    async with hf.worker(concurrency=10):
        await asyncio.to_thread(inbox.wait, jobs)
    for key in ("k0", "k1", "k2"):
        mine = [n for found, n in seen if found == key]
        assert mine == sorted(mine) and len(mine) == 10


def test_what_is_no_handler_is_refused() -> None:
    hf = Holdfast("postgresql://nowhere/none")

    async def fine(event: Event[int]) -> None: ...
    async def unnamed(given: Event[int]) -> None: ...
    async def untyped(event) -> None: ...  # type: ignore[no-untyped-def]
    async def two(event: Event[int], more: int) -> None: ...
    async def none() -> None: ...
    async def unreadable(event: Event[Holdfast]) -> None: ...

    for handler in (unnamed, untyped, two, none):
        with pytest.raises(ConfigurationError, match="expected a handler of one event"):
            hf.on_event("a", source="s")(handler)
    for source in ("a/b", "", "x" * 65, "é", None):
        with pytest.raises(ConfigurationError, match="source: expected a name"):
            hf.on_event("a", source=source)(fine)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="1 to 128 characters, got 129"):
        hf.on_event("x" * 127, source="s")(fine)
    with pytest.raises(ConfigurationError, match="type: expected the type of an event"):
        hf.on_event("", source="s")(fine)
    with pytest.raises(ConfigurationError, match="unique_arguments: is not an option of on_event"):
        hf.on_event("a", source="s", unique_arguments=True)(fine)  # type: ignore[call-arg]
    hf.on_event("x" * 126, source="s")(fine)
    hf.on_event("a", source="s")(fine)
    hf.on_event("a", source="t")(fine)
    with pytest.raises(ConfigurationError, match="already a handler of 'a' from the source 's'"):
        hf.on_event("a", source="s", version=2)(fine)
    with pytest.raises(ConfigurationError, match="is at version 1"):
        hf.on_event("b", source="s")(fine).upcast(from_version=1)(lambda data: data)
    with pytest.raises(ConfigurationError, match="a Holdfast cannot be read from JSON"):
        hf.on_event("c", source="s")(unreadable)


async def test_a_handler_is_a_task(hf: Holdfast, inbox: Inbox) -> None:
    @hf.on_event("order.paid", source="shop")
    async def paid(event: Event[OfMsgspec]) -> int:
        return event.data.order_id

    job = await paid.enqueue(Event(id="1", source="shop", type="order.paid", data=OfMsgspec(5)))
    assert json.loads(json.dumps(inbox.job(job.id)["payload"]))["event"]["data"] == {"order_id": 5}
    async with hf.worker():
        assert await job.result(timeout="20s") == 5
