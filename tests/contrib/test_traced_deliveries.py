"""Deliveries of the relay, as spans of the real SDK."""

from typing import Any

import asyncpg
from opentelemetry.trace import SpanKind, StatusCode
from tests.outbox.conftest import Sink
from tests.support.brokers import fresh
from tests.support.brokers.nats import NatsServer
from tests.support.hooks import SECRET, serving
from tests.support.pooler import direct
from tests.support.spans import Traces, header, id_of, is_below, linked, of
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Backoff, Context, Event, Flow, Holdfast
from holdfast.contrib.otel import instrument
from holdfast.model.event import Delivered, Postponed, Refused, Verdict
from holdfast.transports.nats import Nats, NatsConsumer
from holdfast.webhooks import Webhooks

FAST: dict[str, Any] = {"concurrency": 4, "lease": 5, "housekeeping": 0.2, "poll": 0.05}


async def test_a_delivery_is_below_the_publish_and_the_message_keeps_its_context(
    traced: Holdfast, traces: Traces
) -> None:
    sink = Sink()
    traced.relay("*", to=sink, name="bus")
    event = await traced.publish("order.paid", {})
    with traces.span("another"):  # in which the worker happens to be started
        async with traced.worker(**FAST):
            (delivery,) = await traces.until("deliver bus", 1)
    publish = traces.one("publish order.paid")
    assert is_below(delivery, publish)
    assert sink.messages[0].headers == {"traceparent": header(publish)}
    assert delivery.kind is SpanKind.CLIENT, "it is not what receivers go on from"
    assert delivery.status.status_code is StatusCode.UNSET
    assert of(delivery) == {
        "messaging.system": "holdfast", "messaging.destination.name": "bus", "messaging.operation.name": "deliver",
        "messaging.operation.type": "send", "messaging.message.id": str(event.id), "holdfast.route": "bus",
        "holdfast.transport": "sink", "holdfast.attempt": 1, "holdfast.verdict": "delivered",
    }  # fmt: skip


async def test_an_event_without_a_trace_begins_one_with_its_delivery(
    traced: Holdfast, traces: Traces, inbox: Inbox
) -> None:
    sink = Sink()
    traced.relay("*", to=sink, name="bus")
    await traced.publish("declares.the.route", {}, headers={"traceparent": "00-own"})
    connection = await asyncpg.connect(direct(inbox.url))
    await connection.execute("select holdfast.publish('from.sql', '{}', headers => '{\"shop\": \"acme\"}')")
    await connection.close()
    async with traced.worker(**FAST):
        await traces.until("deliver bus", 2)
    carried = {message.type: message.headers for message in sink.messages}
    spans = {span.kind: span for span in traces.all("deliver bus")}
    begins = spans[SpanKind.PRODUCER]
    assert begins.parent is None
    assert carried["from.sql"] == {"shop": "acme", "traceparent": header(begins)}
    assert carried["declares.the.route"] == {"traceparent": "00-own"}, "what the caller says wins"


async def test_verdicts(traced: Holdfast, traces: Traces, inbox: Inbox) -> None:
    sink = Sink()
    answers: dict[str, list[Verdict | None]] = {
        "refused": [Refused(reason="not today", details={"code": 7}), Delivered()],
        "postponed": [Postponed(reason="later", delay=0.01), Delivered()],
        "lost": [None, Delivered()],
    }
    sink.judge = lambda message: answers[message.type].pop(0)
    sink.batch = 1
    traced.relay("*", to=sink, name="bus", retry=Backoff(base=0.01, cap=0.01))
    events = {str((await traced.publish(type, {})).id): type for type in answers}
    async with traced.worker(**FAST):
        await traces.until("deliver bus", 6)
    found: dict[str, list[Any]] = {type: [] for type in answers}
    for span in traces.all("deliver bus"):
        attributes = of(span)
        status = span.status.description if span.status.status_code is StatusCode.ERROR else None
        found[events[attributes["messaging.message.id"]]].append((attributes["holdfast.verdict"], status))
    assert found == {
        "refused": [("refused", "Refused: not today"), ("delivered", None)],
        "postponed": [("postponed", None), ("delivered", None)],
        "lost": [("unknown", "ConnectionResetError: lost"), ("delivered", None)],
    }
    refused = next(span for span in traces.all("deliver bus") if of(span)["holdfast.verdict"] == "refused")
    await until(lambda: not inbox.one("select count(*) from holdfast.inbox"))
    (errors,) = inbox.rows("select errors from holdfast.jobs where errors is not null and errors <> '[]'")
    (error,) = errors["errors"]
    assert error["details"] == {"code": 7, "traceparent": header(refused)}


async def test_a_transport_that_says_nothing(traced: Holdfast, traces: Traces) -> None:
    class Silent(Sink):
        async def send(self, batch: Any, settle: Any) -> None:
            if self.sending:
                await super().send(batch, settle)
            self.sending += 1

    traced.relay("*", to=Silent(), name="bus")
    await traced.publish("order.paid", {})
    async with traced.worker(**FAST):
        silent, delivered = await traces.until("deliver bus", 2)
    assert (of(silent)["holdfast.verdict"], of(silent)["error.type"]) == ("unknown", "ConnectionLost")
    assert of(delivered)["holdfast.verdict"] == "delivered"


async def test_linked_deliveries_begin_their_own_traces(hf: Holdfast, traces: Traces) -> None:
    instrument(hf, tracer_provider=traces.provider, linked=True)
    sink = Sink()
    hf.relay("*", to=sink, name="bus")
    await hf.publish("order.paid", {})
    async with hf.worker(**FAST):
        (delivery,) = await traces.until("deliver bus", 1)
    publish = traces.one("publish order.paid")
    assert delivery.parent is None and linked(delivery) == [id_of(publish)]
    assert sink.messages[0].headers == {"traceparent": header(publish)}


async def test_a_webhook_names_its_endpoint(traced: Holdfast, traces: Traces) -> None:
    webhooks = Webhooks(allow_private=True, allow_http=True, ports=None)
    traced.relay("*", to=webhooks, name="webhooks")
    async with serving(traced.receiver(source="shop", secrets=[SECRET])) as url:
        endpoint = await traced.add_endpoint(url, secret=SECRET, policy=webhooks.policy)
        await traced.publish("order.paid", {})
        async with traced.worker(**FAST):
            (delivery,) = await traces.until("deliver webhooks", 1)
    assert is_below(delivery, traces.one("publish order.paid"))
    attributes = of(delivery)
    assert attributes["holdfast.endpoint"] == str(endpoint.id)
    assert (attributes["holdfast.verdict"], attributes["holdfast.transport"]) == ("delivered", "webhook endpoints")


async def test_from_one_service_through_nats_to_another(
    traced: Holdfast, traces: Traces, second_url: str, nats_server: NatsServer
) -> None:
    import nats

    stream = fresh("trace")
    client = await nats.connect(nats_server.url)
    await client.jetstream().add_stream(name=stream, subjects=[f"{stream}.>"])
    await client.close()
    shop = traced
    shop.relay("order.*", to=Nats(nats_server.url, subject=f"{stream}.{{type}}"), name="bus")

    theirs = Traces()  # of another service: nothing is shared but the broker
    billing = Holdfast(second_url)
    instrument(billing, tracer_provider=theirs.provider)
    billing.consume(NatsConsumer(nats_server.url, stream, "billing"), source="shop")

    @billing.task(queue="mail")
    async def receipt() -> None: ...

    async def write(event: str) -> None:
        with theirs.span("writes"):
            await receipt.enqueue()

    @billing.workflow(queue="invoices")
    async def invoice(flow: Flow, event: str) -> None:
        await flow.step("write", write, event)

    @billing.on_event("order.paid", source="shop", queue="orders")
    async def paid(ctx: Context, event: Event[dict[str, Any]]) -> None:
        await invoice.start(event=event.id)

    with traces.span("POST /orders"):
        await shop.publish("order.paid", {"n": 1})
    try:
        async with shop.worker(**FAST), billing.worker(**FAST):
            await theirs.until("process mail", 1)
            await traces.until("deliver bus", 1)
    finally:
        await billing.close()
    request, publish, deliver = (traces.one(name) for name in ("POST /orders", "publish order.paid", "deliver bus"))
    assert is_below(publish, request) and is_below(deliver, publish)
    names = ["process orders", "send invoices", "process invoices", "step write", "writes", "send mail", "process mail"]
    handled = [theirs.one(name) for name in names]
    for above, below in zip([publish, *handled], handled, strict=False):
        assert is_below(below, above)
    assert request.context is not None
    trace = request.context.trace_id
    assert {span.context.trace_id for span in (*traces.everything(), *theirs.everything()) if span.context} == {trace}
