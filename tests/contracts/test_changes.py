"""Which changes break others: of published types and of consumed ones, in every style of declaring them."""

from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec
import pytest
from tests.contracts.support import STYLES, AtLeast, Fields, declare, document, exported

from holdfast import Holdfast
from holdfast.contracts.asyncapi import Unreadable
from holdfast.contracts.changes import compare

BASE: Fields = {"order_id": int, "note": (str, ""), "state": Literal["open", "paid"]}


class Case(NamedTuple):
    old: Fields
    new: Fields
    published: str | None
    """The rule that breaks consumers; None: none does."""
    consumed: str | None
    """The rule that breaks producers."""
    said: str
    """In the line about it."""


CASES = {
    "a property removed": Case(
        {**BASE, "total": int}, BASE, "property-removed", None, "data.total was removed"
    ),
    "an optional property removed": Case(
        {**BASE, "total": (int, 0)}, BASE, "property-removed", None, "data.total was removed"
    ),
    "a required property added": Case(
        BASE, {**BASE, "total": int}, None, "made-required", "data.total is new and required"
    ),
    "an optional property added": Case(BASE, {**BASE, "total": (int, 0)}, None, None, "data.total was added"),
    "a type changed": Case(
        BASE, {**BASE, "order_id": str}, "type-changed", "type-changed", "data.order_id was integer and is string now"
    ),
    "a type widened": Case(
        BASE, {**BASE, "order_id": float}, "type-widened", None, "data.order_id was integer and can be number now"
    ),
    "null allowed": Case(
        BASE, {**BASE, "order_id": int | None}, "type-widened", None,
        "data.order_id was integer and can be integer or null now",
    ),
    "a type narrowed": Case(
        {**BASE, "order_id": float}, BASE, None, "type-narrowed", "data.order_id was number and is only integer now"
    ),
    "any type before": Case(
        {**BASE, "order_id": Any}, BASE, None, "type-narrowed", "data.order_id was any type and is only integer now"
    ),
    "required made optional": Case(
        BASE, {**BASE, "order_id": (int, 1)}, "made-optional", None, "data.order_id was required and is optional now"
    ),
    "optional made required": Case(
        BASE, {**BASE, "note": str}, None, "made-required", "data.note was optional and is required now"
    ),
    "an enum widened": Case(
        BASE, {**BASE, "state": Literal["open", "paid", "lost"]}, "enum-widened", None,
        'data.state can have values that it did not have: ["lost"]',
    ),
    "an enum narrowed": Case(
        BASE, {**BASE, "state": Literal["open"]}, None, "enum-narrowed", 'data.state no longer has the values ["paid"]'
    ),
    "an enum removed": Case(
        BASE, {**BASE, "state": str}, "enum-widened", None, "data.state had only the values"
    ),
    "a limit loosened": Case(
        {**BASE, "total": AtLeast(5)}, {**BASE, "total": AtLeast(0)}, "constraint-loosened", None,
        "data.total minimum was 5 and is 0 now",
    ),
    "a limit removed": Case(
        {**BASE, "total": AtLeast(5)}, {**BASE, "total": int}, "constraint-loosened", None,
        "data.total minimum was 5 and is not set now",
    ),
    "a limit tightened": Case(
        {**BASE, "total": AtLeast(0)}, {**BASE, "total": AtLeast(5)}, None, "constraint-tightened",
        "data.total minimum was 0 and is 5 now",
    ),
    "elements of another type": Case(
        {**BASE, "lines": list[int]}, {**BASE, "lines": list[str]}, "type-changed", "type-changed",
        "data.lines[] was integer and is string now",
    ),
    "values of another type": Case(
        {**BASE, "by_name": dict[str, int]}, {**BASE, "by_name": dict[str, str]}, "type-changed", "type-changed",
        "data.by_name.* was integer and is string now",
    ),
    "a time becomes text": Case(
        {**BASE, "at": datetime}, {**BASE, "at": str}, "constraint-loosened", None,
        "data.at format was date-time and is not set now",
    ),
    "an optional time becomes text": Case(
        {**BASE, "at": datetime | None}, {**BASE, "at": str | None}, "constraint-loosened", None,
        "data.at format was date-time and is not set now",
    ),
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_change_of_a_published_type(case: Case, style: str) -> None:
    found = compare(exported(style, "published", case.old), exported(style, "published", case.new))
    assert {change.rule for change in found.breaking} == ({case.published} if case.published else set())
    (change,) = [*found.breaking, *found.compatible]
    assert case.said in change.line
    assert change.line.startswith("published order.paid version 1: ")
    if case.published:
        assert found.advice == [
            "order.paid: leave version 1 as it was, and declare the change as a new version: "
            '@hf.event("order.paid", version=2)'
        ]


@pytest.mark.parametrize("style", [style for style in STYLES if style != "schema"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_change_of_a_consumed_type(case: Case, style: str) -> None:
    found = compare(exported(style, "consumed", case.old), exported(style, "consumed", case.new))
    assert {change.rule for change in found.breaking} == ({case.consumed} if case.consumed else set())
    (change,) = [*found.breaking, *found.compatible]
    assert case.said in change.line
    assert change.line.startswith("consumed order.paid version 1 from shop: ")
    assert bool(found.advice) == bool(case.consumed)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("role", ["published", "consumed"])
def test_an_export_is_compatible_with_itself(role: Any, style: str) -> None:
    if (role, style) == ("consumed", "schema"):
        return  # handlers have Python types
    fields = {name: each for case in CASES.values() for name, each in case.old.items()}
    found = compare(exported(style, role, fields), exported(style, role, fields))
    assert (found.breaking, found.compatible) == ([], [])


def test_a_version_removed_and_one_added() -> None:
    found = compare(exported("msgspec", "published", BASE), exported("msgspec", "published", {}, version=2))
    assert [change.rule for change in found.breaking] == ["version-removed"]
    assert found.breaking[0].line == "published order.paid version 1: was removed"
    assert found.advice == ["order.paid: declare version 1 again while somebody consumes it; after that, export anew"]
    assert [change.line for change in found.compatible] == ["published order.paid version 2: is new"]


def test_a_handler_removed() -> None:
    found = compare(exported("msgspec", "consumed", BASE), document(Holdfast()))
    assert [change.rule for change in found.breaking] == ["version-removed"]
    assert "keep a handler for version 1 while such events arrive, or they are parked" in found.advice[0]


def test_a_schema_that_was_edited() -> None:
    good, bad = exported("msgspec", "published", BASE), exported("msgspec", "published", BASE)
    for nonsense in (
        7,
        {"type": 7},
        {"type": "object", "properties": []},
        {"enum": 1},
        {"minimum": "x", "type": "number"},
    ):
        bad["components"]["schemas"]["send.order.paid.v1"]["properties"]["order_id"] = nonsense
        with pytest.raises(Unreadable, match=r"the schema of order.paid version 1, published is not valid JSON Schema"):
            compare(bad, good)


def test_the_next_version_is_the_one_after_the_newest() -> None:
    old, new = Holdfast(), Holdfast()
    for app, fields in ((old, BASE), (new, {})):
        declare(app, "msgspec", fields, version=1)
        declare(app, "msgspec", BASE, version=4)
    found = compare(document(old), document(new))
    assert {change.version for change in found.breaking} == {1}
    assert found.advice[0].endswith('@hf.event("order.paid", version=5)')


def test_what_is_published_and_consumed_is_compared_each_by_its_rule() -> None:
    old, new = Holdfast(), Holdfast()
    for app, fields in ((old, BASE), (new, {**BASE, "total": int})):
        python = declare(app, "msgspec", fields)
        app._event_types.consumed["shop", "order.paid", 1] = python
    found = compare(document(old), document(new))
    assert [change.role for change in found.breaking] == ["consumed"]
    assert [change.role for change in found.compatible] == ["published"]


# Schemas that users write


def raw(old: Any, new: Any, *, consumed: bool = False) -> tuple[list[str], list[str]]:
    """The rules and places of the changes that break others, and of those that do not."""
    documents = []
    for schema in (old, new):
        hf = Holdfast()
        hf.event("a", schema=schema)
        documents.append(document(hf))
        if consumed:
            (message,) = documents[-1]["components"]["messages"].values()
            message["x-holdfast"] |= {"role": "consumed", "source": "shop"}
    found = compare(*documents)
    breaking, compatible = (
        [f"{change.rule} {change.path}" for change in each] for each in (found.breaking, found.compatible)
    )
    return breaking, compatible


def properties(**named: Any) -> dict[str, Any]:
    return {"type": "object", "properties": named}


@pytest.mark.parametrize(
    ("word", "loose", "tight"),
    [
        ("minimum", 0, 5), ("maximum", 5, 0), ("exclusiveMinimum", 0, 5), ("exclusiveMaximum", 5, 0),
        ("multipleOf", 2, 4), ("minLength", 1, 2), ("maxLength", 2, 1), ("pattern", None, "^a"),
        ("format", None, "uuid"), ("minItems", 1, 2), ("maxItems", 2, 1), ("uniqueItems", False, True),
        ("minProperties", 1, 2), ("maxProperties", 2, 1), ("propertyNames", {"maxLength": 2}, {"maxLength": 1}),
    ],
)  # fmt: skip
def test_a_constraint(word: str, loose: Any, tight: Any) -> None:
    kind = next(
        kind
        for kind, words in {
            "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
            "string": "minLength maxLength pattern format",
            "array": "minItems maxItems uniqueItems",
            "object": "minProperties maxProperties propertyNames",
        }.items()
        if word in words.split()
    )
    wide, narrow = (
        properties(a={"type": kind, **({word: value} if value is not None else {})}) for value in (loose, tight)
    )
    assert raw(narrow, wide) == (["constraint-loosened data.a"], [])
    assert raw(wide, narrow) == ([], ["constraint-tightened data.a"])
    assert raw(wide, narrow, consumed=True) == (["constraint-tightened data.a"], [])
    assert raw(narrow, wide, consumed=True) == ([], ["constraint-loosened data.a"])
    assert raw(narrow, narrow) == ([], [])


def test_closed_and_open_objects() -> None:
    closed = {**properties(a={}), "additionalProperties": False}
    assert raw(closed, properties(a={})) == (["opened data.*"], [])
    assert raw(properties(a={}), closed) == ([], ["closed data.*"])
    more = {**properties(a={}, b={"type": "integer"}), "additionalProperties": False}
    assert raw(closed, more) == (["opened data.b"], [])
    assert raw(closed, more, consumed=True)[0] == []
    assert raw(more, closed, consumed=True) == (["closed data.b"], [])


def test_bytes_and_text() -> None:
    text, binary = properties(a={"type": "string"}), properties(a={"type": "string", "contentEncoding": "base64"})
    assert raw(text, binary)[0] == ["constraint-loosened data.a"]
    assert raw(binary, text)[0] == ["constraint-loosened data.a"]


def test_alternatives() -> None:
    card = {
        "type": "object",
        "properties": {"kind": {"const": "card"}, "last4": {"type": "string"}},
        "required": ["kind"],
    }
    cash = {"type": "object", "properties": {"kind": {"const": "cash"}}, "required": ["kind"]}
    gift = {"type": "object", "properties": {"kind": {"const": "gift"}}, "required": ["kind"]}
    for word in ("anyOf", "oneOf"):
        two, three = properties(by={word: [card, cash]}), properties(by={word: [card, cash, gift]})
        assert raw(two, two) == ([], [])
        assert raw(three, two)[0] == []
        assert raw(two, three)[0] == ["enum-widened data.by.kind"]
        other = {**card, "properties": {**card["properties"], "last4": {"type": "integer"}}}  # type: ignore[dict-item]
        assert raw(two, properties(by={word: [other, cash]}))[0] == ["type-changed data.by.last4"]
    assert raw(properties(a={"enum": [1, "a"]}), properties(a={"anyOf": [{"const": "a"}, {"const": 1.0}]})) == ([], [])


def test_references_and_types_that_contain_themselves() -> None:
    def tree(value: Any, word: str = "Node") -> Any:
        node = {"type": "object", "properties": {"value": value, "next": {"$ref": f"#/$defs/{word}"}}}
        return {"$ref": f"#/$defs/{word}", "$defs": {word: node}}

    assert raw(tree({"type": "integer"}), tree({"type": "integer"}, "Renamed")) == ([], [])
    assert raw(tree({"type": "number"}), tree({"type": "integer"}))[0] == []
    assert raw(tree({"type": "integer"}), tree({"type": "number"}))[0][0] == "type-widened data.value"
    once = {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}}}
    assert raw(once, once) == ([], [])
    assert raw(tree({"type": "integer"}), once) == ([], [])


def test_what_cannot_be_judged_is_incompatible_and_says_so() -> None:
    old = {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}}
    assert raw(old, {**old, "then": {"required": ["c"]}}) == (["not-comparable data"], [])
    assert raw(old, {**old, "title": "Another"}) == ([], [])
    assert raw({"not": {"type": "null"}}, {"not": {"type": "string"}}) == (["not-comparable data"], [])


def test_a_class_that_is_renamed_or_described_is_not_changed() -> None:
    old, new = Holdfast(), Holdfast()

    @old.event("a")
    class First(msgspec.Struct):
        a: int

    @new.event("a")
    class Second(msgspec.Struct):
        """With a description."""

        a: int

    assert compare(document(old), document(new)) == compare(document(old), document(old))
