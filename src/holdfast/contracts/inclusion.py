"""Does every value that fits one JSON Schema, the *inner* one, fit another, the *outer* one? If not: where.

The answer "yes" is a proof. "No" may be wrong for schemas that it cannot compare; a gap then names the keyword.
For every keyword of the outer schema, something in the inner one must imply it. So inner schemas are lists: values fit
all of them. `$ref` and `allOf` make these lists longer. `anyOf` and `oneOf` split them into *cases*, and each case must
fit. A keyword that is not listed in this module is an annotation, and says nothing about values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import msgspec

from .schemas import LISTED, NAMED, ONE, Schema, found_at

Kind = Literal["property", "required", "type", "enum", "constraint", "closed", "opaque"]

ALL = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
"""The types of values. JSON Schema's `number` is `integer` and `fraction`; 1.0 is an integer."""
NUMBERS = frozenset({"integer", "fraction"})

_CASES = 200
"""More cases than this of one schema are not compared."""
_ASSERTIONS = frozenset({
    "$ref", "additionalProperties", "allOf", "anyOf", "const", "contains", "contentEncoding", "contentMediaType",
    "dependentRequired", "dependentSchemas", "else", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "if",
    "items", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength",
    "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern", "patternProperties", "prefixItems",
    "properties", "propertyNames", "required", "then", "type", "unevaluatedItems", "unevaluatedProperties",
    "uniqueItems",
})  # fmt: skip

Case = Sequence[Mapping[str, Any]]


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


class TooComplex(Exception):
    """There are too many cases."""


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
        if not _asserts(outer):
            return []
        key = (*map(id, inner), "in", id(outer))
        if key in self._open:
            # A recursive type: what is asked again, one level deeper in the data, may be assumed. On the same level, it
            # would prove itself.
            return [] if self._open[key] < depth else [Gap(path, "opaque", "$ref")]
        self._open[key] = depth
        try:
            if len(inner) == 1 and _same(inner[0], self._inner, outer, self._outer):
                return []
            return self._compared(_cases(inner, self._inner) if not one_case else [inner], outer, path, depth)
        finally:
            del self._open[key]

    def _compared(self, cases: Sequence[Any], outer: Schema, path: str, depth: int) -> list[Gap]:
        cases = [case for case in cases if _possible(case)]
        found = frozenset[str]().union(*map(_types, cases))
        allowed = _allowed(outer, self._outer)
        if found and not allowed:
            return [Gap(path, "closed", path.rpartition(".")[2])]
        if found - allowed:
            return [Gap(path, "type", "type", named(found), named(allowed))]
        return [gap for case in cases for gap in self._case(case, outer, path, depth)]

    def _case(self, case: Case, outer: Schema, path: str, depth: int) -> list[Gap]:
        """The gaps of one case. It has values, and their types are allowed."""
        assert isinstance(outer, Mapping)
        types, found = _types(case), []
        if "$ref" in outer:
            found += self.gaps(case, _resolved(outer, self._outer), path, depth, one_case=True)
        for each in outer.get("allOf", ()):
            found += self.gaps(case, each, path, depth, one_case=True)
        for word in ("anyOf", "oneOf"):
            if word in outer:
                for part in _parts(case, types):
                    found += self._alternatives(part, outer[word], word == "oneOf", path, depth)
        found += _enum(case, outer, path)
        for name, rule in _SCALARS.items():
            if name in outer and not rule(case, outer[name]):
                found.append(Gap(path, "constraint", name, _said(case, name), outer[name]))
        if "string" in types:
            found += _encoding(case, outer, path)
        if "object" in types:
            found += self._object(case, outer, path, depth)
        if "array" in types:
            found += self._array(case, outer, path, depth)
        return found + self._opaque(case, outer, types, path)

    def _alternatives(self, case: Case, branches: Sequence[Schema], only: bool, path: str, depth: int) -> list[Gap]:
        types = _types(case)
        if not types:
            return []
        tried = [
            (self.gaps(case, branch, path, depth, one_case=True), branch)
            for branch in branches
            if types <= _allowed(branch, self._outer)
        ]
        if not tried:
            return [Gap(path, "opaque", "oneOf" if only else "anyOf")]
        found, best = min(tried, key=lambda each: sum(gap.serious for gap in each[0]))
        if only and not all(self._apart(case, branch) for branch in branches if branch is not best):
            return [*found, Gap(path, "opaque", "oneOf")]
        return found

    def _apart(self, case: Case, branch: Schema) -> bool:
        """Can no value fit both?"""
        return all(_disjoint(case, self._inner, other, self._outer) for other in _cases([branch], self._outer))

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
            inner = _property(case, name)
            if name not in named_here:
                if self._removals or not any(gap.word == name for gap in found):
                    found.append(Gap(f"{path}.{name}", "property", name, serious=self._removals))
                if self._removals or not inner:
                    continue
            found += self.gaps(inner, schema, f"{path}.{name}", depth + 1)
        for pattern, schema in patterns.items():
            found += self._pattern(case, pattern, schema, path, depth)
        if _asserts(outer.get("additionalProperties", True)):
            rest = outer["additionalProperties"]
            exempt = [name for name in named_here if name in properties or _matched(patterns, name)]
            for name in sorted(named_here - set(exempt)):
                found += self.gaps(_property(case, name), rest, f"{path}.{name}", depth + 1)
            found += self._others(case, rest, set(patterns), path, depth)
        if "propertyNames" in outer:
            names: list[Schema] = [{"type": "string"}, *(c["propertyNames"] for c in case if "propertyNames" in c)]
            if any(gap.serious for gap in self.gaps(names, outer["propertyNames"], path, depth + 1)):
                found.append(
                    Gap(
                        path,
                        "constraint",
                        "propertyNames",
                        _said(case, "propertyNames"),
                        _hashable(outer["propertyNames"]),
                    )
                )
        least = max([len(required), *(each.get("minProperties", 0) for each in case)])
        if outer.get("minProperties", 0) > least:
            found.append(Gap(path, "constraint", "minProperties", _said(case, "minProperties"), outer["minProperties"]))
        return found

    def _pattern(self, case: Case, pattern: str, schema: Schema, path: str, depth: int) -> list[Gap]:
        """Names that match a pattern of the outer schema: those that the inner one names, then all others."""
        place = f"{path}./{pattern}/"
        for each in case:
            if pattern in each.get("patternProperties", {}):
                return self.gaps([each["patternProperties"][pattern]], schema, place, depth + 1)
        names = {name for each in case for name in each.get("properties", ()) if re.search(pattern, name)}
        found = [gap for name in sorted(names)
                 for gap in self.gaps(_property(case, name), schema, f"{path}.{name}", depth + 1)]  # fmt: skip
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
        most, first = _most_items(case), outer.get("prefixItems", ())
        for index, schema in enumerate(first):
            if index < most:
                found += self.gaps(_element(case, index), schema, f"{path}[{index}]", depth + 1)
        if _asserts(outer.get("items", True)):
            longest = max(len(each.get("prefixItems", ())) for each in case) if case else 0
            for index in range(len(first), longest):
                if index < most:
                    found += self.gaps(_element(case, index), outer["items"], f"{path}[{index}]", depth + 1)
            if most > max(longest, len(first)):
                found += self.gaps(_element(case, None), outer["items"], f"{path}[]", depth + 1)
        if outer.get("maxItems", math.inf) < most:
            found.append(Gap(path, "constraint", "maxItems", _said(case, "maxItems"), outer["maxItems"]))
        if outer.get("uniqueItems") is True and most > 1 and not any(each.get("uniqueItems") is True for each in case):
            found.append(Gap(path, "constraint", "uniqueItems", _said(case, "uniqueItems"), True))
        return found

    # What is compared as a whole

    def _opaque(self, case: Case, outer: Mapping[str, Any], types: frozenset[str], path: str) -> list[Gap]:
        found = []
        for words, about in _OPAQUE:
            if words[0] not in outer or not about & types:
                continue
            wanted = {word: outer[word] for word in words if word in outer}
            if words[0].startswith("unevaluated") or not any(
                _same({word: each[word] for word in words if word in each}, self._inner, wanted, self._outer)
                for each in case
            ):
                found.append(Gap(path, "opaque", words[0]))
        return found


_OPAQUE: Sequence[tuple[Sequence[str], frozenset[str]]] = (
    (("not",), ALL),
    (("if", "then", "else"), ALL),
    (("contains", "minContains", "maxContains"), frozenset({"array"})),
    (("dependentRequired",), frozenset({"object"})),
    (("dependentSchemas",), frozenset({"object"})),
    (("unevaluatedProperties",), frozenset({"object"})),
    (("unevaluatedItems",), frozenset({"array"})),
)

# Cases


def _cases(schemas: Sequence[Schema], document: Any) -> list[Case]:
    found: list[Case] = []
    for case in _expanded(list(schemas), [], [], document):
        found.append(case)
        if len(found) > _CASES:
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
            todo.append(_resolved(schema, document))
        todo.extend(schema.get("allOf", ()))
        splits.extend(schema[word] for word in ("anyOf", "oneOf") if word in schema)
    if not splits:
        yield done
        return
    branches, *others = splits
    for branch in branches:
        yield from _expanded([branch], list(others), list(done), document)


def _parts(case: Case, types: frozenset[str]) -> Iterator[Case]:
    """One case for each listed value, or else for each type, so that each can fit another alternative."""
    values = _values(case)
    if values is not None and len(values) <= _CASES:
        for value in values:
            yield [*case, {"const": value}]
    elif len(types) == 1 or types == NUMBERS:
        yield case
    else:
        numbers = {"number"} if "fraction" in types else types & {"integer"}
        for name in sorted((types - NUMBERS) | numbers):
            yield [*case, {"type": name}]


def _resolved(schema: Mapping[str, Any], document: Any) -> Schema:
    found: Schema = found_at(document, schema["$ref"])
    return found


def _possible(case: Case) -> bool:
    return bool(_types(case)) and _values(case) != []


def _disjoint(case: Case, document: Any, other: Case, other_document: Any, levels: int = 3) -> bool:
    """Can no value fit both? Found by their types, their values, or those of a property that one of them requires."""
    both = _types(case) & _types(other)
    if not both:
        return True
    values, others = _values(case), _values(other)
    if values is not None and others is not None and not {_key(v) for v in values} & {_key(v) for v in others}:
        return True
    if both != {"object"} or not levels:
        return False
    required = {name for each in (*case, *other) for name in each.get("required", ())}
    return any(
        all(
            _disjoint(mine, document, theirs, other_document, levels - 1)
            for mine in _cases(_property(case, name), document)
            for theirs in _cases(_property(other, name), other_document)
        )
        for name in sorted(required)
    )


# Types and values


def _types(case: Case) -> frozenset[str]:
    found = ALL
    for each in case:
        found &= _own_types(each)
    return found


def _own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    found = ALL
    if "type" in schema:
        said = schema["type"]
        found = frozenset(
            kind
            for name in ([said] if isinstance(said, str) else said)
            for kind in (NUMBERS if name == "number" else (name,))
        )
    for word in ("enum", "const"):
        if word in schema:
            found &= {_type_of(value) for value in (schema["enum"] if word == "enum" else [schema["const"]])}
    return found


def _allowed(schema: Schema, document: Any, seen: tuple[int, ...] = ()) -> frozenset[str]:
    """The types that a schema may accept."""
    if schema is False:
        return frozenset()
    if not isinstance(schema, Mapping) or id(schema) in seen:
        return ALL
    seen = (*seen, id(schema))
    found = _own_types(schema)
    if "$ref" in schema:
        found &= _allowed(_resolved(schema, document), document, seen)
    for each in schema.get("allOf", ()):
        found &= _allowed(each, document, seen)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            found &= frozenset[str]().union(*(_allowed(each, document, seen) for each in schema[word]))
    return found


def named(types: Iterable[str]) -> tuple[str, ...]:
    """The types in JSON Schema's words."""
    found = set(types)
    if found == ALL:
        return ("any type",)
    return tuple(sorted((found - NUMBERS) | ({"number"} if "fraction" in found else found & NUMBERS)))


def _type_of(value: Any) -> str:
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


def _values(case: Case) -> list[Any] | None:
    """All values of a case, if they are listed; None: there are too many."""
    listed = [each["enum"] for each in case if "enum" in each] + [[each["const"]] for each in case if "const" in each]
    types = _types(case)
    if not listed:
        if not types <= {"null", "boolean"}:
            return None
        return ([None] if "null" in types else []) + ([False, True] if "boolean" in types else [])
    first, *others = listed
    keys = [{_key(value) for value in each} for each in others]
    return [value for value in first if _type_of(value) in types and all(_key(value) in each for each in keys)]


def _key(value: Any) -> str:
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


def _enum(case: Case, outer: Mapping[str, Any], path: str) -> list[Gap]:
    found = []
    for word in ("enum", "const"):
        if word not in outer:
            continue
        allowed = outer["enum"] if word == "enum" else [outer["const"]]
        keys = {_key(value) for value in allowed}
        values = _values(case)
        if values is None:
            found.append(Gap(path, "enum", word, None, _hashable(allowed)))
        elif more := [value for value in values if _key(value) not in keys]:
            found.append(Gap(path, "enum", word, _hashable(more), _hashable(allowed)))
    return found


# Rules about scalars and sizes


def _of(types: frozenset[str], holds: Callable[[Any, Any], bool], implied: Callable[[Case, Any], bool]) -> Any:
    """A rule: it holds for all values if they are listed, or something in the case implies it."""

    def rule(case: Case, outer: Any) -> bool:
        if not _types(case) & types:
            return True
        values = _values(case)
        if values is not None and not {_type_of(value) for value in values} & {"object", "array"}:
            return all(holds(value, outer) for value in values if _type_of(value) in types)
        return implied(case, outer)

    return rule


def _lowest(case: Case) -> tuple[float, bool]:
    """The lowest number, and whether it is excluded."""
    found = [(each["minimum"], False) for each in case if "minimum" in each]
    found += [(each["exclusiveMinimum"], True) for each in case if "exclusiveMinimum" in each]
    return max(found, default=(-math.inf, False))


def _highest(case: Case) -> tuple[float, bool]:
    found = [(each["maximum"], False) for each in case if "maximum" in each]
    found += [(each["exclusiveMaximum"], True) for each in case if "exclusiveMaximum" in each]
    return min(found, key=lambda each: (each[0], not each[1]), default=(math.inf, False))


def _multiple(case: Case, outer: Any) -> bool:
    steps = [each["multipleOf"] for each in case if "multipleOf" in each] + [1] * (
        _types(case) & NUMBERS == {"integer"}
    )
    return any((Fraction(str(step)) / Fraction(str(outer))).denominator == 1 for step in steps)


def _at_least(word: str) -> Callable[[Case, Any], bool]:
    return lambda case, outer: outer <= max((each.get(word, 0) for each in case), default=0)


def _at_most(word: str) -> Callable[[Case, Any], bool]:
    return lambda case, outer: outer >= min((each.get(word, math.inf) for each in case), default=math.inf)


def _equal(word: str) -> Callable[[Case, Any], bool]:
    return lambda case, outer: any(each.get(word) == outer for each in case)


def _never(value: Any, outer: Any) -> bool:
    return False


_TEXT, _OBJECT, _ARRAY = frozenset({"string"}), frozenset({"object"}), frozenset({"array"})
_SCALARS: Mapping[str, Callable[[Case, Any], bool]] = {
    "minimum": _of(NUMBERS, lambda v, m: v >= m, lambda case, m: _lowest(case)[0] >= m),
    "maximum": _of(NUMBERS, lambda v, m: v <= m, lambda case, m: _highest(case)[0] <= m),
    "exclusiveMinimum": _of(NUMBERS, lambda v, m: v > m, lambda case, m: _lowest(case) >= (m, True)),
    "exclusiveMaximum": _of(
        NUMBERS,
        lambda v, m: v < m,
        lambda case, m: _highest(case)[0] < m or _highest(case) == (m, True),
    ),
    "multipleOf": _of(NUMBERS, lambda v, m: (Fraction(str(v)) / Fraction(str(m))).denominator == 1, _multiple),
    "minLength": _of(_TEXT, lambda v, m: len(v) >= m, _at_least("minLength")),
    "maxLength": _of(_TEXT, lambda v, m: len(v) <= m, _at_most("maxLength")),
    "pattern": _of(_TEXT, lambda v, p: re.search(p, v) is not None, _equal("pattern")),
    "format": lambda case, outer: not _types(case) & (_TEXT | NUMBERS) or _equal("format")(case, outer),
    "minItems": _of(_ARRAY, _never, _at_least("minItems")),
    "maxProperties": _of(_OBJECT, _never, _at_most("maxProperties")),
}


def _encoding(case: Case, outer: Mapping[str, Any], path: str) -> list[Gap]:
    """By the letter these are annotations. But text that is base64 now, or no longer, is another type."""
    found = []
    for word in ("contentEncoding", "contentMediaType"):
        said = _said(case, word)
        if said != outer.get(word) and (word in outer or outer.get("type") == "string"):
            found.append(Gap(path, "constraint", word, said, outer.get(word)))
    return found


def _said(case: Case, word: str) -> Any:
    """What a case says with this keyword; for people."""
    return next((_hashable(each[word]) for each in case if word in each), None)


def _hashable(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, list | dict) else value


# Parts


def _matched(patterns: Iterable[str], name: str) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)


def _property(case: Case, name: str) -> list[Schema]:
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


def _element(case: Case, index: int | None) -> list[Schema]:
    """All that a case says about this element; None: those behind all that have a schema of their own."""
    found: list[Schema] = []
    for each in case:
        first = each.get("prefixItems", ())
        if index is not None and index < len(first):
            found.append(first[index])
        elif "items" in each:
            found.append(each["items"])
    return found


def _most_items(case: Case) -> float:
    said = [each["maxItems"] for each in case if "maxItems" in each]
    said += [len(each.get("prefixItems", ())) for each in case if each.get("items") is False]
    return min(said, default=math.inf)


def _asserts(schema: Schema) -> bool:
    if not isinstance(schema, Mapping | bool):
        raise TypeError(f"expected a schema, got {schema!r}")
    return not schema if isinstance(schema, bool) else not _ASSERTIONS.isdisjoint(schema)


# Equality


def _same(schema: Schema, document: Any, other: Schema, other_document: Any) -> bool:
    return _key(_canonical(schema, document, ())) == _key(_canonical(other, other_document, ()))


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
            plain[word] = _canonical(_resolved(schema, document), document, inner)
        elif word in ONE:
            plain[word] = _canonical(value, document, inner)
        elif word in LISTED:
            plain[word] = [_canonical(each, document, inner) for each in value]
        elif word in NAMED:
            plain[word] = {name: _canonical(each, document, inner) for name, each in value.items()}
        else:
            plain[word] = sorted(value) if word == "required" else value
    return plain
