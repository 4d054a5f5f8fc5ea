"""A traced application, and its spans."""

import pytest
from tests.support.spans import Traces

from holdfast import Holdfast
from holdfast.contrib.otel import instrument


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.fixture
def traced(hf: Holdfast, traces: Traces) -> Holdfast:
    instrument(hf, tracer_provider=traces.provider)
    return hf
