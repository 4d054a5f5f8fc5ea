"""The rules for keywords about scalars and sizes: does every value of a case fit what a keyword says?"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from .cases import Case, types_of, values_of
from .values import NUMBERS, type_of


def _of(types: frozenset[str], holds: Callable[[Any, Any], bool], implied: Callable[[Case, Any], bool]) -> Any:
    """A rule: it holds for all values if they are listed, or something in the case implies it."""

    def rule(case: Case, outer: Any) -> bool:
        if not types_of(case) & types:
            return True
        values = values_of(case)
        if values is not None and not {type_of(value) for value in values} & {"object", "array"}:
            return all(holds(value, outer) for value in values if type_of(value) in types)
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
        types_of(case) & NUMBERS == {"integer"}
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
RULES: Mapping[str, Callable[[Case, Any], bool]] = {
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
    "format": lambda case, outer: not types_of(case) & (_TEXT | NUMBERS) or _equal("format")(case, outer),
    "minItems": _of(_ARRAY, _never, _at_least("minItems")),
    "maxProperties": _of(_OBJECT, _never, _at_most("maxProperties")),
}
