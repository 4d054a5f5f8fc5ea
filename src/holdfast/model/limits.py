"""What can be stored, and the checks whose errors name the field."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ..errors import ConfigurationError, InvalidInput

PRIORITIES = range(4)
"""0 runs first, 3 last."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes above which input is rejected.

    ```python
    small = Holdfast(limits=Limits(payload_bytes=64 * 1024))
    ```
    """

    payload_bytes: int = 1024 * 1024
    """Of the arguments of a job, and of its result, as JSON."""
    depth: int = 100
    """Of lists and objects in each other, in arguments and results."""
    key_bytes: int = 512
    """Of a key or an idempotency key."""
    name_characters: int = 128
    """Of the name of a queue or a task."""
    error_bytes: int = 16 * 1024
    """Of an error; a longer one is cut in the middle."""


DEFAULT_LIMITS = Limits()


def check_name(field: str, name: object, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the name of a queue or a kind, checked."""
    text = check_text(field, name)
    if not 1 <= len(text) <= limits.name_characters:
        raise InvalidInput(field, f"expected 1 to {limits.name_characters} characters, got {len(text)}")
    return text


def check_key(field: str, key: object, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return a key or an idempotency key, checked."""
    text = check_text(field, key)
    size = len(text.encode())
    if not 1 <= size <= limits.key_bytes:
        raise InvalidInput(field, f"expected 1 to {limits.key_bytes} bytes of UTF-8, got {size}")
    return text


def check_text(field: str, value: object) -> str:
    """Return text that Postgres can store."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"expected text, got {type(value).__name__}")
    if "\0" in value:
        raise InvalidInput(field, "contains a NUL character, which Postgres cannot store")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(field, "contains half of a surrogate pair, which is not valid Unicode") from None
    return value


def check_modules(field: str, names: object) -> tuple[str, ...]:
    """Return the names of modules, checked: not of files, and not one text, whose letters would be taken for names."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise ConfigurationError(f"{field}: expected a list of modules, such as ['shop.tasks'], got {names!r}")
    found = tuple(names)
    for name in found:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise ConfigurationError(f"{field}: expected modules, such as shop.tasks, not files; got {name!r}")
    return found


def check_instant(field: str, value: object) -> datetime:
    """Return a datetime with a time zone."""
    if not isinstance(value, datetime):
        raise InvalidInput(field, f"expected a datetime with a time zone, got {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(field, "has no time zone; use datetime.now(timezone.utc) or attach one")
    return value


def check_int(field: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInput(field, f"expected a whole number from {low} to {high}, got {value!r}")
    return value


def check_flag(field: str, value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(field, f"expected True or False, got {value!r}")
    return value


def check_schema(name: str) -> str:
    """Return the schema's name. It becomes an identifier in statements, so its form is restricted."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name):
        raise ConfigurationError(
            f"schema: expected a lower-case name of letters, digits and underscores, at most 41 long, got {name!r}"
        )
    return name
