"""If the check calls a change of a published type compatible, old consumers accept all new data; jsonschema judges."""

import functools
import itertools
import os
from typing import Any

import jsonschema
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from holdfast.contracts.inclusion import gaps

Schema = Any

NAMES = ("a", "b", "c")
SCALARS: list[Any] = [None, True, False, -1, 0, 1, 2, 3, 0.5, 1.0, "", "a", "ab", "abc", "b"]
POOL: list[Any] = [
    *SCALARS,
    *([], [0], [1, 1], ["a"], ["a", 1], [None], [1, "a", 0.5], [[0]], [{"a": 1}]),
    *({name: value} for name in NAMES for value in (*SCALARS, [], [1], {}, {"a": 1}, {"b": "a"})),
    *({"a": first, "b": second} for first, second in itertools.product((1, "a", None, 0.5), repeat=2)),
    *({}, {"a": 1, "b": "a", "c": None}, {"a": {"a": {"a": 1}}}, {"a": {"a": "b"}}, {"x": 1}, {"x": "a", "a": 1}),
]

EXAMPLES = int(os.environ.get("HOLDFAST_TEST_EXAMPLES", "150"))
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)

numbers = st.sampled_from([-1, 0, 1, 2, 0.5])
sizes = st.integers(0, 3)
NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "minimum": numbers, "maximum": numbers, "exclusiveMinimum": numbers, "exclusiveMaximum": numbers,
    "multipleOf": st.sampled_from([1, 2, 3]),
}  # fmt: skip
TEXT: dict[str, st.SearchStrategy[Any]] = {
    "minLength": sizes, "maxLength": sizes, "pattern": st.sampled_from(["^a", "b", "c$"]),
}  # fmt: skip
LISTED: dict[str, st.SearchStrategy[Any]] = {
    "enum": st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4, unique_by=repr),
    "const": st.sampled_from([*SCALARS, {"a": 1}, [1]]),
}


@functools.cache  # making strategies takes longer than drawing from them
def words(kind: str, levels: int) -> dict[str, st.SearchStrategy[Any]]:
    """The keywords about values of a type, with their values."""
    inner = schemas(levels - 1) if levels else st.booleans()
    some = st.lists(inner, min_size=1, max_size=2)
    match kind:
        case "number" | "integer":
            return NUMBERS
        case "string":
            return TEXT
        case "array":
            return {
                "minItems": sizes, "maxItems": sizes, "uniqueItems": st.booleans(),
                "items": inner, "prefixItems": some, "contains": inner,
            }  # fmt: skip
        case "object":
            return {
                "minProperties": sizes, "maxProperties": sizes,
                "required": st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
                "dependentRequired": st.just({"a": ["b"]}),
                "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), inner, min_size=1, max_size=1),
                "additionalProperties": inner,
                "propertyNames": st.sampled_from([{"enum": ["a", "b"]}, {"maxLength": 1}, {"enum": ["a", "b", "c"]}]),
            }  # fmt: skip
        case _:
            return {
                **LISTED,
                "type": st.sampled_from(["null", "boolean", ["string", "null"], ["integer", "object"]]),
                "anyOf": some, "oneOf": some, "allOf": some, "not": inner, "if": inner, "then": inner,
                # A definition that names itself on the same level would never end.
                **({"$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"])} if levels else {}),
            }  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn, levels: int = 2) -> Schema:
    if not draw(st.integers(0, 11)):
        return draw(st.booleans())
    kind = draw(st.sampled_from(["number", "integer", "string", "any", "object", "array", "object", "any"]))
    chosen = draw(st.lists(st.sampled_from(sorted(words(kind, levels))), min_size=1, max_size=3, unique=True))
    found = {word: draw(words(kind, levels)[word]) for word in chosen}
    # Without its type, a keyword says nothing about values of others.
    return found if kind == "any" or not draw(st.integers(0, 3)) else {"type": kind, **found}


@st.composite
def changed(draw: st.DrawFn, schema: Schema, levels: int = 1) -> Schema:
    """A schema that is like this one, except in a few places."""
    if not isinstance(schema, dict) or not draw(st.integers(0, 15)):
        return draw(schemas(levels)) if not draw(st.integers(0, 3)) else schema
    kind = schema.get("type", "any")
    kind = kind if isinstance(kind, str) and kind not in ("null", "boolean") else "any"
    match draw(st.sampled_from(["redraw", "redraw", "inside", "inside", "drop", "add", "anyOf", "allOf"])):
        case "redraw":
            word = draw(st.sampled_from(sorted(schema)))
            values = words(kind, levels).get(word)
            return schema if values is None else {**schema, word: draw(values)}
        case "drop":
            gone = draw(st.sampled_from(sorted(schema)))
            return {word: value for word, value in schema.items() if word != gone}
        case "add":
            word = draw(st.sampled_from(sorted(words(kind, levels))))
            return {**schema, word: draw(words(kind, levels)[word])}
        case "anyOf" | "allOf" as word:
            return {word: [schema, draw(schemas(levels))]}
        case _:
            copy = dict(schema)
            for word in [word for word in ("items", "additionalProperties") if word in copy]:
                copy[word] = draw(changed(copy[word], levels))
            for word in [word for word in ("anyOf", "oneOf", "allOf", "prefixItems") if word in copy]:
                copy[word] = [draw(changed(each, levels)) for each in copy[word]]
            for word in [word for word in ("properties", "patternProperties") if word in copy]:
                copy[word] = {name: draw(changed(each, levels)) for name, each in copy[word].items()}
            return copy


def with_definitions(schema: Schema, one: Schema, two: Schema) -> dict[str, Any]:
    return {"allOf": [schema], "$defs": {"one": one, "two": {"type": "object", "properties": {"a": two}}}}


def accepts(schema: Schema) -> Any:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).is_valid


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
def test_what_fits_the_new_schema_fits_the_old_one(data: st.DataObject) -> None:
    defined = data.draw(schemas(0)), data.draw(st.one_of(schemas(0), st.just({"$ref": "#/$defs/two"})))
    old = data.draw(schemas())
    new = data.draw(changed(old))
    before = with_definitions(old, *defined)
    after = with_definitions(new, *(data.draw(changed(each, 0)) for each in defined))
    if gaps(after, after, before, before, removals=True):
        event("incompatible")
        return
    event("compatible, and changed" if before != after else "the same")
    is_new, is_old = accepts(after), accepts(before)
    for value in POOL:
        assert not is_new(value) or is_old(value), (value, before, after)


@given(schemas())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_schema_is_compatible_with_itself(schema: Schema) -> None:
    whole = with_definitions(schema, {"type": "string"}, {"$ref": "#/$defs/two"})
    assert gaps(whole, whole, whole, whole, removals=True) == []


INTEGER, TEXT_ONLY = {"type": "integer"}, {"type": "string"}
FAMILY: list[Schema] = [
    True, False, {"type": "null"}, {"type": "boolean"}, INTEGER, TEXT_ONLY, {"type": "number"}, {"type": "object"},
    {"type": ["string", "null"]}, {"anyOf": [TEXT_ONLY, {"type": "null"}]}, {"oneOf": [TEXT_ONLY, {"type": "null"}]},
    *({"type": "number", word: limit} for limit in (0, 1, 2) for word in NUMBERS if word != "multipleOf" or limit),
    *({word: limit} for limit in (1, 2) for word in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")),
    *({"type": "string", word: limit} for limit in (0, 1, 2) for word in ("minLength", "maxLength")),
    {"pattern": "^a"}, {"pattern": "^a", "maxLength": 2}, {"enum": ["a", "ab"]}, {"enum": ["a", 1]}, {"const": 1.0},
    {"enum": [1, True]}, {"enum": [0.5, 1]}, {"anyOf": [{"const": "a"}, {"const": "ab"}]},
    {"oneOf": [INTEGER, {"minimum": 1}]}, {"oneOf": [INTEGER, TEXT_ONLY]}, {"allOf": [INTEGER, {"minimum": 1}]},
    {"allOf": [{"minimum": 1}, TEXT_ONLY]}, {"not": INTEGER}, {"if": INTEGER, "then": {"minimum": 1}},
    *({"type": "array", word: limit} for limit in (0, 1, 2) for word in ("minItems", "maxItems")),
    {"type": "array", "uniqueItems": True}, {"items": INTEGER}, {"items": {"type": "number"}}, {"items": False},
    {"prefixItems": [INTEGER]}, {"prefixItems": [TEXT_ONLY, INTEGER]}, {"prefixItems": [INTEGER], "items": False},
    {"prefixItems": [TEXT_ONLY], "items": INTEGER}, {"prefixItems": [INTEGER], "maxItems": 1},
    {"prefixItems": [INTEGER], "maxItems": 0}, {"contains": INTEGER}, {"contains": INTEGER, "minContains": 2},
    *({"properties": {"a": each}} for each in (True, False, INTEGER, TEXT_ONLY, {"type": "number"})),
    *({"properties": {"a": INTEGER, "b": each}} for each in (INTEGER, TEXT_ONLY)),
    *({"properties": {"a": INTEGER}, "required": each} for each in (["a"], ["b"], ["a", "b"])),
    *({"properties": {"a": INTEGER}, "additionalProperties": each} for each in (True, False, INTEGER, TEXT_ONLY)),
    *({"additionalProperties": each} for each in (False, INTEGER, TEXT_ONLY)),
    *({"patternProperties": {"^a": each}} for each in (False, INTEGER, TEXT_ONLY)),
    *({"patternProperties": {"^a": INTEGER}, "additionalProperties": each} for each in (False, INTEGER, TEXT_ONLY)),
    *({"patternProperties": {"b|c": TEXT_ONLY}, "additionalProperties": each} for each in (False, INTEGER)),
    *({"minProperties": limit} for limit in (1, 2)), *({"maxProperties": limit} for limit in (0, 1)),
    {"type": "object", "required": ["a"]}, {"type": "object", "required": ["a"], "maxProperties": 1},
    {"propertyNames": {"enum": ["a"]}}, {"propertyNames": {"maxLength": 1}}, {"dependentRequired": {"a": ["b"]}},
    {"allOf": [{"properties": {"a": INTEGER}}, {"additionalProperties": INTEGER}]},
    {"allOf": [{"properties": {"a": True}, "additionalProperties": False}, {"properties": {"b": TEXT_ONLY}}]},
    {"oneOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"a": {"const": "a"}}}]},
    {"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"a": {"const": "a"}}}]},
    {"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two"}, {"anyOf": [{"$ref": "#/$defs/two"}, {"type": "null"}]},
    {"type": "object", "properties": {"a": {"type": "object", "properties": {"a": {"type": "object"}}}}},
]  # fmt: skip
DEFINED = [
    (INTEGER, {"$ref": "#/$defs/two"}),
    ({"minimum": 1}, INTEGER),
    (TEXT_ONLY, {"anyOf": [INTEGER, {"$ref": "#/$defs/two"}]}),
]
SMALL = [*POOL, ["a", "a"], [1, 2], [1, 0.5], ["a", 1, 2], {"ab": 1}, {"ab": "a"}, {"bb": 1}, {"a": 1, "bb": "a"}]


def test_all_pairs_of_many_schemas() -> None:
    """Each is compared with each: what is called compatible accepts no value that the other one rejects."""
    family = [with_definitions(each, *definitions) for definitions in DEFINED for each in FAMILY]
    family = [each for n, each in enumerate(family) if n < len(FAMILY) or "$ref" in str(each["allOf"])]
    accepted = []
    for each in family:
        is_valid = accepts(each)
        accepted.append({n for n, value in enumerate(SMALL) if is_valid(value)})
    included = proven = 0
    for (new, news), (old, olds) in itertools.product(zip(family, accepted, strict=True), repeat=2):
        included += news <= olds
        if not gaps(new, new, old, old, removals=True):
            proven += 1
            assert news <= olds, ([SMALL[n] for n in news - olds], old["allOf"], new["allOf"])
    assert proven > 0.4 * included, "it must not be safe by calling everything incompatible"
