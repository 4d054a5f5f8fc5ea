"""What an annotation means, of a parameter or of a result: whether its values can be stored as JSON, and how they come
back."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec
from msgspec import inspect as types

from .errors import ConfigurationError
from .model import payload
from .model.event import Event
from .model.outcome import Fail, Retry, Snooze

Convert = Callable[[Any], Any]

_BINARY = (types.BytesType, types.ByteArrayType, types.MemoryViewType)
_SETS = (types.SetType, types.FrozenSetType)
_NO_KEYS = (
    types.NoneType, types.BoolType, types.IntType, types.FloatType, types.TupleType, types.VarTupleType,
    types.NamedTupleType, types.FrozenSetType, types.StructType, types.DataclassType,
)  # fmt: skip
"""What JSON cannot have as keys."""
_STORED = (
    str, int, float, Decimal, UUID, date, time, timedelta, bytes, bytearray, memoryview, dict, list, tuple, set,
    frozenset, Enum, PurePath,
)  # fmt: skip
"""Values of these classes can be results, and so can those of classes derived from them."""
NOT_RESULTS = (Snooze, Fail, Retry)
"""What a handler can return that is not its result."""


def read(kind: str, name: str, hint: Any) -> tuple[Any, Convert | None]:
    """The type that its JSON is read as, and what to do with a value before it is stored; None: nothing."""
    if typing.get_origin(hint) is Event:  # pydantic, which may have to read the data, cannot read what is around it
        data, convert = read(kind, name, *typing.get_args(hint))
        return typing.cast(Any, Event)[data], convert
    checked = _has_pydantic_rules(hint)
    stored_as = _checked_by_pydantic(kind, name, hint) if checked else hint
    binary = unordered = paths = False
    for found in _inside(_type_info(kind, hint)):
        match found:
            case types.CustomType(cls) if issubclass(cls, PurePath):
                paths = True
            case types.CustomType(cls) if not checked and not hasattr(cls, "model_validate"):
                raise ConfigurationError(
                    f"{kind}: {name} cannot be stored: a {cls.__name__} cannot be read from JSON; take what it is made "
                    "from, such as an id, a dataclass or a pydantic model"
                )
            case types.ExtType():
                raise ConfigurationError(f"{kind}: {name} cannot be stored: JSON has no extension types")
            case types.DictType(key) if isinstance(key, _NO_KEYS):
                raise ConfigurationError(f"{kind}: {name} cannot be stored: the keys of JSON objects are text")
            case _:
                binary |= isinstance(found, _BINARY)
                unordered |= isinstance(found, _SETS)
    converts = binary or unordered or paths
    return stored_as, partial(payload.softened, binary=binary, paths=paths) if converts else None


def check_result(kind: str, hint: Any) -> None:
    """Reject the annotation of a result that cannot be stored: when the handler has returned it, its work is done."""
    if _has_pydantic_rules(hint):
        return
    try:
        info = types.type_info(result_type(hint))
    except (TypeError, ValueError):  # one that msgspec does not know: what is returned will be checked
        return
    for found in _inside(info):
        match found:
            case types.CustomType(cls) if not _may_be_stored(cls):
                raise ConfigurationError(
                    f"{kind}: its result cannot be stored: a {cls.__name__} cannot be written as JSON; return what is "
                    "needed of it, such as an id, a dataclass or a pydantic model, or None"
                )
            case types.DictType(key) if isinstance(key, _NO_KEYS):
                raise ConfigurationError(f"{kind}: its result cannot be stored: the keys of JSON objects are text")
            case _:
                pass


def _may_be_stored(cls: type) -> bool:
    """Of a protocol or an abstract class, some derived class may; of a plain class, none is expected to."""
    if cls is object or inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return True
    return issubclass(cls, _STORED) or hasattr(cls, "model_dump")


def result_type(hint: Any) -> Any:
    """The annotation of a result without what is none, such as Snooze."""
    if hint in NOT_RESULTS:
        return None
    parts = [part for part in typing.get_args(hint) if part not in NOT_RESULTS]
    if not parts and typing.get_args(hint):
        return None
    if hint is None or typing.get_origin(hint) is None or len(parts) == len(typing.get_args(hint)):
        return hint
    union: Any = parts[0]
    for part in parts[1:]:
        union = union | part
    return union


def _type_info(kind: str, hint: Any) -> types.Type:
    try:
        return types.type_info(hint)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{kind}: its parameters cannot be stored as JSON: {error}") from None


def _inside(found: Any, seen: set[int] | None = None) -> Iterator[types.Type]:
    """This type and all that it is made of; a type may contain itself."""
    seen = set() if seen is None else seen
    if id(found) in seen or not isinstance(found, (types.Type, types.Field, tuple)):
        return
    seen.add(id(found))
    if isinstance(found, types.Type):
        yield found
    for part in found if isinstance(found, tuple) else [getattr(found, name) for name in found.__struct_fields__]:
        yield from _inside(part, seen)


def from_plain(kind: type, value: Any) -> Any:
    """Read what msgspec cannot: paths, pydantic's models, and parameters with pydantic's rules."""
    if isinstance(kind, _CheckedByPydantic):
        return kind.check(value)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise TypeError(f"Expected a path as `str`, got `{type(value).__name__}`")
        return kind(value)
    raise NotImplementedError(f"a {kind.__name__} cannot be read from JSON")


# Pydantic's rules, such as Annotated[int, Field(gt=0)]. msgspec has its own, and does not know these.


def is_pydantic_field(value: object) -> bool:
    return type(value).__module__.startswith("pydantic.") and type(value).__name__ == "FieldInfo"


def _has_pydantic_rules(hint: Any) -> bool:
    if isinstance(hint, type) and hasattr(hint, "__get_pydantic_core_schema__") and not hasattr(hint, "model_validate"):
        return True
    rules = getattr(hint, "__metadata__", ())
    if any(type(rule).__module__.partition(".")[0] in ("pydantic", "annotated_types") for rule in rules):
        return True
    return any(_has_pydantic_rules(part) for part in typing.get_args(hint))


class _CheckedByPydantic(type):
    """The class of a stand-in for an annotation: msgspec passes its values to `from_plain`, and accepts any result."""

    check: Convert

    def __instancecheck__(cls, value: object) -> bool:
        return True


def _checked_by_pydantic(kind: str, name: str, hint: Any) -> type:
    try:
        from pydantic import ConfigDict, PydanticUserError, TypeAdapter
    except ImportError:
        raise ConfigurationError(f"{kind}: the rules of {name} need pydantic, which is not installed") from None
    if any(isinstance(rule, msgspec.Meta) for rule in _rules(hint)):
        raise ConfigurationError(f"{kind}: {name} has rules of msgspec and of pydantic; use one of them")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint, config=ConfigDict(val_json_bytes="base64"))
    except PydanticUserError:  # a model or a dataclass has its own
        adapter = TypeAdapter(hint)
    strict = None if _has_model(hint) else True  # as msgspec: no text for a number

    def check(value: Any) -> Any:
        return adapter.validate_json(msgspec.json.encode(value), strict=strict)

    return _CheckedByPydantic(name, (), {"check": staticmethod(check)})


def _rules(hint: Any) -> Iterator[Any]:
    yield from getattr(hint, "__metadata__", ())
    for part in typing.get_args(hint):
        yield from _rules(part)


def _has_model(hint: Any) -> bool:
    return hasattr(hint, "model_validate") or any(_has_model(part) for part in typing.get_args(hint))
