"""Strict JSON: what goes in comes out, or is refused with the path of the part that cannot be stored."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from ..errors import InvalidPayload
from .limits import DEFAULT_LIMITS, Limits, check_text

_KEPT = (bytes, bytearray, memoryview)
"""Types that msgspec would quietly turn into text; kept as they are, so that the check sees and refuses them."""


def encode(kind: str, arguments: dict[str, Any], limits: Limits = DEFAULT_LIMITS) -> str:
    """The payload as it is stored: `{"type": kind, …arguments}`."""
    plain = to_plain(arguments)
    _check(plain, "", 1, limits)
    text = msgspec.json.encode({"type": kind, **plain}).decode()
    if len(text.encode()) > limits.payload_bytes:
        raise InvalidPayload(
            "payload",
            f"is {len(text.encode()):,} bytes, the limit is {limits.payload_bytes:,}; "
            "store the data elsewhere and enqueue a reference to it",
        )
    return text


def encode_value(field: str, value: Any, limits: Limits = DEFAULT_LIMITS) -> str | None:
    """A result or a header, as JSON text; None stays None."""
    if value is None:
        return None
    try:
        plain = to_plain(value)
    except InvalidPayload as refused:
        raise InvalidPayload(field, str(refused).removeprefix("payload: ")) from None
    _check(plain, field, 1, limits)
    text = msgspec.json.encode(plain).decode()
    if len(text) > limits.payload_bytes:
        raise InvalidPayload(field, f"is {len(text):,} bytes, the limit is {limits.payload_bytes:,}")
    return text


def to_plain(value: Any) -> Any:
    """Dataclasses, structs, dates, UUIDs, enums and pydantic models as plain JSON values."""
    try:
        return msgspec.to_builtins(value, builtin_types=_KEPT, enc_hook=_model_dump)
    except RecursionError:
        raise InvalidPayload("payload", "is nested too deeply, or contains itself") from None
    except (TypeError, ValueError) as error:
        raise InvalidPayload("payload", f"cannot be stored as JSON: {error}") from None


def _model_dump(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type(value).__name__} has no JSON form")


def _check(value: Any, path: str, depth: int, limits: Limits) -> None:
    if depth > limits.depth:
        raise InvalidPayload(path or "payload", f"is nested deeper than {limits.depth} levels")
    match value:
        case None | bool() | int():
            pass
        case str():
            _check_text(value, path)
        case float():
            if not math.isfinite(value):
                raise InvalidPayload(path, f"is {value}, which JSON cannot hold")
        case dict():
            for key, item in value.items():
                inner = f"{path}.{key}" if path else str(key)
                if not isinstance(key, str):
                    raise InvalidPayload(inner, f"has a key that is not text but {type(key).__name__}")
                _check_text(key, inner)
                _check(item, inner, depth + 1, limits)
        case list() | tuple():
            for index, item in enumerate(value):
                _check(item, f"{path}[{index}]", depth + 1, limits)
        case bytes() | bytearray() | memoryview():
            raise InvalidPayload(path, "is bytes, which JSON cannot hold; encode it yourself, for example as base64")
        case _:
            raise InvalidPayload(path, f"is a {type(value).__name__}, which JSON cannot hold")


def _check_text(value: str, path: str) -> None:
    try:
        check_text(path, value)
    except Exception as refused:
        raise InvalidPayload(path, str(refused).removeprefix(f"{path}: ")) from None
