"""What is published: data of declared types is checked and completed, and errors say what, where and what came."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from pydantic import dataclasses as pydantic_dataclasses
from tests.contracts.support import STYLES, declare

from holdfast import Holdfast, InvalidInput
from holdfast.contracts.types import encode
from holdfast.model.limits import Limits


@pytest.fixture
def hf() -> Holdfast:
    return Holdfast()


def published(hf: Holdfast, event: Any, *more: Any, **version: Any) -> Any:
    """The data, as consumers read it."""
    return msgspec.json.decode(encode(hf._event_types, event, *more, **version)[2])


def refused(hf: Holdfast, event: Any, *more: Any, **version: Any) -> tuple[str, str]:
    with pytest.raises(InvalidInput) as caught:
        encode(hf._event_types, event, *more, **version)
    return caught.value.field, caught.value.problem


FIELDS = {"order_id": int, "lines": list[int], "note": (str, "none")}


@pytest.mark.parametrize("style", STYLES)
def test_an_instance_and_a_type_with_its_data(hf: Holdfast, style: str) -> None:
    python = declare(hf, style, FIELDS, version=2)
    data = {"order_id": 1, "lines": [2, 3], "note": "x"}
    if python is not None:
        kind, version, text = encode(hf._event_types, python(**data))
        assert (kind, version, msgspec.json.decode(text)) == ("order.paid", 2, data)
        assert encode(hf._event_types, "order.paid", python(**data)) == (kind, version, text)
    assert encode(hf._event_types, "order.paid", data)[:2] == ("order.paid", 2)
    assert published(hf, "order.paid", data) == data
    short = {"order_id": 1, "lines": []}
    completed = {**short, "note": "none"} if python is not None else short
    assert published(hf, "order.paid", short) == completed, "defaults of classes are filled in"


@pytest.mark.parametrize("style", STYLES)
def test_data_that_does_not_fit(hf: Holdfast, style: str) -> None:
    declare(hf, style, FIELDS)
    field, problem = refused(hf, "order.paid", {"order_id": 1, "lines": [1, "many"]})
    assert field == "data.lines[1]"
    assert "int" in problem
    assert "got" in problem
    assert ("str" if style in ("msgspec", "dataclass") else '"many"') in problem
    assert "order.paid version 1" in problem
    assert refused(hf, "order.paid", {"lines": []}) == ("data.order_id", "is missing; order.paid version 1 needs it")
    assert refused(hf, "order.paid", None)[0] == "data"
    assert refused(hf, "order.paid", [1])[0] == "data"


@pytest.mark.parametrize("style", ["msgspec", "dataclass", "pydantic"])
def test_a_property_that_is_not_declared(hf: Holdfast, style: str) -> None:
    declare(hf, style, FIELDS)
    field, problem = refused(hf, "order.paid", {"order_id": 1, "lines": [], "ordr": 1})
    assert (field, problem) == (
        "data.ordr", "is not a property of order.paid version 1; remove it, or declare it in a new version"
    )  # fmt: skip


@pytest.mark.parametrize("style", ["msgspec", "dataclass", "pydantic"])
def test_an_instance_whose_values_do_not_fit_its_class(hf: Holdfast, style: str) -> None:
    python = declare(hf, style, FIELDS)
    made = python(order_id=1, lines=[])
    made.order_id = "one"
    field, problem = refused(hf, made)
    assert field == "data.order_id"
    assert "xpected `int`" in problem
    assert "str" in problem


def test_limits_of_values(hf: Holdfast) -> None:
    hf.event("a")(msgspec.defstruct("A", [("n", Annotated[int, msgspec.Meta(ge=0)])]))
    assert refused(hf, "a", {"n": -4}) == ("data.n", "expected `int` >= 0, got -4; it does not fit a version 1")
    hf.event("b", schema={"properties": {"n": {"minimum": 0}, "s": {"enum": ["x"]}}, "additionalProperties": False})
    assert refused(hf, "b", {"n": -4}) == ("data.n", "expected minimum 0, got -4; it does not fit b version 1")
    assert refused(hf, "b", {"s": "y"}) == ("data.s", 'expected enum ["x"], got "y"; it does not fit b version 1')
    assert refused(hf, "b", {"z": 1})[0] == "data"
    hf.event("c", schema={"properties": {"never": False}})
    assert refused(hf, "c", {"never": 1})[1] == "expected nothing, got 1; it does not fit c version 1"


# Values that JSON does not have, as in arguments of tasks


class Everything(msgspec.Struct):
    file: Path
    raw: bytes = b"\x00\xff"
    tags: frozenset[str] = frozenset({"b", "a"})
    at: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    price: Decimal = Decimal("1.10")
    id: UUID = UUID(int=7)


def test_what_becomes_text_or_a_list(hf: Holdfast) -> None:
    hf.event("a")(Everything)
    plain = {
        "raw": "AP8=", "tags": ["a", "b"], "at": "2026-03-01T00:00:00Z", "price": "1.10",
        "id": "00000000-0000-0000-0000-000000000007", "file": "a/b",
    }  # fmt: skip
    assert published(hf, Everything(Path("a/b"))) == plain
    assert published(hf, "a", plain) == plain
    assert published(hf, "a", {"raw": b"\x00\xff", "tags": {"b", "a"}, "file": Path("a/b")}) == plain


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "is nan, which JSON cannot represent"),
        (b"x", "is bytes, which JSON cannot represent"),
        ({1, 2}, "is a set, whose order changes"),
        (datetime(2026, 1, 1), "is a datetime without a time zone"),  # noqa: DTZ001
        (2**70, "is a whole number of more than 64 bits"),
        ("a\0b", "contains a NUL character"),
        (object(), "is a object, which JSON cannot represent"),
    ],
)
def test_what_is_rejected(hf: Holdfast, value: Any, said: str) -> None:
    hf.event("declared")(msgspec.defstruct("Declared", [("inner", Any)]))
    hf.event("raw", schema={})
    for type in ("undeclared", "declared", "raw"):
        field, problem = refused(hf, type, {"inner": {"deep": [value]}} if type == "declared" else {"deep": [value]})
        assert field == ("data.inner.deep[0]" if type == "declared" else "data.deep[0]")
        assert said in problem


def test_nan_in_a_model(hf: Holdfast) -> None:
    python = hf.event("a")(pydantic.create_model("A", price=(float, ...)))
    assert refused(hf, python(price=math.nan))[0] == "data.price"


def test_data_that_is_too_large_or_too_deep() -> None:
    hf = Holdfast(limits=Limits(payload_bytes=100, depth=5))
    assert "the limit is 100" in refused(hf, "a", {"text": "x" * 100})[1]
    assert "nested deeper than 5 levels" in refused(hf, "a", [[[[[[]]]]]])[1]


# Names, tags, aliases


def test_names_and_tags_of_structs(hf: Holdfast) -> None:
    class Paid(msgspec.Struct, tag="paid", rename="camel", omit_defaults=True):
        order_id: int
        is_gift: bool = False

    hf.event("a")(Paid)
    assert published(hf, Paid(1)) == {"type": "paid", "orderId": 1}
    assert published(hf, "a", {"type": "paid", "orderId": 1, "isGift": False}) == {"type": "paid", "orderId": 1}
    assert refused(hf, "a", {"type": "paid", "orderId": 1, "gift": False})[0] == "data.gift"


def test_aliases_and_computed_fields_of_models(hf: Holdfast) -> None:
    class Paid(pydantic.BaseModel):
        order_id: int = pydantic.Field(alias="orderId")
        cents: int = pydantic.Field(serialization_alias="amount", validation_alias="sum")

        @pydantic.computed_field  # type: ignore[prop-decorator]
        @property
        def is_free(self) -> bool:
            return self.cents == 0

    hf.event("a")(Paid)
    written = {"orderId": 1, "amount": 5, "is_free": False}
    assert published(hf, Paid.model_validate({"orderId": 1, "sum": 5})) == written
    assert published(hf, "a", {"orderId": 1, "sum": 5}) == written
    assert sorted(hf._event_types["a", 1].schema["properties"]) == ["amount", "is_free", "orderId"]  # type: ignore[index]


def test_a_model_inside_a_struct_and_a_pydantic_dataclass(hf: Holdfast) -> None:
    class Line(pydantic.BaseModel):
        amount: Annotated[int, pydantic.Field(gt=0, alias="n")]

    class Order(msgspec.Struct):
        lines: list[Line]

    hf.event("a")(Order)
    assert published(hf, Order([Line.model_validate({"n": 1})])) == {"lines": [{"n": 1}]}
    assert refused(hf, "a", {"lines": [{"n": 1}, {"n": 0}]})[0].startswith("data.lines[")
    assert refused(hf, "a", {"lines": [{"n": 1, "m": 1}]})[0] == "data.lines[0].m"

    @hf.event("b")
    @pydantic_dataclasses.dataclass
    class Checked:
        amount: Annotated[int, pydantic.Field(gt=0)]

    assert published(hf, Checked(1)) == {"amount": 1}
    assert refused(hf, "b", {"amount": 0}) == (
        "data.amount",
        "expected greater than 0, got 0; it does not fit b version 1",
    )


# Types and versions


def test_types_that_are_not_declared(hf: Holdfast) -> None:
    assert encode(hf._event_types, "a", {"b": 1}) == ("a", 1, '{"b":1}')
    assert encode(hf._event_types, "a", [1], 7) == ("a", 7, "[1]")
    assert encode(hf._event_types, "a") == ("a", 1, "null")
    strict = Holdfast(strict_events=True)
    assert "there is none; got 'a'. Declare it" in refused(strict, "a", {})[1]
    declare(strict, "msgspec", {"b": int}, "order.paid")
    declare(strict, "msgspec", {"b": int}, "order.lost")
    field, problem = refused(strict, "order.payed", {})
    assert field == "type"
    assert problem.startswith("expected a declared one: order.lost, order.paid; got 'order.payed'.")


def test_versions(hf: Holdfast) -> None:
    declare(hf, "msgspec", {"a": int}, version=2)
    assert encode(hf._event_types, "order.paid", {"a": 1})[1] == 2
    field, problem = refused(hf, "order.paid", {"a": 1}, 3)
    assert (field, problem) == ("version", "order.paid is declared with version 2, got 3; declare it, too")
    declare(hf, "msgspec", {"b": str}, version=3)
    assert encode(hf._event_types, "order.paid", {"b": "x"}, 3)[1:] == (3, '{"b":"x"}')
    assert refused(hf, "order.paid", {"a": 1}) == (
        "version", "order.paid has several: expected version=2 or 3, got none"
    )  # fmt: skip
    assert refused(hf, "order.paid", {"a": 1}, "2")[0] == "version"


def test_an_instance_says_all(hf: Holdfast) -> None:
    @dataclass
    class Other:
        a: int

    python = declare(hf, "msgspec", {"a": int}, version=2)
    assert encode(hf._event_types, python(a=1), version=2)[1] == 2
    assert refused(hf, python(a=1), version=1) == ("version", "expected 2, which Order declares, got 1")
    assert refused(hf, python(a=1), {"a": 2})[0] == "data"
    field, problem = refused(hf, Other(1))
    assert field == "event"
    assert problem.startswith("expected an instance of a class that is declared with @hf.event(…)")
    assert problem.endswith("got a Other")
    assert refused(hf, type("Sub", (python,), {})(a=1))[0] == "event", "a subclass may have other fields"
    assert refused(hf, "", {})[0] == "type"
