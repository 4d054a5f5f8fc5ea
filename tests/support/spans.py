"""Spans of the real SDK, and how they belong together."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.waiting import until


class Traces:
    """What was traced."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self._tracer = self.provider.get_tracer("shop")

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A span of the application's own."""
        with self._tracer.start_as_current_span(name):
            yield

    def everything(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())

    def all(self, name: str) -> list[ReadableSpan]:
        """Those of a name, the first to begin first."""
        found = [span for span in self.everything() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def one(self, name: str, **attributes: Any) -> ReadableSpan:
        """The only one of a name, and of these attributes of ours."""
        wanted = {f"holdfast.{key}": value for key, value in attributes.items()}
        (found,) = [span for span in self.all(name) if wanted.items() <= of(span).items()]
        return found

    async def until(self, name: str, number: int) -> list[ReadableSpan]:
        await until(lambda: len(self.all(name)) >= number)
        return self.all(name)


def of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def header(span: ReadableSpan) -> str:
    """As W3C writes it."""
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def is_below(span: ReadableSpan, other: ReadableSpan) -> bool:
    assert span.context is not None and other.context is not None
    same = span.context.trace_id == other.context.trace_id
    return same and span.parent is not None and span.parent.span_id == other.context.span_id


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)
