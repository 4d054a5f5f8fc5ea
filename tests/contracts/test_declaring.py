"""Declaring event types: what is accepted, and what each mistake says."""

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from tests.contracts.support import STYLES, declare

from holdfast import ConfigurationError, Holdfast, InvalidInput


@pytest.fixture
def hf() -> Holdfast:
    return Holdfast()


@pytest.mark.parametrize("style", STYLES)
def test_a_type_is_found_by_its_name_and_version(hf: Holdfast, style: str) -> None:
    python = declare(hf, style, {"order_id": int}, version=2)
    (key,) = hf._event_types
    assert key == ("order.paid", 2)
    found = hf._event_types["order.paid", 2]
    assert (found.type, found.version, found.python) == ("order.paid", 2, python)
    assert found.schema["properties"]["order_id"]["type"] == "integer"  # type: ignore[index]
    assert hf._event_types.versions("order.paid") == [2]


def test_the_class_is_returned(hf: Holdfast) -> None:
    @hf.event("order.paid")
    class OrderPaid(msgspec.Struct):
        order_id: int

    assert OrderPaid(1).order_id == 1
    declared = hf._event_types.of_class(OrderPaid)
    assert declared is not None
    assert (declared.version, repr(declared)) == (1, "<EventType order.paid version 1>")


def test_a_type_and_version_is_declared_once(hf: Holdfast) -> None:
    declare(hf, "msgspec", {"a": int})
    declare(hf, "dataclass", {"a": int}, version=3)
    with pytest.raises(
        ConfigurationError, match=r"order.paid version 1 is already declared by Order; pass version=4 if"
    ):
        declare(hf, "pydantic", {"a": int})
    with pytest.raises(
        ConfigurationError, match=r"order.paid version 1 is already declared by Order; pass version=4 if"
    ):
        declare(hf, "schema", {"a": int})


def test_a_class_declares_one_type(hf: Holdfast) -> None:
    @dataclass
    class Order:
        a: int

    hf.event("order.paid")(Order)
    with pytest.raises(ConfigurationError, match=r"Order already declares order.paid version 1; a class declares one"):
        hf.event("order.paid", version=2)(Order)
    hf.event("order.paid", version=2)(type("Order2", (Order,), {}))


def test_two_applications_have_their_own_types(hf: Holdfast) -> None:
    python = declare(hf, "msgspec", {"a": int})
    Holdfast().event("another")(python)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"type": ""}, "event: type: expected 1 to 128 characters, got 0"),
        ({"type": 7}, "event: type: expected text, got int"),
        ({"version": 0}, "event: version: expected a whole number from 1 to 2147483647, got 0"),
        ({"version": "2"}, "event: version: expected a whole number from 1 to 2147483647, got '2'"),
    ],
)
def test_a_bad_name_or_version(hf: Holdfast, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        hf.event(arguments.pop("type", "a"), **arguments)


@pytest.mark.parametrize("python", [int, type("Plain", (), {}), "text", lambda: None])
def test_what_is_no_class_of_data(hf: Holdfast, python: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"a version 1: expected a msgspec Struct, a dataclass or a pydantic model below"
    ):
        hf.event("a")(python)
    assert not hf._event_types


def test_what_json_cannot_represent(hf: Holdfast) -> None:
    with pytest.raises(
        ConfigurationError, match=r"a version 1: data cannot be stored: a Lock cannot be read from JSON"
    ):

        class Lock:
            pass

        hf.event("a")(msgspec.defstruct("A", [("lock", Lock)]))
    with pytest.raises(ConfigurationError, match="the keys of JSON objects are text"):
        hf.event("a")(msgspec.defstruct("A", [("by", dict[int, str])]))


def test_rules_that_nobody_would_check(hf: Holdfast) -> None:
    @dataclass
    class Inner:
        amount: Annotated[int, pydantic.Field(gt=0)]

    with pytest.raises(ConfigurationError, match=r"Inner.amount has rules of pydantic, which only a pydantic model"):
        hf.event("a")(msgspec.defstruct("A", [("inner", Inner)]))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("text", r'schema: expected a JSON Schema, such as {"type": "object"}, got a str'),
        ({"type": object}, "schema: is not JSON"),
        ({"type": "objekt"}, "schema.type is not valid JSON Schema 2020-12: 'objekt' is not valid"),
        ({"properties": {"a": {"minimum": "1"}}}, "schema.properties.a.minimum is not valid"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "expected JSON Schema 2020-12, which is https"),
        ({"$ref": "https://example.org/a.json"}, r"expected a \$ref to a part of this schema, such as #/\$defs/Line"),
        ({"$ref": "#/$defs/Gone"}, r"expected a \$ref to a part of this schema"),
        ({"$defs": {"a": {"$anchor": "x"}}}, r"\$anchor cannot be exported"),
        ({"properties": {"a": {"$id": "x"}}}, r"\$id cannot be exported"),
        ({"$dynamicRef": "#a"}, r"\$dynamicRef cannot be exported"),
    ],
)
def test_a_bad_schema(hf: Holdfast, schema: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^a version 1: .*{said}|^a version 1: {said}"):
        hf.event("a", schema=schema)


def test_a_schema_is_copied(hf: Holdfast) -> None:
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:a",
        "type": "object",
    }
    hf.event("a", schema=schema)
    schema["type"] = "string"
    assert hf._event_types["a", 1].schema == {"type": "object"}


def test_a_schema_needs_the_package(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(
        ConfigurationError, match=r"needs the package jsonschema; install it: pip install 'holdfast\[con"
    ):
        hf.event("a", schema={"type": "object"})
    declare(hf, "msgspec", {"a": int})  # the others do not


def test_strict_events_is_a_flag() -> None:
    assert Holdfast()._event_types.strict is False
    assert Holdfast(strict_events=True)._event_types.strict is True
    with pytest.raises(InvalidInput, match="strict_events: expected True or False"):
        Holdfast(strict_events="yes")  # type: ignore[arg-type]
