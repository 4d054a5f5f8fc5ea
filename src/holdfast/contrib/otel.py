"""OpenTelemetry traces of a Holdfast application: a span for each enqueue, and one for each attempt below it.

    send mail            the enqueue; its context goes into the headers of the job, as `traceparent`
    ├── process mail     an attempt, in any worker, later
    └── process mail     the next one; linked to the one before

    publish order.paid   the event; its headers carry this context to every receiver
    ├── deliver bus      an attempt of a delivery, by the relay
    └── process orders   the handler, in another service

The names follow OpenTelemetry's conventions for messaging, which are still in development. Those used here are fixed:
they change with a release of Holdfast, and not with one of OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, assert_never
from uuid import UUID

import msgspec
from msgspec.structs import replace
from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..app import Holdfast
from ..errors import ConfigurationError
from ..model.event import Delivered, Message, Postponed, Refused, Verdict, with_headers
from ..model.flow import UNDO_PREFIX, AnyOutcome, FlowEnd, Parked
from ..model.job import Claim
from ..model.outcome import AttemptFailed, Completed, Ended, Final, HandedBack, Lost, Outcome, Snoozed
from ..model.tracing import PREVIOUS, TRACEPARENT
from ..version import __version__

SYSTEM = "messaging.system"
DESTINATION = "messaging.destination.name"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
MESSAGE_ID = "messaging.message.id"
BATCH_COUNT = "messaging.batch.message_count"
ERROR_TYPE = "error.type"
KIND = "holdfast.kind"
ATTEMPT = "holdfast.attempt"
MAX_ATTEMPTS = "holdfast.max_attempts"
OUTCOME = "holdfast.outcome"
WAITS = "holdfast.waits"
STEP = "holdfast.step"
ROUTE = "holdfast.route"
TRANSPORT = "holdfast.transport"
ENDPOINT = "holdfast.endpoint"
VERDICT = "holdfast.verdict"

_W3C = TraceContextTextMapPropagator()


def instrument(hf: Holdfast, *, tracer_provider: TracerProvider | None = None, linked: bool = False) -> None:
    """Trace everything that this application sends, and every attempt, step and delivery of its workers.

    Call it once, in the module that makes `hf`: workers import that. `tracer_provider`: instead of the global one.
    With `linked`, each attempt and delivery begins a trace of its own, with a link to the enqueue or the event, instead
    of being a part of the caller's trace.

    ```python
    from holdfast.contrib.otel import instrument

    instrument(hf)
    ```
    """
    if hf._tracing is not None:
        raise ConfigurationError("instrument: this Holdfast is traced already; call it once, where hf is made")
    hf._tracing = Traces(tracer_provider, linked)


class Traces:
    """See `model.tracing.Tracing`."""

    def __init__(self, tracer_provider: TracerProvider | None, linked: bool) -> None:
        self._tracer = trace.get_tracer("holdfast", __version__, tracer_provider)
        self._linked = linked

    @contextmanager
    def sending(
        self, operation: str, destination: str | None, number: int | None, id: UUID | None
    ) -> Iterator[SendingSpan]:
        attributes: dict[str, Any] = {SYSTEM: "holdfast", OPERATION_NAME: operation, OPERATION_TYPE: "send"}
        if destination is not None:
            attributes[DESTINATION] = destination
        if number is not None:
            attributes[BATCH_COUNT] = number
        if id is not None:
            attributes[MESSAGE_ID] = str(id)
        name = operation if destination is None else f"{operation} {destination}"
        with self._tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes) as span:
            yield SendingSpan(span, id)

    @contextmanager
    def attempt(self, claim: Claim) -> Iterator[AttemptSpan]:
        headers = _headers(claim)
        # Not on top of the current context: a worker inside an application may have been started within a span.
        context, links = self._below(propagate.extract(headers, Context()))
        if (before := _span_context(headers.get(PREVIOUS))) is not None:
            links.insert(0, Link(before))
        attributes: dict[str, Any] = {
            SYSTEM: "holdfast", DESTINATION: claim.queue, OPERATION_NAME: "process", OPERATION_TYPE: "process",
            MESSAGE_ID: str(claim.id), KIND: claim.kind, ATTEMPT: claim.attempt, MAX_ATTEMPTS: claim.max_attempts,
        }  # fmt: skip
        token = contexts.attach(context)
        try:
            with self._tracer.start_as_current_span(
                f"process {claim.queue}", kind=SpanKind.CONSUMER, attributes=attributes, links=links
            ) as span:
                yield AttemptSpan(span, claim)
        finally:
            contexts.detach(token)

    @contextmanager
    def step(self, claim: Claim, name: str, shown: str, attempt: int) -> Iterator[StepSpan]:
        attributes: dict[str, Any] = {KIND: claim.kind, STEP: shown, ATTEMPT: attempt}
        with self._tracer.start_as_current_span(
            _step_name(name), attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            yield StepSpan(span)

    def delivery(self, route: str, transport: str, message: Message) -> DeliverySpan:
        context, links = self._below(propagate.extract(message.headers, Context()))
        attributes: dict[str, Any] = {
            SYSTEM: "holdfast", DESTINATION: route, OPERATION_NAME: "deliver", OPERATION_TYPE: "send",
            MESSAGE_ID: message.event_id, ROUTE: route, TRANSPORT: transport, ATTEMPT: message.attempt,
        }  # fmt: skip
        if message.destination is not None:
            attributes[ENDPOINT] = message.destination
        # As the conventions say: the context that a message carries is that of its creation, and is not changed. Only
        # if it has none, this span gives it one, as a producer does; otherwise it is the client of a destination.
        begins = message.headers.keys().isdisjoint(propagate.get_global_textmap().fields)
        kind = SpanKind.PRODUCER if begins else SpanKind.CLIENT
        span = self._tracer.start_span(f"deliver {route}", context, kind, attributes, links)
        return DeliverySpan(span, _carrying(message, span) if begins else message)

    def resume(self, carried: Mapping[str, str]) -> None:
        contexts.attach(propagate.extract(carried, Context()))

    def _below(self, context: Context) -> tuple[Context, list[Link]]:
        """Where a span begins that continues this context, and what it is linked to."""
        if not self._linked:
            return context, []
        sent = trace.get_current_span(context).get_span_context()
        return trace.set_span_in_context(trace.INVALID_SPAN, context), [Link(sent)] if sent.is_valid else []


class SendingSpan:
    """See `model.tracing.Sending`."""

    def __init__(self, span: Span, id: UUID | None) -> None:
        self._span = span
        self._id = id
        self.headers = _injected()

    def stored(self, id: UUID) -> None:
        if id != self._id:
            self._span.set_attribute(MESSAGE_ID, str(id))


class AttemptSpan:
    """See `model.tracing.Attempt`."""

    def __init__(self, span: Span, claim: Claim) -> None:
        self._span = span
        self._claim = claim

    def carry(self) -> dict[str, str]:
        return _injected()

    def ended(self, outcome: AnyOutcome | None, cancelled: bool = False) -> AnyOutcome | None:
        span, end = self._span, outcome.end if isinstance(outcome, FlowEnd) else outcome
        match end:
            case None:
                return outcome
            case Parked():
                how = "parked"
                span.set_attribute(WAITS, list(end.waits))
            case AttemptFailed():
                last = end.give_up or self._claim.attempt >= self._claim.max_attempts
                how = "cancelled" if cancelled else "dead_letter" if last else "retried"  # as fail_attempts decides
                _failed(span, end)
                # With this span among its details: the next attempt links to it, and people find the trace.
                outcome = replace(end, details={**(end.details or {}), **_named(span)})
            case _:
                how = _ended(span, end)
        span.set_attribute(OUTCOME, how)
        return outcome


class StepSpan:
    """See `model.tracing.Step`."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def ended(self, outcome: Outcome) -> None:
        if isinstance(outcome, AttemptFailed):
            _failed(self._span, outcome)
            how = "failed"  # whether it is retried is decided later: the run tells
        else:
            how = _ended(self._span, outcome)
        self._span.set_attribute(OUTCOME, how)


class DeliverySpan:
    """See `model.tracing.Delivery`."""

    def __init__(self, span: Span, message: Message) -> None:
        self._span = span
        self.message = message

    def settled(self, verdict: Verdict) -> Verdict:
        match verdict:
            case Delivered():
                how = "delivered"
            case Postponed():
                how = "postponed"
            case Refused():
                how = "refused"
                _fails(self._span, "Refused", verdict.reason)
                verdict = msgspec.structs.replace(verdict, details={**verdict.details, **_named(self._span)})
            case _:
                assert_never(verdict)
        self._end(how)
        return verdict

    def unknown(self, error: BaseException | None) -> None:
        name = "ConnectionLost" if error is None else type(error).__name__
        _fails(self._span, name, "the transport did not say what became of it" if error is None else str(error))
        self._end("unknown")

    def _end(self, verdict: str) -> None:
        self._span.set_attribute(VERDICT, verdict)
        self._span.end()


def _ended(span: Span, end: Completed | Ended | Snoozed | HandedBack | Lost) -> str:
    """How something ended that did not fail, in one word; what is an error nevertheless is marked."""
    match end:
        case Completed():
            return "completed"
        case Snoozed():
            return "snoozed"
        case HandedBack():
            return "handed_back"
        case Lost():
            _fails(span, "LeaseLost", "another worker may own the job")
            return "lost"
        case Ended():
            if end.status is Final.FAILED:
                _fails(span, "Fail", end.reason)
            return end.status.value


def _failed(span: Span, failed: AttemptFailed) -> None:
    _fails(span, failed.error, failed.message)
    span.add_event("exception", _exception(failed))


def _fails(span: Span, error: str, message: str) -> None:
    span.set_attribute(ERROR_TYPE, error)
    span.set_status(Status(StatusCode.ERROR, f"{error}: {message}"))


def _named(span: Span) -> dict[str, str]:
    """The span, as details of a failure name it; nothing if it has no id."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span, Context()))
    return {TRACEPARENT: carrier[TRACEPARENT]} if TRACEPARENT in carrier else {}


def _step_name(name: str) -> str:
    """Without the key that a step may have: names of spans are few."""
    verb = "undo" if name.startswith(UNDO_PREFIX) else "step"
    return f"{verb} {name.removeprefix(UNDO_PREFIX).partition('[')[0]}"


def _carrying(message: Message, span: Span) -> Message:
    """The message with the context of this span."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, trace.set_span_in_context(span, Context()))
    return msgspec.structs.replace(message, headers=with_headers(message.headers, carrier))


def _headers(claim: Claim) -> dict[str, str]:
    """What of its headers is text: SQL can store anything, and no header may keep an attempt from running."""
    found = msgspec.json.decode(claim.headers) if claim.headers else None
    return {name: value for name, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _exception(failed: AttemptFailed) -> dict[str, str]:
    found = {"exception.type": failed.error, "exception.message": failed.message, "exception.stacktrace": failed.trace}
    return {name: text for name, text in found.items() if text}


def _injected() -> dict[str, str]:
    """The headers of the current span, in the form that the application has chosen."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


def _span_context(traceparent: str | None) -> SpanContext | None:
    if traceparent is None:
        return None
    found = trace.get_current_span(_W3C.extract({TRACEPARENT: traceparent}, Context())).get_span_context()
    return found if found.is_valid else None


__all__ = ["instrument"]
