"""OpenTelemetry traces of a Holdfast application: a span for each enqueue, and one for each attempt below it.

    send mail            the enqueue; its context goes into the headers of the job, as `traceparent`
    ├── process mail     an attempt, in any worker, later
    └── process mail     the next one; linked to the one before

The names follow OpenTelemetry's conventions for messaging, which are still in development. Those used here are fixed:
they change with a release of Holdfast, and not with one of OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import msgspec
from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..app import Holdfast
from ..errors import ConfigurationError
from ..model.flow import AnyOutcome, FlowEnd, Parked
from ..model.job import Claim
from ..model.outcome import AttemptFailed, Completed, Ended, Final, HandedBack, Lost, Snoozed
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

_W3C = TraceContextTextMapPropagator()


def instrument(hf: Holdfast, *, tracer_provider: TracerProvider | None = None, linked: bool = False) -> None:
    """Trace everything that this application sends, and every attempt that its workers run.

    Call it once, in the module that makes `hf`: workers import that. `tracer_provider`: instead of the global one.
    With `linked`, each attempt begins a trace of its own, with a link to the enqueue, instead of being a part of the
    caller's trace.

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
        context = propagate.extract(headers, Context())
        links = [Link(before)] if (before := _span_context(headers.get(PREVIOUS))) is not None else []
        if self._linked:
            sent = trace.get_current_span(context).get_span_context()
            links += [Link(sent)] if sent.is_valid else []
            context = trace.set_span_in_context(trace.INVALID_SPAN, context)
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

    def resume(self, carried: Mapping[str, str]) -> None:
        contexts.attach(propagate.extract(carried, Context()))


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

    def ended(self, outcome: AnyOutcome | None) -> AnyOutcome | None:
        span, end = self._span, outcome.end if isinstance(outcome, FlowEnd) else outcome
        match end:
            case None:
                return outcome
            case Completed():
                how = "completed"
            case Snoozed():
                how = "snoozed"
            case HandedBack():
                how = "handed_back"
            case Parked():
                how = "parked"
                span.set_attribute(WAITS, list(end.waits))
            case Lost():
                how = "lost"
                self._fails("LeaseLost", "another worker may own the job")
            case Ended():
                how = end.status.value
                if end.status is Final.FAILED:
                    self._fails("Fail", end.reason)
            case AttemptFailed():
                last = end.give_up or self._claim.attempt >= self._claim.max_attempts
                how = "dead_letter" if last else "retried"
                self._fails(end.error, end.message)
                span.add_event("exception", _exception(end))
                outcome = self._named_in(end)
        span.set_attribute(OUTCOME, how)
        return outcome

    def _fails(self, error: str, message: str) -> None:
        self._span.set_attribute(ERROR_TYPE, error)
        self._span.set_status(Status(StatusCode.ERROR, f"{error}: {message}"))

    def _named_in(self, failed: AttemptFailed) -> AttemptFailed:
        """The failure, with this span among its details: the next attempt links to it, and people find the trace."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        if TRACEPARENT not in carrier:
            return failed
        return replace(failed, details={**(failed.details or {}), TRACEPARENT: carrier[TRACEPARENT]})


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
