"""The options of `on()`, durations, names and keys: refused by name, before anything is sent."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from holdfast import ConfigurationError, EnqueueOptions, Holdfast, InvalidInput
from holdfast.making import Maker
from holdfast.model.durations import seconds
from holdfast.model.limits import check_schema

app = Holdfast("postgresql://nobody@nowhere/none")


@app.task
def send(order_id: int) -> None: ...


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "key too long": ({"key": "é" * 257}, "key", "1 to 512 bytes of UTF-8, got 514"),
    "empty key": ({"key": ""}, "key", "1 to 512"),
    "key that is a number": ({"key": 9182}, "key", "expected text, got int"),
    "NUL in a key": ({"key": "a\0"}, "key", "NUL"),
    "surrogate in a key": ({"key": "\ud800"}, "key", "surrogate"),
    "idempotency key too long": ({"idempotency_key": "x" * 513}, "idempotency_key", "got 513"),
    "naive instant": ({"at": datetime(2030, 1, 1)}, "at", "no time zone"),  # noqa: DTZ001 - the point
    "instant as text": ({"at": "2030-01-01"}, "at", "expected a datetime"),
    "priority too high": ({"priority": 4}, "priority", "from 0 to 3, got 4"),
    "priority as a boolean": ({"priority": True}, "priority", "got True"),
    "no attempts": ({"max_attempts": 0}, "max_attempts", "got 0"),
    "negative delay": ({"delay": -1}, "delay", "zero or more"),
    "delay without a unit": ({"delay": "5"}, "delay", "such as '90s'"),
    "endless delay": ({"delay": 1e300}, "delay", "at most 36500d"),
    "whole number beyond floats": ({"delay": 10**400}, "delay", "10000"),
    "delay and at": ({"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "delay", "not both"),
    "id as text": ({"id": str(UUID(int=1))}, "id", "expected a UUID, got str"),
    "headers of numbers": ({"headers": {"a": 1}}, "headers", "got a int"),
    "queue too long": ({"queue": "x" * 129}, "queue", "1 to 128"),
}


@pytest.mark.parametrize(("options", "field", "word"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_option_is_refused_by_name(options: dict[str, Any], field: str, word: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Maker(app.limits, send._definition, cast(EnqueueOptions, options)).one((1,), {})
    assert refused.value.field == field
    assert word in str(refused.value)


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    options: dict[str, Any] = {"prio": 1}
    with pytest.raises(
        InvalidInput, match=r"prio: is not an option of options.*key, delay, at, queue, priority"
    ) as refused:
        send.options(**options)
    assert refused.value.field == "prio"
    with pytest.raises(InvalidInput, match=r"prio: is not an option of on\(\)"):
        send.on(object(), **options)


def test_on_needs_a_connection() -> None:
    with pytest.raises(InvalidInput, match=r"connection: on\(\) needs one; for options alone, write task.options"):
        send.on(None, key="k")


async def test_one_key_cannot_stand_for_many() -> None:
    with pytest.raises(InvalidInput, match="idempotency_keys"):
        await send.options(idempotency_key="a").enqueue_many([{"order_id": 1}])
    with pytest.raises(InvalidInput, match="expected one for each of 2 jobs, got 1"):
        await send.enqueue_many([{"order_id": 1}, {"order_id": 2}], idempotency_keys=["a"])
    with pytest.raises(InvalidInput, match="copy: COPY cannot"):
        await send.enqueue_many([{"order_id": 1}], idempotency_keys=["a"], copy=True)


def test_options_add_up() -> None:
    chosen = send.options(key="a").options(delay="5m")
    assert chosen._options == {"key": "a", "delay": "5m"}
    assert send._options == {}


@pytest.mark.parametrize(
    ("written", "meant"),
    [("90s", 90), ("5m", 300), ("1h30m", 5400), ("1h 30m", 5400), ("250ms", 0.25), ("1.5d", 129600), (2, 2), (0.5, 0.5),
     (timedelta(minutes=1), 60), ("36500d", 36500 * 86400)],
)  # fmt: skip
def test_durations(written: Any, meant: float) -> None:
    assert seconds(written) == meant


@pytest.mark.parametrize("written", ["", "5 minutes", "m5", "-5m", "5m!", None, [], float("nan"), True])
def test_what_is_no_duration(written: Any) -> None:
    with pytest.raises(InvalidInput, match="timeout: expected a duration"):
        seconds(written, "timeout")


@pytest.mark.parametrize("name", ["", "Holdfast", "a-b", "a.b", 'a"', "x" * 42, "é", "1a", "a\n"])
def test_a_schema_is_a_plain_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="schema: expected a lower-case name"):
        check_schema(name)
