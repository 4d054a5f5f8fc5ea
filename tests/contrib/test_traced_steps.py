"""Steps of workflows, as spans of the real SDK."""

import asyncio
from contextlib import suppress
from typing import Any

from opentelemetry.trace import SpanKind, StatusCode
from tests.support.spans import Traces, is_below, of
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Backoff, Fail, Flow, Holdfast, Snooze, StepFailed, TxContext
from holdfast.testing import drain

FAST: dict[str, Any] = {"concurrency": 4, "lease": 5, "housekeeping": 0.2, "poll": 0.05}
AT_ONCE = Backoff(base=0.01, cap=0.01)


async def test_each_step_is_a_span_below_its_run_and_what_is_replayed_makes_none(
    traced: Holdfast, traces: Traces
) -> None:
    async def pay(cents: int) -> None:
        with traces.span("pays"):
            await asyncio.sleep(0)

    def pack() -> None:
        with traces.span("packs"):
            pass

    async def book(ctx: TxContext) -> None:
        with traces.span("books"):
            await ctx.tx.execute("select 1")

    @traced.workflow(queue="flows")
    async def checkout(flow: Flow) -> None:
        await flow.step("pay", pay, 100)
        await flow.wait("shipped", dict)
        await flow.gather(flow.step("pack", pack, key="left"), flow.step("pack", pack, key="right"))
        await flow.step("book", book)

    async with traced.worker(**FAST):
        await checkout.options(id="one").start()
        await traces.until("process flows", 1)
        await traced.signal("one", "shipped", {})
        first, second = await traces.until("process flows", 2)
    pays, books, packs = traces.one("step pay"), traces.one("step book"), traces.all("step pack")
    assert is_below(pays, first), "once: the second run replays it"
    assert all(is_below(span, second) for span in (books, *packs))
    assert sorted(of(span)["holdfast.step"] for span in packs) == ["pack[left]", "pack[right]"]
    assert of(pays) == {
        "holdfast.kind": "checkout", "holdfast.step": "pay", "holdfast.attempt": 1, "holdfast.outcome": "completed",
    }  # fmt: skip
    assert pays.kind is SpanKind.INTERNAL and pays.status.status_code is StatusCode.UNSET
    assert is_below(traces.one("pays"), pays) and is_below(traces.one("books"), books)
    assert all(any(is_below(inner, span) for span in packs) for inner in traces.all("packs"))


async def test_each_attempt_of_a_step_is_a_span_with_its_error(traced: Holdfast, traces: Traces, inbox: Inbox) -> None:
    tries: list[str] = []

    async def pay() -> str:
        tries.append("pay")
        if len(tries) == 1:
            raise ConnectionError("the bank is away")
        return "paid"

    @traced.workflow
    async def checkout(flow: Flow) -> None:
        await flow.step("pay", pay, retry=AT_ONCE)
        await flow.step("pay", pay)

    async with traced.worker(**FAST):
        await checkout.options(id="one").start()
        spans = await traces.until("step pay", 3)
    shown = [(of(span)["holdfast.step"], of(span)["holdfast.attempt"], of(span)["holdfast.outcome"]) for span in spans]
    assert shown == [("pay", 1, "failed"), ("pay", 2, "completed"), ("pay#2", 1, "completed")]
    failed = spans[0]
    assert of(failed)["error.type"] == "ConnectionError"
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "ConnectionError: the bank is away"
    (event,) = failed.events
    assert event.name == "exception" and event.attributes is not None
    assert event.attributes["exception.message"] == "the bank is away"
    assert "Traceback" in str(event.attributes["exception.stacktrace"])
    first, second = traces.all("process default")
    assert is_below(failed, first) and is_below(spans[1], second)
    assert of(first)["holdfast.waits"] == ("retry:pay",)


async def test_how_steps_end(traced: Holdfast, traces: Traces) -> None:
    async def late() -> None:
        await asyncio.sleep(60)

    async def snoozes() -> Snooze:
        return Snooze("1h")

    async def snoozes_in_tx(ctx: TxContext) -> Snooze:
        return Snooze("1h")

    async def ends(ctx: TxContext) -> None:
        await ctx.tx.execute("rollback")

    async def unstorable(ctx: TxContext) -> Any:
        return object()

    async def reserve() -> None: ...

    async def release() -> None: ...

    def fails() -> None:
        raise Fail("no such order")

    @traced.workflow
    async def bad(flow: Flow, which: str) -> None:
        steps: dict[str, Any] = {
            "snoozes": snoozes,
            "snoozes_in_tx": snoozes_in_tx,
            "ends": ends,
            "unstorable": unstorable,
        }
        await flow.step(which, steps[which])

    @traced.workflow
    async def undone(flow: Flow) -> None:
        with suppress(StepFailed):
            await flow.step("late", late, timeout="0.05s", max_attempts=1, catch=True)
        await flow.step("reserve", reserve, undo=release)
        await flow.step("fails", fails)

    for which in ("snoozes", "snoozes_in_tx", "ends", "unstorable"):
        await bad.start(which=which)
    await undone.start()
    await drain(traced, errors="retry")
    names = ["snoozes", "snoozes_in_tx", "ends", "unstorable", "late", "reserve", "fails"]
    spans = {name: traces.one(f"step {name}") for name in names} | {"undo": traces.one("undo reserve")}
    found = {
        name: (of(span)["holdfast.outcome"], of(span).get("error.type"), span.status.status_code.name)
        for name, span in spans.items()
    }
    assert found == {
        "snoozes": ("snoozed", None, "UNSET"),
        "snoozes_in_tx": ("snoozed", None, "UNSET"),
        "ends": ("failed", "TransactionEnded", "ERROR"),
        "unstorable": ("failed", "UnstorableResult", "ERROR"),
        "late": ("failed", "Timeout", "ERROR"),
        "reserve": ("completed", None, "UNSET"),
        "fails": ("failed", "Fail", "ERROR"),
        "undo": ("completed", None, "UNSET"),
    }


async def test_a_step_that_the_worker_breaks_off_has_no_outcome(traced: Holdfast, traces: Traces) -> None:
    began = asyncio.Event()

    async def forever() -> None:
        began.set()
        await asyncio.sleep(60)

    @traced.workflow
    async def waits(flow: Flow) -> None:
        await flow.step("forever", forever)

    async with traced.worker(**FAST, drain=0.1):
        await waits.start()
        await began.wait()
    await until(lambda: bool(traces.all("step forever")))
    span = traces.one("step forever")
    assert "holdfast.outcome" not in of(span) and span.status.status_code is StatusCode.UNSET


async def test_untraced_steps_run_as_they_are(hf: Holdfast, inbox: Inbox) -> None:
    async def pay() -> str:
        return type(journals[0]).__name__

    journals: list[Any] = []

    @hf.workflow
    async def checkout(flow: Flow) -> str:
        journals.append(flow._machine.journal)
        return str(await flow.step("pay", pay))

    async with hf.worker(**FAST):
        started = await checkout.start()
        await until(lambda: inbox.status(started.job_id) == "completed")
    assert [type(journal).__name__ for journal in journals] == ["FlowJournal"]
