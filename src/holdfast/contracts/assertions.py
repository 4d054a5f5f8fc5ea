"""The keywords of JSON Schema that say something about values, and whether two schemas say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .schemas import LISTED, NAMED, ONE, Schema, resolved
from .values import key_of

_ASSERTIONS = frozenset({
    "$ref", "additionalProperties", "allOf", "anyOf", "const", "contains", "contentEncoding", "contentMediaType",
    "dependentRequired", "dependentSchemas", "else", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "if",
    "items", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength",
    "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern", "patternProperties", "prefixItems",
    "properties", "propertyNames", "required", "then", "type", "unevaluatedItems", "unevaluatedProperties",
    "uniqueItems",
})  # fmt: skip


def asserts(schema: Schema) -> bool:
    """Does it say anything about values?"""
    if not isinstance(schema, Mapping | bool):
        raise TypeError(f"expected a schema, got {schema!r}")
    return not schema if isinstance(schema, bool) else not _ASSERTIONS.isdisjoint(schema)


def same(schema: Schema, document: Any, other: Schema, other_document: Any) -> bool:
    """Do they say the same, word for word? Two that do not may still accept the same values."""
    return key_of(_canonical(schema, document, ())) == key_of(_canonical(other, other_document, ()))


def _canonical(schema: Schema, document: Any, open: tuple[int, ...]) -> Any:
    """The schema without annotations, its references replaced by what they name; inside itself, by how far up it is."""
    if not isinstance(schema, Mapping):
        return schema
    if id(schema) in open:
        return {"$up": len(open) - open.index(id(schema))}
    inner = (*open, id(schema))
    plain: dict[str, Any] = {}
    for word, value in schema.items():
        if word not in _ASSERTIONS:
            continue
        if word == "$ref":
            plain[word] = _canonical(resolved(schema, document), document, inner)
        elif word in ONE:
            plain[word] = _canonical(value, document, inner)
        elif word in LISTED:
            plain[word] = [_canonical(each, document, inner) for each in value]
        elif word in NAMED:
            plain[word] = {name: _canonical(each, document, inner) for name, each in value.items()}
        else:
            plain[word] = sorted(value) if word == "required" else value
    return plain
