"""JSON Schema 2020-12: where schemas are inside a schema, and the checks of schemas and data with `jsonschema`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ..errors import ConfigurationError, InvalidInput

Schema = Mapping[str, Any] | bool

DIALECT = "https://json-schema.org/draft/2020-12/schema"

ONE = frozenset({
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
"""Keywords whose value is a schema."""
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""
NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose value is an object of schemas."""

_ELSEWHERE = ("$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef")
_LONGEST = 80


def rebuilt(schema: Schema, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy in which this function was applied to every schema, the innermost first."""
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = {}
    for word, value in schema.items():
        if word in ONE:
            copy[word] = rebuilt(value, change)
        elif word in LISTED and isinstance(value, list | tuple):
            copy[word] = [rebuilt(each, change) for each in value]
        elif word in NAMED and isinstance(value, Mapping):
            copy[word] = {name: rebuilt(each, change) for name, each in value.items()}
        else:
            copy[word] = value
    return change(copy)


def inside(schema: Schema) -> Iterator[Mapping[str, Any]]:
    """Return this schema and those inside it."""
    found: list[Mapping[str, Any]] = []

    def note(each: dict[str, Any]) -> dict[str, Any]:
        found.append(each)
        return each

    rebuilt(schema, note)
    return iter(found)


def moved(schema: Schema, place: str) -> Any:
    """Return the schema with its references rewritten, for a document that has it at this place."""

    def move(each: dict[str, Any]) -> dict[str, Any]:
        if isinstance(each.get("$ref"), str):
            each["$ref"] = f"{place}{each['$ref'].removeprefix('#')}"
        found = each.get("discriminator")  # of OpenAPI; msgspec and pydantic write it beside tagged unions
        if isinstance(found, Mapping) and isinstance(found.get("mapping"), Mapping):
            mapping = {tag: f"{place}{str(target).removeprefix('#')}" for tag, target in found["mapping"].items()}
            each["discriminator"] = {**found, "mapping": mapping}
        return each

    return rebuilt(schema, move)


def found_at(document: Any, reference: str) -> Any:
    """Return the part of the document that a reference such as `#/$defs/Line` names; raises LookupError."""
    part = document
    if not reference.startswith("#") or reference[1:2] not in ("", "/"):
        raise LookupError(reference)
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            part = part[int(name)] if isinstance(part, list) else part[name]
        except (LookupError, TypeError, ValueError):
            raise LookupError(reference) from None
    return part


def resolved(schema: Mapping[str, Any], document: Any) -> Schema:
    """Return the schema that the `$ref` of this one names."""
    found: Schema = found_at(document, schema["$ref"])
    return found


class Checker:
    """Checks data against a schema that a user wrote. It needs the package `jsonschema`: the whole of 2020-12 holds."""

    def __init__(self, called: str, schema: object) -> None:
        try:
            import jsonschema
        except ImportError:
            raise ConfigurationError(
                f"{called}: schema= needs the package jsonschema; install it: pip install 'holdfast[contracts]'"
            ) from None
        self._called = called
        self.schema = _checked(called, schema)
        try:
            jsonschema.Draft202012Validator.check_schema(self.schema)
        except jsonschema.SchemaError as error:
            where = path("schema", error.absolute_path)
            raise ConfigurationError(f"{called}: {where} is not valid JSON Schema 2020-12: {error.message}") from None
        self._validator = jsonschema.Draft202012Validator(self.schema)
        self._best = jsonschema.exceptions.best_match

    def check(self, text: str) -> None:
        """Raise `InvalidInput` if this JSON does not fit."""
        error = self._best(self._validator.iter_errors(msgspec.json.decode(text)))
        if error is None:
            return
        where, expected = path("data", error.absolute_path), f"{error.validator} {shown(error.validator_value)}"
        match error.validator:
            case "required":
                missing = next(name for name in error.validator_value if name not in error.instance)
                raise InvalidInput(f"{where}.{missing}", f"is missing; {self._called} needs it")
            case "type":
                expected = " or ".join([error.validator_value] if isinstance(error.validator_value, str)
                                       else error.validator_value)  # fmt: skip
            case None:
                expected = "nothing"  # the schema is false
        raise InvalidInput(where, f"expected {expected}, got {shown(error.instance)}; it does not fit {self._called}")


def _checked(called: str, schema: object) -> dict[str, Any]:
    """Return a copy of the schema, without what would change the meaning of its references inside another document."""
    if not isinstance(schema, Mapping):
        raise ConfigurationError(
            f'{called}: schema: expected a JSON Schema, such as {{"type": "object"}}, got a {type(schema).__name__}'
        )
    try:
        plain = msgspec.json.decode(msgspec.json.encode(dict(schema)))
    except (TypeError, ValueError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{called}: schema: is not JSON: {error}") from None
    dialect = plain.pop("$schema", DIALECT)
    if str(dialect).removesuffix("#") != DIALECT:
        raise ConfigurationError(f"{called}: schema: expected JSON Schema 2020-12, which is {DIALECT}; got {dialect!r}")
    plain.pop("$id", None)  # it only names the schema: all references are inside
    for each in inside(plain):
        for word in _ELSEWHERE:
            if word in each:
                raise ConfigurationError(
                    f"{called}: schema: {word} cannot be exported; refer to parts of the schema by their place, such "
                    'as {"$ref": "#/$defs/Line"}'
                )
        if "$ref" in each:
            try:
                found_at(plain, str(each["$ref"]))
            except LookupError:
                raise ConfigurationError(
                    f"{called}: schema: expected a $ref to a part of this schema, such as #/$defs/Line, "
                    f"got {each['$ref']!r}"
                ) from None
    return dict(plain)


def path(root: str, steps: Any) -> str:
    """Return the place inside data: `data.lines[2].price`."""
    return root + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def shown(value: Any) -> str:
    """Return a value as JSON, cut if it is long."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
