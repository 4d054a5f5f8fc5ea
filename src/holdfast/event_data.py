"""The data of events as Python classes: its JSON Schema, and how it is checked and encoded when it is published."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from functools import partial
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import inspect as types

from . import parameters
from .contracts.schemas import Checker, Schema, inside, path, shown
from .contracts.types import Encode, EventType, called
from .errors import ConfigurationError, InvalidInput
from .model import payload
from .model.limits import Limits


def of_schema(type: str, version: int, schema: object) -> EventType:
    """An event type whose data fits a JSON Schema."""
    checker = Checker(called(type, version), schema)

    def encode(data: Any, limits: Limits) -> str:
        text = payload.encode_data("data", data, limits)
        checker.check(text)
        return text

    return EventType(type=type, version=version, schema=checker.schema, encode=encode)


def of_class(type: str, version: int, python: Any) -> EventType:
    """An event type whose data is a msgspec struct, a dataclass or a pydantic model."""
    name = called(type, version)
    if not isinstance(python, _TYPE) or not (
        issubclass(python, msgspec.Struct) or dataclasses.is_dataclass(python) or _is_pydantic(python)
    ):
        shown_as = f"the class {python.__qualname__}" if isinstance(python, _TYPE) else f"a {_TYPE(python).__name__}"
        raise ConfigurationError(
            f"{name}: expected a msgspec Struct, a dataclass or a pydantic model below @hf.event(…), got {shown_as}"
        )
    encode = _Model(name, python) if _is_pydantic(python) else _Plain(name, python)
    return EventType(
        type=type, version=version, schema=schema_of(name, python), encode=typing.cast(Encode, encode), python=python
    )


_TYPE = type


def _is_pydantic(hint: Any) -> bool:
    return hasattr(hint, "model_validate") or hasattr(hint, "__pydantic_validator__")


# Schemas


def schema_of(name: str, hint: Any, *, consumed: bool = False) -> Schema:
    """The JSON Schema of a Python type: of what is written, or if it is consumed, of what is accepted."""
    if isinstance(hint, typing.TypeVar):
        return {}  # Event, without saying of what
    if _is_pydantic(hint) or parameters._has_pydantic_rules(hint):
        return _of_pydantic(name, hint, consumed)
    collected: dict[str, Any] = {}

    def describe(kind: type) -> dict[str, Any]:
        if _is_pydantic(kind):
            found = dict(_of_pydantic(name, kind, consumed))
            _collect(name, collected, found.pop("$defs", {}))
            if "$ref" in found:  # it contains itself
                return found
            _collect(name, collected, {kind.__name__: found})
            return {"$ref": f"#/$defs/{kind.__name__}"}
        if issubclass(kind, PurePath):
            return {"type": "string", "format": "path"}
        raise NotImplementedError

    try:
        (root,), components = msgspec.json.schema_components(
            [hint], schema_hook=describe, ref_template="#/$defs/{name}"
        )
    except (TypeError, ValueError, NotImplementedError) as error:
        raise ConfigurationError(f"{name}: its data has no JSON Schema: {error}") from None
    _mark_times(hint, root, components)
    _collect(name, collected, components)
    return _unfolded({**root, "$defs": collected} if collected else root)


def _mark_times(hint: Any, root: dict[str, Any], components: dict[str, Any]) -> None:
    """Say that datetimes are such. msgspec says only "string", because it also writes those without a time zone; they
    are rejected here. Without it, a time that becomes any text would be no change."""
    info = types.type_info(hint)
    _mark(info, root)
    for each in parameters._inside(info):
        if isinstance(each, _WITH_FIELDS):
            schema = components.get(each.cls.__name__, {})
            for field in each.fields:
                _mark(field.type, schema.get("properties", {}).get(field.encode_name, {}))


_WITH_FIELDS = (types.StructType, types.DataclassType, types.TypedDictType)


def _mark(info: Any, schema: Any) -> None:
    if not isinstance(schema, dict):
        return
    match info:
        case types.Metadata(inner):
            _mark(inner, schema)
        case types.DateTimeType() if schema.get("type") == "string":
            schema["format"] = "date-time"
        case types.UnionType(parts):
            for part in parts:  # at most one is text, and one a list: msgspec could not tell them apart
                for each in schema.get("anyOf", ()):
                    _mark(part, each)
        case types.ListType(inner) | types.SetType(inner) | types.FrozenSetType(inner) | types.VarTupleType(inner):
            _mark(inner, schema.get("items", {}))
        case types.TupleType(parts):
            for part, each in zip(parts, schema.get("prefixItems", ()), strict=False):
                _mark(part, each)
        case types.DictType(_, inner):
            _mark(inner, schema.get("additionalProperties", {}))


def _of_pydantic(name: str, hint: Any, consumed: bool) -> dict[str, Any]:
    from pydantic import PydanticUserError, TypeAdapter

    try:
        schema = TypeAdapter(hint).json_schema(mode="validation" if consumed else "serialization")
    except PydanticUserError as error:
        raise ConfigurationError(f"{name}: its data has no JSON Schema: {error}") from None
    return _unfolded(schema)


def _collect(name: str, collected: dict[str, Any], found: Mapping[str, Any]) -> None:
    for component, schema in found.items():
        if collected.setdefault(component, schema) != schema:
            raise ConfigurationError(f"{name}: its data has two types called {component}; rename one of them")


def _unfolded(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the reference at its top, unless the type contains itself."""
    target = schema.get("$ref", "").removeprefix("#/$defs/")
    if target not in schema.get("$defs", {}):
        return schema
    if sum(each.get("$ref") == schema["$ref"] for each in inside(schema)) > 1:
        return schema
    others = {name: each for name, each in schema["$defs"].items() if name != target}
    return {**schema["$defs"][target], **({"$defs": others} if others else {})}


# Data


class _Plain:
    """Structs and dataclasses: msgspec writes them, and reads what it has written, which checks the types."""

    def __init__(self, name: str, python: type) -> None:
        self._name = name
        self._python = python
        stored_as, convert = parameters.read(name, "data", python)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(stored_as, dec_hook=parameters.from_plain)
        parts = list(parameters._inside(types.type_info(python)))
        if convert is None and any(isinstance(each, types.CustomType) for each in parts):
            convert = partial(payload.softened, binary=False, paths=False)  # pydantic's models inside
        self._soften: parameters.Convert = _same
        if isinstance(convert, partial):
            self._soften = partial(payload.softened, **convert.keywords, by_alias=True)
        found = [each for each in parts if isinstance(each, types.StructType | types.DataclassType)]
        for each in found:
            _check_rules(name, each.cls)
        self._omitted = frozenset(
            field.encode_name
            for each in found
            if isinstance(each, types.StructType) and each.cls.__struct_config__.omit_defaults
            for field in each.fields
        )

    def __call__(self, data: Any, limits: Limits) -> str:
        text = payload.encode_data("data", self._soften(data), limits)
        try:
            read = self._decoder.decode(text)
        except msgspec.ValidationError as error:
            raise _refused(self._name, error, text) from None
        if type(data) is self._python:
            return text
        written = payload.encode_data("data", self._soften(read), limits)
        _check_kept(self._name, text, written, self._omitted)
        return written


class _Model:
    """Pydantic's models and dataclasses. They check values when they are made, and are written by their aliases."""

    def __init__(self, name: str, python: type) -> None:
        from pydantic import TypeAdapter

        self._name = name
        self._python = python
        self._adapter: TypeAdapter[Any] = TypeAdapter(python)
        written = _names(self._adapter.json_schema(mode="serialization"))
        read = [_names(self._adapter.json_schema(mode="validation", by_alias=each)) for each in (True, False)]
        self._omitted = frozenset().union(*read) - written

    def __call__(self, data: Any, limits: Limits) -> str:
        if type(data) is self._python:
            return self._write(data, limits)
        text = payload.encode_data("data", payload.softened(data, binary=False, paths=True), limits)
        try:
            read = self._adapter.validate_json(text)
        except ValueError as error:  # pydantic's
            raise _refused_by_pydantic(self._name, "data", error) from None
        written = self._write(read, limits)
        _check_kept(self._name, text, written, self._omitted)
        return written

    def _write(self, data: Any, limits: Limits) -> str:
        from pydantic_core import PydanticSerializationError

        try:
            plain = self._adapter.dump_python(data, mode="json", by_alias=True, warnings="error")
        except PydanticSerializationError as error:
            line = next((line for line in str(error).splitlines() if "field_name='" in line), str(error)).strip()
            field = re.search(r"field_name='(\w+)'", line)
            where = f"data.{field[1]}" if field else "data"
            raise InvalidInput(where, f"does not fit {self._name}: {line}") from None
        return payload.encode_data("data", plain, limits)


def _same(value: Any) -> Any:
    return value


def _check_rules(name: str, python: type) -> None:
    for field, hint in typing.get_type_hints(python, include_extras=True).items():
        if parameters._has_pydantic_rules(hint):
            raise ConfigurationError(
                f"{name}: {python.__qualname__}.{field} has rules of pydantic, which only a pydantic model checks; "
                "make it one, or use msgspec.Meta"
            )


def _names(schema: Any) -> frozenset[str]:
    return frozenset(name for each in inside(schema) for name in each.get("properties", ()))


def _check_kept(name: str, given: str, written: str, omitted: frozenset[str]) -> None:
    """Raise `InvalidInput` if a property of the given data was not taken: it is probably misspelled."""
    where = _lost(msgspec.json.decode(given), msgspec.json.decode(written), "data", omitted)
    if where is not None:
        raise InvalidInput(where, f"is not a property of {name}; remove it, or declare it in a new version")


def _lost(given: Any, written: Any, where: str, omitted: frozenset[str]) -> str | None:
    pairs: list[tuple[str, Any, Any]] = []
    if isinstance(given, dict) and isinstance(written, dict):
        for key in given:
            if key in written:
                pairs.append((f"{where}.{key}", given[key], written[key]))
            elif key not in omitted:
                return f"{where}.{key}"
    elif isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        pairs = [(f"{where}[{n}]", mine, written[n]) for n, mine in enumerate(given)]
    found = (_lost(mine, theirs, at, omitted) for at, mine, theirs in pairs)
    return next((each for each in found if each is not None), None)


# Errors


def _refused(name: str, error: msgspec.ValidationError, text: str) -> InvalidInput:
    """msgspec's error in our words: what was expected, what came, and where."""
    message, _, place = str(error).rpartition(" - at `")
    if not message:
        message, place = str(error), "$`"
    where = f"data{place.rpartition('$')[2].removesuffix('`')}"
    if error.__cause__ is not None and hasattr(error.__cause__, "errors"):
        return _refused_by_pydantic(name, where, error.__cause__)
    if missing := re.fullmatch(r"Object missing required field `(.+)`", message):
        return InvalidInput(f"{where}.{missing[1]}", f"is missing; {name} needs it")
    if unknown := re.fullmatch(r"Object contains unknown field `(.+)`", message):
        return InvalidInput(f"{where}.{unknown[1]}", f"is not a property of {name}; remove it")
    if ", got " not in message:
        message += _came(msgspec.json.decode(text), where)
    return InvalidInput(where, f"{message[0].lower()}{message[1:]}; it does not fit {name}")


def _came(value: Any, where: str) -> str:
    """The value there, as far as the path says it: msgspec writes [...] for any key of a dict."""
    for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]*)\]", where.removeprefix("data")):
        try:
            value = value[int(index)] if index else value[name]
        except (LookupError, TypeError, ValueError):
            return ""
    return f", got {shown(value)}"


def _refused_by_pydantic(name: str, where: str, error: Any) -> InvalidInput:
    """The first of pydantic's errors."""
    first = error.errors(include_url=False)[0]
    at = path(where, first["loc"])
    if first["type"] == "missing":
        return InvalidInput(at, f"is missing; {name} needs it")
    expected = first["msg"].replace("Input should be ", "expected ")
    return InvalidInput(at, f"{expected}, got {shown(first['input'])}; it does not fit {name}")
