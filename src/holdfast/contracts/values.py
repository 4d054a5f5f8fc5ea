"""JSON values: their types, and which of them are equal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

TYPES = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
"""The types of values. JSON Schema's `number` is `integer` and `fraction`; 1.0 is an integer."""
NUMBERS = frozenset({"integer", "fraction"})


def type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int() | float():
            return "integer" if value == int(value) else "fraction"
        case list():
            return "array"
        case _:
            return "object"


def named(types: Iterable[str]) -> tuple[str, ...]:
    """The types in JSON Schema's words."""
    found = set(types)
    if found == TYPES:
        return ("any type",)
    return tuple(sorted((found - NUMBERS) | ({"number"} if "fraction" in found else found & NUMBERS)))


def key_of(value: Any) -> str:
    """Equal for values that are equal in JSON: 1 and 1.0 are, 1 and true are not."""
    return msgspec.json.encode(_whole(value), order="sorted").decode()


def _whole(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole(each) for each in value]
        case dict():
            return {name: _whole(each) for name, each in value.items()}
        case _:
            return value


def hashable(value: Any) -> Any:
    """The value, or its JSON if it is a list or an object."""
    return msgspec.json.encode(value).decode() if isinstance(value, list | dict) else value
