"""A traced application whose spans go to a file, from whatever process they are."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from holdfast import Holdfast
from holdfast.contrib.otel import instrument


class ToFile(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with Path(os.environ["TRACES_FILE"]).open("a") as file:
            for span in spans:
                assert span.context is not None
                line = {
                    "name": span.name, "pid": os.getpid(), "id": span.context.span_id, "trace": span.context.trace_id,
                    "parent": span.parent.span_id if span.parent else None, "attributes": dict(span.attributes or {}),
                }  # fmt: skip
                file.write(json.dumps(line) + "\n")
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ToFile()))
trace.set_tracer_provider(provider)
hf = Holdfast()
instrument(hf)
tracer = trace.get_tracer("shop")


@hf.task(process=True)
def apart(number: int) -> None:
    with tracer.start_as_current_span("in its own process"):
        after.enqueue_sync(number)


@hf.task
async def after(number: int) -> None:
    assert number == 7
