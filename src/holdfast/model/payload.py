"""Strict JSON: a value comes back as it was stored, or is rejected with the path of the part that cannot be stored.

Numbers are stored as decimals. The one float that has no decimal, -0.0, comes back as 0.0, which equals it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import msgspec

from ..errors import InvalidInput, InvalidPayload
from .limits import DEFAULT_LIMITS, Limits, check_text

WHOLE = 1e16
"""From here on, floats are written without a fraction, as 1e16, and would come back as ints."""


def encode(kind: str, arguments: dict[str, Any], limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the payload as it is stored: `{"type": kind, …arguments}`."""
    plain = arguments if _is_plain(arguments, limits.depth) else _plain(arguments, "", 1, limits)
    return _encode("payload", {"type": kind, **plain}, limits)


def encode_value(field: str, value: Any, limits: Limits = DEFAULT_LIMITS) -> str | None:
    """Return a result or a header as JSON text; None stays None."""
    if value is None:
        return None
    if not _is_plain(value, limits.depth):
        value = _plain(softened(value, binary=True, paths=True), field, 1, limits)
    return _encode(field, value, limits)


def encode_data(field: str, value: Any, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the data of an event as JSON text, by the rules for arguments. Paths in errors start with the field."""
    if isinstance(value, msgspec.Struct):
        value = _unfolded(value, field)  # as `_plain` does; after it, most data passes the fast check
    plain = value if _is_plain(value, limits.depth) else _plain(value, field, 1, limits)
    return _encode(field, plain, limits)


def softened(value: Any, *, binary: bool, paths: bool, by_alias: bool | None = None) -> Any:
    """Return the value with sets as sorted lists and, if asked for, bytes as base64 and paths as text. What is not
    storable for another reason is returned unchanged: `_plain` says what is wrong and where."""

    def convert(part: Any) -> Any:
        if paths and isinstance(part, PurePath):
            return str(part)
        if hasattr(part, "model_dump"):
            return part.model_dump(mode="json", by_alias=by_alias)
        raise TypeError

    kept = (datetime, Decimal) if binary else (datetime, Decimal, bytes, bytearray, memoryview)
    try:
        return msgspec.to_builtins(value, builtin_types=kept, enc_hook=convert, order="deterministic")
    except Exception:
        return value


_to_json = msgspec.json.Encoder().encode


def _encode(field: str, plain: Any, limits: Limits) -> str:
    encoded = _to_json(plain)
    if len(encoded) > limits.payload_bytes:
        raise InvalidPayload(
            field,
            f"is {len(encoded):,} bytes, the limit is {limits.payload_bytes:,}; "
            "store the data elsewhere and enqueue a reference to it",
        )
    return encoded.decode()


def _is_plain(value: Any, levels: int) -> bool:
    """Return whether it has only JSON's own types and nothing to reject. This is the fast check, which most payloads
    pass; `_plain` converts, and says what is wrong and where."""
    kind = type(value)
    if kind is dict:
        if levels <= 1:
            return False
        for key, item in value.items():
            # Names, and the usual types of arguments, are checked here: each call would cost as much as the check.
            if type(key) is not str or "\0" in key or not (key.isascii() or _is_unicode(key)):
                return False
            kind = type(item)
            if kind is str:
                if "\0" in item or not (item.isascii() or _is_unicode(item)):
                    return False
            elif kind is int:
                if not -(2**63) <= item < 2**64:
                    return False
            elif item is not None and kind is not bool and not _is_plain(item, levels - 1):
                return False
        return True
    if kind is str:
        return _is_storable(value)
    if kind is int:
        return bool(-(2**63) <= value < 2**64)
    if kind is float:
        return bool(-WHOLE < value < WHOLE)
    if kind is list:
        return levels > 1 and all(_is_plain(item, levels - 1) for item in value)
    return value is None or kind is bool


def _is_storable(text: str) -> bool:
    return "\0" not in text and (text.isascii() or _is_unicode(text))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any, path: str, depth: int, limits: Limits) -> Any:
    """Return the value in JSON's own types. Dataclasses, structs and pydantic models become objects; dates, UUIDs,
    decimals and enums become what msgspec reads back as such."""
    if depth > limits.depth:
        raise InvalidPayload(_top(path), f"is nested deeper than {limits.depth} levels, or contains itself")
    match value:
        case _ if isinstance(value, msgspec.Struct) or hasattr(value, "__attrs_attrs__"):
            return _plain(_unfolded(value, path), path, depth, limits)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
            return _object(fields, path, depth, limits)
        case dict():
            return _object(value.items(), path, depth, limits)
        case list() | tuple():
            return [_plain(item, f"{path}[{index}]", depth + 1, limits) for index, item in enumerate(value)]
        case _ if hasattr(value, "model_dump"):
            return _plain(value.model_dump(mode="json"), path, depth, limits)
        case _:
            return _scalar(value, path)


def _unfolded(value: Any, path: str) -> Any:
    """Return a struct as msgspec writes it, with its tags and names. Types that need another check stay as they are."""
    try:
        return msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview, datetime, Decimal))
    except RecursionError:
        raise InvalidPayload(path or "payload", "is nested too deeply, or contains itself") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidPayload(path or "payload", f"cannot be stored as JSON: {error}") from None


def _object(items: Iterable[tuple[Any, Any]], path: str, depth: int, limits: Limits) -> dict[str, Any]:
    plain = {}
    for key, item in items:
        inner = f"{path}.{_shown(key)}" if path else _shown(key)
        name = key if isinstance(key, str) else _scalar(key, inner)
        if not isinstance(name, str):
            raise InvalidPayload(inner, f"has a key that is not text but {type(key).__name__}")
        plain[_text(name, inner)] = _plain(item, inner, depth + 1, limits)
    return plain


def _scalar(value: Any, path: str) -> Any:
    match value:
        case None | bool():
            return value
        case bytes() | bytearray() | memoryview():
            raise InvalidPayload(
                path, "is bytes, which JSON cannot represent; annotate it as bytes, which are stored as base64"
            )
        case set() | frozenset():
            raise InvalidPayload(
                path, "is a set, whose order changes between runs; annotate it as one, or pass a sorted list"
            )
        case datetime() if value.utcoffset() is None:
            raise InvalidPayload(
                path, "is a datetime without a time zone; use datetime.now(timezone.utc) or attach one"
            )
        case Decimal() if not value.is_finite():
            raise InvalidPayload(path, f"is {value}, which JSON cannot represent")
    try:
        plain = msgspec.to_builtins(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        plain = value
    match plain:
        case str():
            return _text(str.__str__(plain), path)
        case float() if not math.isfinite(plain):
            raise InvalidPayload(path, f"is {plain}, which JSON cannot represent")
        case int() if not -(2**63) <= plain < 2**64:
            raise InvalidPayload(path, "is a whole number of more than 64 bits; pass it as text")
        case int():
            return int(plain)
        case float():
            return float(plain) if -WHOLE < plain < WHOLE else msgspec.Raw(f"{plain:.1f}".encode())
        case _:
            raise InvalidPayload(path, f"is a {type(value).__name__}, which JSON cannot represent")


def _text(value: str, path: str) -> str:
    try:
        return check_text(path, value)
    except InvalidInput as refused:
        raise InvalidPayload(path, refused.problem) from None


def _shown(key: object) -> str:
    """Return a name that can be printed and stored, wherever the message goes."""
    text = str(key)
    return (text if text.isprintable() else ascii(text)[1:-1])[:80]


def _top(path: str) -> str:
    """Return the name of the argument: the whole path of what is nested too deeply does not help."""
    return path.partition(".")[0].partition("[")[0] or "payload"
