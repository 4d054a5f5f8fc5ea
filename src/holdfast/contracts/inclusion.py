"""Does every value that fits one JSON Schema, the *inner* one, fit another, the *outer* one? If not: where.

The answer "yes" is a proof. "No" may be wrong for schemas that it cannot compare; a gap then names the keyword.
For every keyword of the outer schema, something in the inner one must imply it. So inner schemas are lists: values fit
all of them. `$ref` and `allOf` make these lists longer. `anyOf` and `oneOf` split them into *cases*, and each case must
fit. A keyword that is not listed in `assertions.py` is an annotation, and says nothing about values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from .assertions import asserts, same
from .cases import (
    Case,
    TooComplex,
    about_element,
    about_property,
    allowed_types,
    cases_of,
    disjoint,
    most_items,
    parts_of,
    possible,
    said_by,
    types_of,
    values_of,
)
from .scalars import RULES
from .schemas import Schema, resolved
from .values import TYPES, hashable, key_of, named

Kind = Literal["property", "required", "type", "enum", "constraint", "closed", "opaque"]


class Gap(msgspec.Struct, frozen=True):
    """A place where values fit the inner schema, and perhaps not the outer one."""

    path: str
    """`data.lines[].price`"""
    kind: Kind
    word: str
    """The keyword, or the name of the property."""
    inner: Any = None
    """What the inner schema says."""
    outer: Any = None
    """What the outer schema says."""
    known: bool = True
    """Does the inner schema name the property?"""
    serious: bool = True
    """False: the outer schema names a property that the inner one does not name."""


def gaps(inner: Schema, inner_document: Any, outer: Schema, outer_document: Any, *, removals: bool) -> list[Gap]:
    """Return the gaps; none: every value that fits the inner schema fits the outer one.

    `removals`: a property that only the outer schema names is a serious gap, even if any value of it fits. Otherwise,
    it is assumed that values of the inner schema do not have the property.
    """
    proof = _Proof(inner_document, outer_document, removals)
    try:
        return list(dict.fromkeys(proof.gaps([inner], outer, "data", 0)))
    except (TooComplex, RecursionError):
        return [Gap("data", "opaque", "anyOf")]
    except re.error:
        return [Gap("data", "opaque", "pattern")]


class _Proof:
    def __init__(self, inner: Any, outer: Any, removals: bool) -> None:
        self._inner = inner
        self._outer = outer
        self._removals = removals
        self._open: dict[tuple[Any, ...], int] = {}

    def gaps(
        self, inner: Sequence[Schema], outer: Schema, path: str, depth: int, *, one_case: bool = False
    ) -> list[Gap]:
        """The gaps between values that fit all inner schemas, and the outer one. `one_case`: they are one already."""
        if not asserts(outer):
            return []
        key = (*map(id, inner), "in", id(outer))
        if key in self._open:
            # A recursive type: what is asked again, one level deeper in the data, may be assumed. On the same level, it
            # would prove itself.
            return [] if self._open[key] < depth else [Gap(path, "opaque", "$ref")]
        self._open[key] = depth
        try:
            if len(inner) == 1 and same(inner[0], self._inner, outer, self._outer):
                return []
            return self._compared(cases_of(inner, self._inner) if not one_case else [inner], outer, path, depth)
        finally:
            del self._open[key]

    def _compared(self, cases: Sequence[Any], outer: Schema, path: str, depth: int) -> list[Gap]:
        cases = [case for case in cases if possible(case)]
        found = frozenset[str]().union(*map(types_of, cases))
        allowed = allowed_types(outer, self._outer)
        if found and not allowed:
            return [Gap(path, "closed", path.rpartition(".")[2])]
        if found - allowed:
            return [Gap(path, "type", "type", named(found), named(allowed))]
        return [gap for case in cases for gap in self._case(case, outer, path, depth)]

    def _case(self, case: Case, outer: Schema, path: str, depth: int) -> list[Gap]:
        """The gaps of one case. It has values, and their types are allowed."""
        assert isinstance(outer, Mapping)
        types, found = types_of(case), []
        if "$ref" in outer:
            found += self.gaps(case, resolved(outer, self._outer), path, depth, one_case=True)
        for each in outer.get("allOf", ()):
            found += self.gaps(case, each, path, depth, one_case=True)
        for word in ("anyOf", "oneOf"):
            if word in outer:
                for part in parts_of(case, types):
                    found += self._alternatives(part, outer[word], word == "oneOf", path, depth)
        found += _enum(case, outer, path)
        for name, rule in RULES.items():
            if name in outer and not rule(case, outer[name]):
                found.append(Gap(path, "constraint", name, said_by(case, name), outer[name]))
        if "string" in types:
            found += _encoding(case, outer, path)
        if "object" in types:
            found += self._object(case, outer, path, depth)
        if "array" in types:
            found += self._array(case, outer, path, depth)
        return found + self._opaque(case, outer, types, path)

    def _alternatives(self, case: Case, branches: Sequence[Schema], only: bool, path: str, depth: int) -> list[Gap]:
        types = types_of(case)
        if not types:
            return []
        tried = [
            (self.gaps(case, branch, path, depth, one_case=True), branch)
            for branch in branches
            if types <= allowed_types(branch, self._outer)
        ]
        if not tried:
            return [Gap(path, "opaque", "oneOf" if only else "anyOf")]
        found, best = min(tried, key=lambda each: sum(gap.serious for gap in each[0]))
        if only and not all(self._apart(case, branch) for branch in branches if branch is not best):
            return [*found, Gap(path, "opaque", "oneOf")]
        return found

    def _apart(self, case: Case, branch: Schema) -> bool:
        """Can no value fit both?"""
        return all(disjoint(case, self._inner, other, self._outer) for other in cases_of([branch], self._outer))

    # Objects

    def _object(self, case: Case, outer: Mapping[str, Any], path: str, depth: int) -> list[Gap]:
        found: list[Gap] = []
        named_here = {name for each in case for name in each.get("properties", ())}
        required = {name for each in case for name in each.get("required", ())}
        properties, patterns = outer.get("properties", {}), outer.get("patternProperties", {})
        for name in outer.get("required", ()):
            if name not in required and not (self._removals and name in properties and name not in named_here):
                found.append(Gap(f"{path}.{name}", "required", name, known=name in named_here))
        for name, schema in properties.items():
            inner = about_property(case, name)
            if name not in named_here:
                if self._removals or not any(gap.word == name for gap in found):
                    found.append(Gap(f"{path}.{name}", "property", name, serious=self._removals))
                if self._removals or not inner:
                    continue
            found += self.gaps(inner, schema, f"{path}.{name}", depth + 1)
        for pattern, schema in patterns.items():
            found += self._pattern(case, pattern, schema, path, depth)
        if asserts(outer.get("additionalProperties", True)):
            rest = outer["additionalProperties"]
            exempt = [name for name in named_here if name in properties or _matched(patterns, name)]
            for name in sorted(named_here - set(exempt)):
                found += self.gaps(about_property(case, name), rest, f"{path}.{name}", depth + 1)
            found += self._others(case, rest, set(patterns), path, depth)
        if "propertyNames" in outer:
            names: list[Schema] = [{"type": "string"}, *(c["propertyNames"] for c in case if "propertyNames" in c)]
            if any(gap.serious for gap in self.gaps(names, outer["propertyNames"], path, depth + 1)):
                found.append(
                    Gap(
                        path,
                        "constraint",
                        "propertyNames",
                        said_by(case, "propertyNames"),
                        hashable(outer["propertyNames"]),
                    )
                )
        least = max([len(required), *(each.get("minProperties", 0) for each in case)])
        if outer.get("minProperties", 0) > least:
            found.append(
                Gap(path, "constraint", "minProperties", said_by(case, "minProperties"), outer["minProperties"])
            )
        return found

    def _pattern(self, case: Case, pattern: str, schema: Schema, path: str, depth: int) -> list[Gap]:
        """Names that match a pattern of the outer schema: those that the inner one names, then all others."""
        place = f"{path}./{pattern}/"
        for each in case:
            if pattern in each.get("patternProperties", {}):
                return self.gaps([each["patternProperties"][pattern]], schema, place, depth + 1)
        names = {name for each in case for name in each.get("properties", ()) if re.search(pattern, name)}
        found = [gap for name in sorted(names)
                 for gap in self.gaps(about_property(case, name), schema, f"{path}.{name}", depth + 1)]  # fmt: skip
        return found + self._others(case, schema, set(), place, depth)

    def _others(self, case: Case, rest: Schema, exempt: set[str], path: str, depth: int) -> list[Gap]:
        """The properties that the inner schema does not name: those that match its patterns, and all others."""
        found: list[Gap] = []
        for each in case:
            for pattern, schema in each.get("patternProperties", {}).items():
                if pattern not in exempt:
                    found += self.gaps([schema], rest, f"{path}./{pattern}/", depth + 1)
        general = [each["additionalProperties"] for each in case if "additionalProperties" in each]
        return found + self.gaps(general, rest, f"{path}.*", depth + 1)

    # Arrays

    def _array(self, case: Case, outer: Mapping[str, Any], path: str, depth: int) -> list[Gap]:
        found: list[Gap] = []
        most, first = most_items(case), outer.get("prefixItems", ())
        for index, schema in enumerate(first):
            if index < most:
                found += self.gaps(about_element(case, index), schema, f"{path}[{index}]", depth + 1)
        if asserts(outer.get("items", True)):
            longest = max(len(each.get("prefixItems", ())) for each in case) if case else 0
            for index in range(len(first), longest):
                if index < most:
                    found += self.gaps(about_element(case, index), outer["items"], f"{path}[{index}]", depth + 1)
            if most > max(longest, len(first)):
                found += self.gaps(about_element(case, None), outer["items"], f"{path}[]", depth + 1)
        if outer.get("maxItems", math.inf) < most:
            found.append(Gap(path, "constraint", "maxItems", said_by(case, "maxItems"), outer["maxItems"]))
        if outer.get("uniqueItems") is True and most > 1 and not any(each.get("uniqueItems") is True for each in case):
            found.append(Gap(path, "constraint", "uniqueItems", said_by(case, "uniqueItems"), True))
        return found

    # What is compared as a whole

    def _opaque(self, case: Case, outer: Mapping[str, Any], types: frozenset[str], path: str) -> list[Gap]:
        found = []
        for words, about in _OPAQUE:
            if words[0] not in outer or not about & types:
                continue
            wanted = {word: outer[word] for word in words if word in outer}
            if words[0].startswith("unevaluated") or not any(
                same({word: each[word] for word in words if word in each}, self._inner, wanted, self._outer)
                for each in case
            ):
                found.append(Gap(path, "opaque", words[0]))
        return found


_OPAQUE: Sequence[tuple[Sequence[str], frozenset[str]]] = (
    (("not",), TYPES),
    (("if", "then", "else"), TYPES),
    (("contains", "minContains", "maxContains"), frozenset({"array"})),
    (("dependentRequired",), frozenset({"object"})),
    (("dependentSchemas",), frozenset({"object"})),
    (("unevaluatedProperties",), frozenset({"object"})),
    (("unevaluatedItems",), frozenset({"array"})),
)


def _enum(case: Case, outer: Mapping[str, Any], path: str) -> list[Gap]:
    found = []
    for word in ("enum", "const"):
        if word not in outer:
            continue
        allowed = outer["enum"] if word == "enum" else [outer["const"]]
        keys = {key_of(value) for value in allowed}
        values = values_of(case)
        if values is None:
            found.append(Gap(path, "enum", word, None, hashable(allowed)))
        elif more := [value for value in values if key_of(value) not in keys]:
            found.append(Gap(path, "enum", word, hashable(more), hashable(allowed)))
    return found


def _encoding(case: Case, outer: Mapping[str, Any], path: str) -> list[Gap]:
    """By the letter these are annotations. But text that is base64 now, or no longer, is another type."""
    found = []
    for word in ("contentEncoding", "contentMediaType"):
        said = said_by(case, word)
        if said != outer.get(word) and (word in outer or outer.get("type") == "string"):
            found.append(Gap(path, "constraint", word, said, outer.get(word)))
    return found


def _matched(patterns: Iterable[str], name: str) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)
