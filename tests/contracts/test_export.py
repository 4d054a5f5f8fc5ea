"""The export: an AsyncAPI document whose schemas are valid, and describe what is published."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import jsonschema
import msgspec
import pydantic
import pytest
from tests.contracts.support import STYLES, declare, document

from holdfast import ConfigurationError, Holdfast
from holdfast.contracts import asyncapi
from holdfast.contracts.changes import compare
from holdfast.contracts.schemas import found_at
from holdfast.contracts.types import encode


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(msgspec.Struct):
    sku: str
    amount: Annotated[int, msgspec.Meta(ge=1)] = 1
    parts: list["Line"] = []


class Card(msgspec.Struct, tag="card"):
    last4: str


class Cash(msgspec.Struct, tag="cash"):
    given: Decimal


class Customer(pydantic.BaseModel):
    name: str
    friend: "Customer | None" = None


class Order(msgspec.Struct):
    """A paid order."""

    id: UUID
    lines: list[Line]
    by: Card | Cash
    colour: Colour
    at: datetime
    due: date
    raw: bytes
    tags: set[str]
    pair: tuple[int, str]
    names: dict[str, datetime]
    customer: Customer
    state: Literal["open", "paid"] = "open"
    note: str | None = None


ORDER = Order(
    UUID(int=1), [Line("a", 2, [Line("b")])], Cash(Decimal("1.5")), Colour.RED, datetime(2026, 1, 1, tzinfo=UTC),
    date(2026, 1, 1), b"x", {"t"}, (1, "a"), {"n": datetime(2026, 1, 1, tzinfo=UTC)},
    Customer(name="Ada", friend=Customer(name="Bob")),
)  # fmt: skip


class Model(pydantic.BaseModel):
    id: UUID = UUID(int=2)
    lines: list[Customer] = [Customer(name="Ada")]
    by: Annotated["Paper | Plastic", pydantic.Field(discriminator="kind")] = pydantic.Field(
        default_factory=lambda: Paper(kind="paper")
    )
    price: Decimal = Decimal("1.5")


class Paper(pydantic.BaseModel):
    kind: Literal["paper"]


class Plastic(pydantic.BaseModel):
    kind: Literal["plastic"]


Model.model_rebuild()


def make() -> Holdfast:
    hf = Holdfast()
    hf.event("order.paid", version=2)(Order)
    hf.event("model.made")(Model)
    declare(hf, "dataclass", {"a": int, "at": datetime}, "plain", 7)
    hf.event(
        "raw/ü", schema={"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"minimum": 1}}}
    )
    hf._event_types.consumed["shop", "order.paid", 2] = Order
    hf._event_types.consumed[None, "user.left", 1] = Customer
    hf._event_types.consumed["shop", "any", 1] = dict[str, Any]
    hf._event_types.consumed["shop", "bare", 1] = TypeVar("T")
    hf._event_types.consumed["shop", "list", 1] = list[Customer]
    return hf


@pytest.fixture
def hf() -> Holdfast:
    return make()


def schemas(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema by the name of its message, as a schema that stands alone: with the document around it."""
    for name in found["components"]["schemas"]:
        yield name, {"$ref": f"#/components/schemas/{name}", "components": found["components"]}


def test_every_schema_is_valid(hf: Holdfast) -> None:
    found = document(hf)
    names = [name for name, _ in schemas(found)]
    assert len(names) == 9
    for name, alone in schemas(found):
        own = found["components"]["schemas"][name]
        assert own["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        jsonschema.Draft202012Validator.check_schema(own)
        jsonschema.Draft202012Validator(alone).is_valid({})  # every reference is found


def test_what_is_published_fits_its_schema(hf: Holdfast) -> None:
    by_name = dict(schemas(document(hf)))
    for event, name in ((ORDER, "send.order.paid.v2"), (Model(), "send.model.made.v1")):
        data = msgspec.json.decode(encode(hf._event_types, event)[2])
        jsonschema.Draft202012Validator(by_name[name]).validate(data)
        assert not jsonschema.Draft202012Validator(by_name[name]).is_valid({**data, "id": 7})
    wrong = msgspec.json.decode(encode(hf._event_types, ORDER)[2])
    wrong["lines"][0]["parts"][0]["amount"] = 0
    assert not jsonschema.Draft202012Validator(by_name["send.order.paid.v2"]).is_valid(wrong)


def test_the_document(hf: Holdfast) -> None:
    found = document(hf)
    assert found["asyncapi"] == "3.0.0"
    assert found["operations"]["send.order.paid"] == {
        "action": "send",
        "channel": {"$ref": "#/channels/order.paid"},
        "messages": [{"$ref": "#/channels/order.paid/messages/send.order.paid.v2"}],
    }
    assert found["operations"]["receive.shop.order.paid"]["action"] == "receive"
    assert list(found["channels"]["order.paid"]["messages"]) == ["send.order.paid.v2", "receive.shop.order.paid.v2"]
    message = found["components"]["messages"]["receive.shop.order.paid.v2"]
    assert message["x-holdfast"] == {"role": "consumed", "source": "shop", "type": "order.paid", "version": 2}
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    for part in ("channels", "operations"):
        assert all(set(name) <= allowed for name in found[part])
    assert [each.type for each in asyncapi.contracts(found) if each.role == "published"] == sorted(
        ["order.paid", "model.made", "plain", "raw/ü"]
    )
    for reference in references(found):
        found_at(found, reference)


def references(part: Any) -> Iterator[str]:
    for name, value in part.items() if isinstance(part, dict) else enumerate(part):
        if name == "$ref" and isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            yield from references(value)


def test_names_that_would_be_the_same() -> None:
    hf = Holdfast()
    for type in ("a/b", "a b", "a_b"):
        declare(hf, "msgspec", {"a": int}, type)
    for source, type in (("a.b", "c"), ("a", "b.c"), (None, "a.b.c")):
        hf._event_types.consumed[source, type, 1] = dict[str, Any]
    found = document(hf)
    assert len(found["components"]["schemas"]) == len(found["components"]["messages"]) == 6
    assert len(asyncapi.contracts(found)) == 6


def test_the_order_of_the_code_does_not_matter() -> None:
    one, two = Holdfast(), Holdfast()
    kinds = [("b", 1), ("a", 2), ("a", 10)]
    for app, order in ((one, kinds), (two, kinds[::-1])):
        for type, version in order:
            declare(app, "msgspec", {"a": int}, type, version)
    assert asyncapi.text(document(one)) == asyncapi.text(document(two))
    assert [each.version for each in asyncapi.contracts(document(one))] == [2, 10, 1]


CODE = """
import sys
from tests.contracts import test_export
sys.stdout.write(test_export.asyncapi.text(test_export.document(test_export.make())))
"""


def test_every_process_writes_the_same() -> None:
    """Sets and hashes have another order in each."""
    written = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=Path(__file__).parents[2], check=True, capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(written) == 1


@pytest.mark.parametrize("style", STYLES)
def test_every_style_gives_the_same_contract(style: str) -> None:
    """A class can be rewritten in another library without breaking anyone."""
    fields = {"a": int, "b": list[str], "c": dict[str, int], "d": Literal["x", "y"]}
    old, new = Holdfast(), Holdfast()
    declare(old, "msgspec", fields)
    declare(new, style, fields)
    found = compare(document(old), document(new))
    assert (found.breaking, found.compatible) == ([], [])


def test_it_is_compatible_with_itself(hf: Holdfast) -> None:
    found = compare(document(hf), document(hf))
    assert (found.breaking, found.compatible) == ([], [])


def test_two_types_of_one_name_inside() -> None:
    inner = pydantic.create_model("Line", n=(int, ...))
    with pytest.raises(ConfigurationError, match="its data has two types called Line; rename one of them"):
        Holdfast().event("a")(msgspec.defstruct("A", [("one", Line), ("two", inner)]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is not JSON"), ("{", "it is not JSON"), ("[]", "it is not an AsyncAPI 3 document"),
        ('{"asyncapi": "2.6.0"}', "it is not an AsyncAPI 3 document"),
        ('{"asyncapi": "3.0.0"}', "it lacks components"),
        ('{"asyncapi": "3.0.0", "components": {"messages": {"a": {}}}}', "it lacks x-holdfast"),
        ('{"asyncapi": "3.0.0", "components": {"messages": []}}', "its messages are not those of an export"),
        ('{"asyncapi": "3.0.0", "components": {"messages": {"a": {"x-holdfast": {}, "payload": {"$ref": "#/b"}}}}}',
         "it lacks #/b"),
        ('{"asyncapi": "3.0.0", "components": {"messages": {"a": {"x-holdfast": {"role": "published"}, '
         '"payload": {"$ref": "#/asyncapi"}}}}}', "its messages are not those of an export"),
    ],
)  # fmt: skip
def test_what_is_no_export(text: str, said: str) -> None:
    with pytest.raises(asyncapi.Unreadable, match=said):
        asyncapi.read(text)
