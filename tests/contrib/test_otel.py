"""Traces: spans of the real SDK, made by real workers."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
from opentelemetry import propagate
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator, default_setter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from tests.outbox.conftest import Sink
from tests.support.pooler import direct
from tests.support.spans import Traces, header, id_of, is_below, linked, of
from tests.support.waiting import until, wait_until
from tests.support.workers import Fleet, Inbox

from holdfast import ConfigurationError, Context, Fail, Flow, Holdfast, Instance, Job, Snooze, TxContext
from holdfast.contrib.otel import instrument
from holdfast.testing import drain

FAST: dict[str, Any] = {"concurrency": 4, "lease": 5, "housekeeping": 0.2, "poll": 0.05}


def headers(inbox: Inbox, id: UUID) -> Any:
    return inbox.one("select headers from holdfast.jobs where id = %s", id)


async def test_an_attempt_is_below_its_enqueue_and_what_it_does_is_below_the_attempt(
    traced: Holdfast, traces: Traces, inbox: Inbox
) -> None:
    @traced.task(queue="leaves")
    async def leaf(n: int) -> None: ...

    @traced.task(queue="loop")
    async def on_loop(ctx: Context) -> None:
        await asyncio.sleep(0)
        with traces.span("in loop"):
            await leaf.enqueue(1)

    @traced.task(queue="thread")
    def in_thread(ctx: Context) -> None:
        with traces.span("in thread"):
            leaf.enqueue_sync(2)

    @traced.task(queue="transaction")
    async def in_transaction(ctx: TxContext) -> None:
        with traces.span("in transaction"):
            await leaf.on(ctx.tx).enqueue(3)

    with traces.span("request"):
        # Attempts are not below the span in which a worker happens to be started.
        async with traced.worker(**FAST):
            jobs = [await task.enqueue() for task in (on_loop, in_thread, in_transaction)]
            await traces.until("process leaves", 3)
    request = traces.one("request")
    for job, way in zip(jobs, ("loop", "thread", "transaction"), strict=True):
        send, process, inside = (traces.one(f"{verb} {way}") for verb in ("send", "process", "in"))
        assert is_below(send, request) and is_below(process, send) and is_below(inside, process)
        (leaf_send,) = [span for span in traces.all("send leaves") if is_below(span, inside)]
        (leaf_process,) = [span for span in traces.all("process leaves") if is_below(span, leaf_send)]
        assert of(leaf_process)["holdfast.kind"] == "leaf"
        assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        same = {"messaging.system": "holdfast", "messaging.destination.name": way, "messaging.message.id": str(job.id)}
        assert of(send) == {**same, "messaging.operation.name": "send", "messaging.operation.type": "send"}
        assert of(process) == {
            **same, "messaging.operation.name": "process", "messaging.operation.type": "process",
            "holdfast.kind": f"{'on' if way == 'loop' else 'in'}_{way}", "holdfast.attempt": 1,
            "holdfast.max_attempts": 5, "holdfast.outcome": "completed",
        }  # fmt: skip
        assert headers(inbox, job.id) == {"traceparent": header(send)}
        assert process.status.status_code is StatusCode.UNSET


async def test_every_door_puts_its_span_into_the_headers(traced: Holdfast, traces: Traces, inbox: Inbox) -> None:
    @traced.task
    async def job(n: int) -> None: ...

    @traced.task(queue="other")
    async def other() -> None: ...

    @traced.workflow
    async def flow(flow: Flow) -> None: ...

    sent: list[tuple[ReadableSpan, list[UUID]]] = []

    def note(*jobs: Job, name: str = "send default") -> None:
        ids = [job.job_id if isinstance(job, Instance) else job.id for job in jobs]
        sent.append((traces.all(name)[-1], ids))

    connection = await asyncpg.connect(direct(inbox.url))
    with traces.span("request"):
        note(await job.enqueue(1))
        note(job.enqueue_sync(2))
        note(await flow.start())
        note(*await job.enqueue_many([{"n": 3}, {"n": 4}]))
        note(*await job.enqueue_many([{"n": 5}, {"n": 6}], copy=True))
        note(*await flow.start_many([{}, {}], ids=["a", "b"]))
        async with connection.transaction():
            note(await job.on(connection).enqueue(7))
            note(await flow.on(connection).start())
            note(*await job.on(connection).enqueue_many([{"n": 8}, {"n": 9}]))
            note(*await flow.on(connection).start_many([{}, {}]))
        with psycopg.connect(direct(inbox.url)) as sync:
            note(job.on(sync).enqueue(10))
            note(flow.on(sync).start())
            note(*job.on(sync).enqueue_many([{"n": 11}, {"n": 12}]))
            note(*flow.on(sync).start_many([{}, {}]))
        mixed = [job.job(13), job.options(priority=0).job(14), other.job()]
        note(*await traced.enqueue_many(mixed), name="send")
        assert await job.enqueue_many([]) == []  # nothing is sent
    await connection.close()
    assert len(traces.all("send default")) + len(traces.all("send")) == len({id_of(span) for span, _ in sent}) == 15
    for span, ids in sent:
        assert is_below(span, traces.one("request"))
        assert [headers(inbox, id) for id in ids] == [{"traceparent": header(span)}] * len(ids)
        if len(ids) > 1:
            assert (of(span)["messaging.batch.message_count"], of(span).get("messaging.message.id")) == (len(ids), None)
        else:
            assert of(span)["messaging.message.id"] == str(ids[0])
    assert "messaging.destination.name" not in of(traces.one("send"))


async def test_what_the_caller_says_wins(traced: Holdfast, traces: Traces, inbox: Inbox) -> None:
    @traced.task
    async def job(n: int = 0) -> None: ...

    own = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    mine = await job.options(headers={"traceparent": own}).enqueue()
    batch = await job.options(headers={"traceparent": own}).enqueue_many([{"n": 1}])
    assert headers(inbox, mine.id) == headers(inbox, batch[0].id) == {"traceparent": own}
    beside = await job.options(headers={"tenant": "acme"}).enqueue()
    assert headers(inbox, beside.id) == {"tenant": "acme", "traceparent": header(traces.all("send default")[-1])}
    await drain(traced)
    attempt = traces.all("process default")[0]
    assert attempt.parent is not None and f"{attempt.parent.span_id:x}" == "b" * 16


async def test_a_job_that_was_there_already_is_the_one_that_is_named(traced: Holdfast, traces: Traces) -> None:
    @traced.task
    async def job() -> None: ...

    for _ in range(2):
        first = await job.options(idempotency_key="one").enqueue()
    assert [of(span)["messaging.message.id"] for span in traces.all("send default")] == [str(first.id)] * 2


async def test_without_tracing_headers_are_as_given(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def job(n: int) -> None: ...

    jobs = [await job.enqueue(1), *await job.enqueue_many([{"n": 2}]), *await job.enqueue_many([{"n": 3}], copy=True)]
    assert [headers(inbox, each.id) for each in jobs] == [None] * 3
    await hf.publish("order.paid", {})
    assert inbox.rows("select headers from holdfast.events") == [{"headers": None}]


async def test_a_retry_is_linked_to_the_attempt_before(traced: Holdfast, traces: Traces, inbox: Inbox) -> None:
    @traced.task(max_attempts=3)
    async def flaky(ctx: Context) -> None:
        if ctx.attempt < 3:
            raise ValueError(f"number {ctx.attempt}")

    async with traced.worker(**FAST):
        job = await flaky.enqueue()
        first, second, third = await traces.until("process default", 3)
    send = traces.one("send default")
    assert all(is_below(span, send) for span in (first, second, third))
    assert [linked(span) for span in (first, second, third)] == [[], [id_of(first)], [id_of(second)]]
    assert [of(span)["holdfast.attempt"] for span in (first, second, third)] == [1, 2, 3]
    assert [of(span)["holdfast.outcome"] for span in (first, second, third)] == ["retried", "retried", "completed"]
    assert second.status.status_code is StatusCode.ERROR
    assert second.status.description == "ValueError: number 2"
    (event,) = second.events
    assert event.name == "exception" and event.attributes is not None
    assert (event.attributes["exception.type"], event.attributes["exception.message"]) == ("ValueError", "number 2")
    assert "Traceback" in str(event.attributes["exception.stacktrace"])
    assert third.status.status_code is StatusCode.UNSET
    await until(lambda: inbox.status(job.id) == "completed")
    errors = inbox.one("select errors from holdfast.jobs where id = %s", job.id)
    assert [error["details"]["traceparent"] for error in errors] == [header(first), header(second)]


async def test_how_attempts_end(traced: Holdfast, traces: Traces, inbox: Inbox) -> None:
    began = asyncio.Event()

    @traced.task(max_attempts=1)
    async def dies() -> None:
        raise ValueError("no")

    @traced.task
    async def fails(ctx: TxContext) -> Fail:
        return Fail("there is no such order")

    @traced.task
    async def snoozes(ctx: Context) -> Snooze | None:
        return Snooze("0s") if ctx.generation == 1 else None

    @traced.task(max_attempts=1, timeout="0.1s")
    async def late() -> None:
        await asyncio.sleep(60)

    @traced.task
    async def cancelled() -> None:
        began.set()
        await asyncio.sleep(60)

    async with traced.worker(**FAST):
        for task in (dies, fails, snoozes, late):
            await task.enqueue()
        job = await cancelled.enqueue()
        await began.wait()
        await traced.cancel(job.id)
        await traces.until("process default", 6)
    ends = {(of(span)["holdfast.kind"], of(span)["holdfast.outcome"]): span for span in traces.all("process default")}
    assert {key: (of(span).get("error.type"), span.status.status_code.name) for key, span in ends.items()} == {
        ("dies", "dead_letter"): ("ValueError", "ERROR"),
        ("fails", "failed"): ("Fail", "ERROR"),
        ("snoozes", "snoozed"): (None, "UNSET"),
        ("snoozes", "completed"): (None, "UNSET"),
        ("late", "dead_letter"): ("Timeout", "ERROR"),
        ("cancelled", "cancelled"): (None, "UNSET"),
    }


async def test_what_fails_after_it_was_told_of_its_cancellation_ends_as_cancelled(
    traced: Holdfast, traces: Traces, inbox: Inbox
) -> None:
    """The database neither retries such a job nor makes it a dead letter, and the span says so."""
    began: list[UUID] = []

    @traced.task
    async def stumbles(ctx: Context) -> None:
        began.append(ctx.job_id)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("could not clean up") from None

    async with traced.worker(**FAST):
        jobs = [await stumbles.options(max_attempts=most).enqueue() for most in (1, 5)]
        await until(lambda: len(began) == 2)
        for job in jobs:
            await traced.cancel(job.id)
        spans = await traces.until("process default", 2)
        await until(lambda: all(inbox.status(job.id) == "cancelled" for job in jobs))
    assert [of(span)["holdfast.outcome"] for span in spans] == ["cancelled"] * 2
    assert {(of(span)["error.type"], span.status.status_code.name) for span in spans} == {("ValueError", "ERROR")}


async def test_each_run_of_a_workflow_is_a_span_and_its_children_are_below_it(traced: Holdfast, traces: Traces) -> None:
    async def pay() -> None: ...

    def ship() -> None: ...

    @traced.task(queue="children")
    async def invoice() -> None: ...

    @traced.workflow(queue="flows")
    async def checkout(flow: Flow) -> None:
        await flow.step("pay", pay)
        await flow.child("invoice", invoice)
        await flow.wait("shipped", dict)
        await flow.step("ship", ship)

    async with traced.worker(**FAST):
        await checkout.options(id="one").start()
        await traces.until("process flows", 2)
        await traced.signal("one", "shipped", {})
        runs = await traces.until("process flows", 3)
    first, second, third = runs
    assert all(is_below(run, traces.one("send flows")) for run in runs)
    assert is_below(traces.one("process children"), first)
    assert (of(first)["holdfast.outcome"], of(first)["holdfast.waits"]) == ("parked", ("child:invoice",))
    assert (of(second)["holdfast.outcome"], of(second)["holdfast.waits"]) == ("parked", ("signal:shipped",))
    assert of(third)["holdfast.outcome"] == "completed"


async def test_an_event_carries_its_span_to_the_transport(traced: Holdfast, traces: Traces, inbox: Inbox) -> None:
    sink = Sink()
    traced.relay("*", to=sink, name="bus")
    connection = await asyncpg.connect(direct(inbox.url))
    with traces.span("request"):
        first = await traced.publish("one", {}, headers={"shop": "acme"})
        async with connection.transaction():
            await traced.on(connection).publish("two", {})
        with psycopg.connect(direct(inbox.url)) as sync:
            traced.on(sync).publish("three", {})
        await traced.publish("four", {}, headers={"traceparent": "00-own"})
    await connection.close()
    async with traced.worker(**FAST):
        await until(lambda: len(sink.messages) == 4)
    carried = {message.type: message.headers for message in sink.messages}
    one, two, three = (traces.one(f"publish {name}") for name in ("one", "two", "three"))
    assert all(is_below(span, traces.one("request")) for span in (one, two, three))
    assert carried == {
        "one": {"shop": "acme", "traceparent": header(one)},
        "two": {"traceparent": header(two)},
        "three": {"traceparent": header(three)},
        "four": {"traceparent": "00-own"},
    }
    assert of(one) == {
        "messaging.system": "holdfast", "messaging.destination.name": "one", "messaging.operation.name": "publish",
        "messaging.operation.type": "send", "messaging.message.id": str(first.id),
    }  # fmt: skip


class Dashed(TextMapPropagator):
    """A form of its own, whose header cannot be an attribute of CloudEvents."""

    @property
    def fields(self) -> set[str]:
        return {"x-trace-id"}

    def inject(self, carrier: Any, context: Any = None, setter: Any = default_setter) -> None:
        setter.set(carrier, "x-trace-id", "7")

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
        return context


async def test_the_headers_are_those_of_the_chosen_propagator(
    traced: Holdfast, traces: Traces, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    @traced.task
    async def job() -> None: ...

    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", None)  # restored, whatever is set
    propagate.set_global_textmap(CompositePropagator([TraceContextTextMapPropagator(), Dashed()]))
    sent = await job.enqueue()
    assert headers(inbox, sent.id) == {"traceparent": header(traces.one("send default")), "x-trace-id": "7"}
    await traced.publish("paid", {})
    kept = inbox.one("select headers from holdfast.events")
    assert kept == {"traceparent": header(traces.one("publish paid"))}
    propagate.set_global_textmap(W3CBaggagePropagator())  # knows no spans, and would go on with the current context
    with traces.span("another"):
        await drain(traced)
    assert traces.one("process default").parent is None


async def test_linked_attempts_begin_their_own_traces(hf: Holdfast, traces: Traces) -> None:
    instrument(hf, tracer_provider=traces.provider, linked=True)

    @hf.task
    async def job() -> None: ...

    await job.enqueue()
    await drain(hf)
    send, process = traces.one("send default"), traces.one("process default")
    assert process.parent is None and linked(process) == [id_of(send)]
    assert process.context is not None and send.context is not None
    assert process.context.trace_id != send.context.trace_id


@pytest.mark.parametrize("stored", ['{"traceparent": 5, "holdfast.previous": []}', "[1]", '{"traceparent": "00-x"}'])
async def test_headers_that_make_no_sense_begin_a_trace(
    traced: Holdfast, traces: Traces, inbox: Inbox, stored: str
) -> None:
    @traced.task
    async def job() -> None: ...

    sent = await job.options(headers={"traceparent": "00-x"}).enqueue()
    inbox.rows("update holdfast.inbox set headers = %s::text::jsonb where id = %s", stored, sent.id)
    with traces.span("another"):  # which is not its parent
        await drain(traced)
    attempt = traces.one("process default", outcome="completed")
    assert attempt.parent is None and linked(attempt) == []


async def test_an_enqueue_that_fails_is_an_error(traced: Holdfast, traces: Traces) -> None:
    @traced.task
    async def job(n: int) -> None: ...

    with pytest.raises(ValueError):
        await job.enqueue_many([{"n": "one"}])
    assert traces.one("send default").status.status_code is StatusCode.ERROR


def test_it_is_traced_once() -> None:
    hf = Holdfast()
    instrument(hf)
    with pytest.raises(ConfigurationError, match="traced already"):
        instrument(hf)


def test_from_one_process_to_the_next(fleet: Fleet, inbox: Inbox, tmp_path: Path) -> None:
    file = tmp_path / "spans"
    file.touch()
    worker = fleet.start(app="tests.apps.traced:hf", environment={"TRACES_FILE": str(file)})
    parent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    sql = "select holdfast.enqueue('apart', '{\"number\": 7}', headers => jsonb_build_object('traceparent', %s::text))"
    inbox.one(sql, parent)

    def spans() -> dict[Any, dict[str, Any]]:
        found = [json.loads(line) for line in file.read_text().splitlines()]
        return {(span["name"], span["attributes"].get("holdfast.kind")): span for span in found}

    wait_until(lambda: len(spans()) == 4)
    found = spans()
    apart = found["process default", "apart"]
    own, send = found["in its own process", None], found["send default", None]
    after = found["process default", "after"]
    assert {span["trace"] for span in found.values()} == {int("a" * 32, 16)}
    assert apart["parent"] == int("b" * 16, 16)
    assert own["parent"] == apart["id"] and send["parent"] == own["id"] and after["parent"] == send["id"]
    assert apart["pid"] == after["pid"] == worker.child
    assert own["pid"] == send["pid"] != worker.child
