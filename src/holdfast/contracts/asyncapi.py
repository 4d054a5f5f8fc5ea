"""The export: an AsyncAPI 3.0 document with a message and a JSON Schema for each contract, and how it is read back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from ..errors import HoldfastError
from .schemas import DIALECT, Schema, found_at, inside, moved

Role = Literal["published", "consumed"]

MARK = "x-holdfast"
"""The field of a message that says which contract it is: the keys in the document are only names."""


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """What is promised about the data of one version of a type, or expected from it."""

    role: Role
    type: str
    version: int
    source: str | None = None
    """Of a consumed one: who publishes it; None: anyone."""
    schema: Schema

    @property
    def order(self) -> tuple[str, str, str, int]:
        return "" if self.role == "published" else self.role, self.source or "", self.type, self.version

    @property
    def called(self) -> str:
        origin = f" from {self.source}" if self.source is not None else ""
        return f"{self.type} version {self.version}, {self.role}{origin}"


class Unreadable(HoldfastError):
    """This is not an export of contracts."""


def document(title: str, contracts: Iterable[Contract]) -> dict[str, Any]:
    """Return the AsyncAPI document. The same contracts always give the same document."""
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    operation_names, message_names, channel_names = _Names(), _Names(), _Names()
    for each in sorted(contracts, key=lambda each: each.order):
        action = "send" if each.role == "published" else "receive"
        parts = [action, *([each.source] if each.source is not None else []), each.type]
        operation = operation_names.name(*parts)
        message = message_names.name(*parts, f"v{each.version}")
        channel = channel_names.name(each.type)
        place = f"#/components/schemas/{message}"
        own = {"$schema": DIALECT, **schema} if isinstance(schema := moved(each.schema, place), dict) else schema
        schemas[message] = own
        messages[message] = {
            "name": each.type,
            "title": f"{each.type}, version {each.version}",
            "contentType": "application/json",
            "payload": {"$ref": place},
            MARK: {
                "role": each.role,
                **({"source": each.source} if each.role == "consumed" else {}),
                "type": each.type,
                "version": each.version,
            },
        }
        there = channels.setdefault(channel, {"title": each.type, "messages": {}})
        there["messages"][message] = {"$ref": f"#/components/messages/{message}"}
        doing = operations.setdefault(
            operation, {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "messages": []}
        )
        doing["messages"].append({"$ref": f"#/channels/{channel}/messages/{message}"})
    return {
        "asyncapi": "3.0.0",
        "info": {"title": title, "version": "1.0.0"},
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": schemas},
    }


def text(found: dict[str, Any]) -> str:
    """Return the document as it is written to a file."""
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read(found: bytes | str) -> dict[str, Any]:
    """Return a document that was exported; raises `Unreadable`."""
    try:
        decoded = msgspec.json.decode(found)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    if not isinstance(decoded, dict) or not str(decoded.get("asyncapi", "")).startswith("3."):
        raise Unreadable("it is not an AsyncAPI 3 document")
    contracts(decoded)
    return decoded


def contracts(found: dict[str, Any]) -> Sequence[Contract]:
    """Return the contracts of a document. References in their schemas are into the document."""
    try:
        listed = [
            msgspec.convert({**message[MARK], "schema": found_at(found, message["payload"]["$ref"])}, Contract)
            for message in found["components"]["messages"].values()
        ]
        for schema in (inner for each in listed for inner in inside(each.schema)):
            if "$ref" in schema:
                found_at(found, schema["$ref"])
    except LookupError as error:
        raise Unreadable(f"it lacks {error.args[0]}, which every export has") from None
    except (AttributeError, TypeError, msgspec.ValidationError) as error:
        raise Unreadable(f"its messages are not those of an export: {error}") from None
    return sorted(listed, key=lambda each: each.order)


class _Names:
    """Keys of the document, for which AsyncAPI allows only some characters. No two things get the same one."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[str, ...]] = {}

    def name(self, *parts: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", ".".join(parts))
        if plain != ".".join(parts) or self._taken.setdefault(plain, parts) != parts:
            digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
            return f"{plain}-{digest}"
        return plain
