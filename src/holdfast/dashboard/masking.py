"""Hides the values of named fields, at any depth, before anything leaves the server."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

HIDDEN = "••••"
DEEPEST = 100


def masked(value: Any, names: Collection[str], depth: int = 0) -> Any:
    """Return a JSON value in which the values of fields of these names are hidden. Case and dashes do not matter."""
    if not names:
        return value
    if depth > DEEPEST:
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if _plain(str(key)) in names and inner is not None else masked(inner, names, depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [masked(inner, names, depth + 1) for inner in value]
    return value


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
