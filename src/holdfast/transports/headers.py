"""CloudEvents attributes as headers of HTTP and NATS: names with the prefix `ce-`, values in printable ASCII."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

PREFIX = "ce-"
_PLAIN = re.compile(r"[!#$&-~]*")
_SAFE = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")


def encoded(value: str) -> str:
    """Return the value as it is in a header: space, `"`, `%` and all but printable ASCII percent-encoded."""
    return value if _PLAIN.fullmatch(value) else _quoted(value)


@lru_cache(1024)
def _quoted(value: str) -> str:
    """Keys and tenants come again and again, and `quote` takes as long as the rest of a message."""
    return quote(value, safe=_SAFE)


def decoded(value: str) -> str:
    """Return the value of a header. Raises ValueError if its percent-encoded bytes are not UTF-8.

    We send no quoted strings; older senders do.
    """
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = re.sub(r"\\(.)", r"\1", value[1:-1])
    return unquote_to_bytes(value).decode() if "%" in value else value


def named(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes as headers."""
    return {PREFIX + name: encoded(value) for name, value in attributes.items()}


def found(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes among the headers, whose names are in any case. Raises ValueError as `decoded` does."""
    return {
        name[len(PREFIX) :]: decoded(value)
        for name, value in ((name.lower(), value) for name, value in headers.items())
        if name.startswith(PREFIX)
    }
