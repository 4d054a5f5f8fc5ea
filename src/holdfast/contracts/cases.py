"""The cases of a schema: the alternatives that `anyOf` and `oneOf` make, their types and values, and what they say.

A case is a list of schemas, and a value fits it if it fits all of them. Where one of them refers to another schema or
has alternatives, what it means in this case is in the list, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .schemas import Schema, resolved
from .values import NUMBERS, TYPES, hashable, key_of, type_of

Case = Sequence[Mapping[str, Any]]

_MOST = 200
"""More cases than this of one schema are not compared."""


class TooComplex(Exception):
    """There are too many cases."""


def cases_of(schemas: Sequence[Schema], document: Any) -> list[Case]:
    found: list[Case] = []
    for case in _expanded(list(schemas), [], [], document):
        found.append(case)
        if len(found) > _MOST:
            raise TooComplex
    return found


def _expanded(
    todo: list[Schema], splits: list[Sequence[Schema]], done: list[Mapping[str, Any]], document: Any
) -> Iterator[Case]:
    while todo:
        schema = todo.pop()
        if schema is False:
            return
        if not isinstance(schema, Mapping) or any(schema is each for each in done):
            continue
        done.append(schema)
        if "$ref" in schema:
            todo.append(resolved(schema, document))
        todo.extend(schema.get("allOf", ()))
        splits.extend(schema[word] for word in ("anyOf", "oneOf") if word in schema)
    if not splits:
        yield done
        return
    branches, *others = splits
    for branch in branches:
        yield from _expanded([branch], list(others), list(done), document)


def parts_of(case: Case, types: frozenset[str]) -> Iterator[Case]:
    """One case for each listed value, or else for each type, so that each can fit another alternative."""
    values = values_of(case)
    if values is not None and len(values) <= _MOST:
        for value in values:
            yield [*case, {"const": value}]
    elif len(types) == 1 or types == NUMBERS:
        yield case
    else:
        numbers = {"number"} if "fraction" in types else types & {"integer"}
        for name in sorted((types - NUMBERS) | numbers):
            yield [*case, {"type": name}]


def possible(case: Case) -> bool:
    return bool(types_of(case)) and values_of(case) != []


def disjoint(case: Case, document: Any, other: Case, other_document: Any, levels: int = 3) -> bool:
    """Can no value fit both? Found by their types, their values, or those of a property that one of them requires."""
    both = types_of(case) & types_of(other)
    if not both:
        return True
    values, others = values_of(case), values_of(other)
    if values is not None and others is not None and not {key_of(v) for v in values} & {key_of(v) for v in others}:
        return True
    if both != {"object"} or not levels:
        return False
    required = {name for each in (*case, *other) for name in each.get("required", ())}
    return any(
        all(
            disjoint(mine, document, theirs, other_document, levels - 1)
            for mine in cases_of(about_property(case, name), document)
            for theirs in cases_of(about_property(other, name), other_document)
        )
        for name in sorted(required)
    )


# Types and values


def types_of(case: Case) -> frozenset[str]:
    found = TYPES
    for each in case:
        found &= _own_types(each)
    return found


def _own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    found = TYPES
    if "type" in schema:
        said = schema["type"]
        found = frozenset(
            kind
            for name in ([said] if isinstance(said, str) else said)
            for kind in (NUMBERS if name == "number" else (name,))
        )
    for word in ("enum", "const"):
        if word in schema:
            found &= {type_of(value) for value in (schema["enum"] if word == "enum" else [schema["const"]])}
    return found


def allowed_types(schema: Schema, document: Any, seen: tuple[int, ...] = ()) -> frozenset[str]:
    """The types that a schema may accept."""
    if schema is False:
        return frozenset()
    if not isinstance(schema, Mapping) or id(schema) in seen:
        return TYPES
    seen = (*seen, id(schema))
    found = _own_types(schema)
    if "$ref" in schema:
        found &= allowed_types(resolved(schema, document), document, seen)
    for each in schema.get("allOf", ()):
        found &= allowed_types(each, document, seen)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            found &= frozenset[str]().union(*(allowed_types(each, document, seen) for each in schema[word]))
    return found


def values_of(case: Case) -> list[Any] | None:
    """All values of a case, if they are listed; None: there are too many."""
    listed = [each["enum"] for each in case if "enum" in each] + [[each["const"]] for each in case if "const" in each]
    types = types_of(case)
    if not listed:
        if not types <= {"null", "boolean"}:
            return None
        return ([None] if "null" in types else []) + ([False, True] if "boolean" in types else [])
    first, *others = listed
    keys = [{key_of(value) for value in each} for each in others]
    return [value for value in first if type_of(value) in types and all(key_of(value) in each for each in keys)]


# What a case says


def said_by(case: Case, word: str) -> Any:
    """What a case says with this keyword; for people."""
    return next((hashable(each[word]) for each in case if word in each), None)


def about_property(case: Case, name: str) -> list[Schema]:
    """All that a case says about this property."""
    found: list[Schema] = []
    for each in case:
        mine = [schema for pattern, schema in each.get("patternProperties", {}).items() if re.search(pattern, name)]
        if name in each.get("properties", {}):
            mine.append(each["properties"][name])
        if not mine and "additionalProperties" in each:
            mine.append(each["additionalProperties"])
        found += mine
    return found


def about_element(case: Case, index: int | None) -> list[Schema]:
    """All that a case says about this element; None: those behind all that have a schema of their own."""
    found: list[Schema] = []
    for each in case:
        first = each.get("prefixItems", ())
        if index is not None and index < len(first):
            found.append(first[index])
        elif "items" in each:
            found.append(each["items"])
    return found


def most_items(case: Case) -> float:
    said = [each["maxItems"] for each in case if "maxItems" in each]
    said += [len(each.get("prefixItems", ())) for each in case if each.get("items") is False]
    return min(said, default=math.inf)
