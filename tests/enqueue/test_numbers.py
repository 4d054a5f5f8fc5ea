"""A float that goes into the database comes out as the same float, though jsonb keeps decimals and no floats (P17)."""

import math
import struct
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.pure.test_payload import anything, stored
from tests.support.pooler import direct

from holdfast import Holdfast
from holdfast.model.payload import encode_value

app = Holdfast("postgresql://nobody@nowhere/none")


@app.task
def measured(value: float) -> None: ...


@pytest.fixture(scope="module")
def connection(shared_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(direct(shared_url), autocommit=True) as opened:
        yield opened


def bits(value: Any) -> tuple[type, bytes]:
    return type(value), struct.pack("d", value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: bits(value) != bits(-0.0)))
@example(1e15)
@example(1e16)
@example(-1e16)
@example(1.7976931348623157e308)
@example(5e-324)
def test_every_finite_float_comes_back(connection: psycopg.Connection[Any], value: float) -> None:
    for task in (anything, measured):
        row = connection.execute("select %s::jsonb::text", [stored(task, value)]).fetchone()
        assert row is not None
        assert bits(task._definition.decode(row[0], 1)["value"]) == bits(value)


def test_minus_zero_comes_back_as_zero(connection: psycopg.Connection[Any]) -> None:
    """The one float that jsonb cannot hold; the two are equal."""
    row = connection.execute("select %s::jsonb::text", [stored(anything, -0.0)]).fetchone()
    assert row is not None
    value = anything._definition.decode(row[0], 1)["value"]
    assert (value, math.copysign(1, value)) == (0.0, 1.0)


def test_a_large_float_deep_inside_and_in_a_result(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute("select %s::jsonb::text", [encode_value("result", {"a": [1, (2e20,)]})]).fetchone()
    assert row == ('{"a": [1, [200000000000000000000.0]]}',)
