"""The same fields in all styles in which a type can be declared."""

import dataclasses
from typing import Annotated, Any

import msgspec
import pydantic

from holdfast import Holdfast
from holdfast.contracts import asyncapi
from holdfast.contracts.asyncapi import Role
from holdfast.declaring_events import contracts_of

STYLES = ("msgspec", "dataclass", "pydantic", "schema")
MISSING: Any = dataclasses.MISSING

Fields = dict[str, Any]
"""By name: a type, or a type and a default."""


class AtLeast:
    """A number with a lower limit, in the words of the style."""

    def __init__(self, least: int) -> None:
        self.least = least


def declare(hf: Holdfast, style: str, fields: Fields, type: str = "order.paid", version: int = 1) -> Any:
    """Declare a type with these fields; return its class, or None."""
    if style == "schema":
        hf.event(type, version=version, schema=raw(fields))
        return None
    return hf.event(type, version=version)(python(style, fields))


def python(style: str, fields: Fields) -> Any:
    listed = {name: each if isinstance(each, tuple) else (each, MISSING) for name, each in fields.items()}
    typed = [(name, _hint(style, hint), default) for name, (hint, default) in listed.items()]
    match style:
        case "msgspec":
            entries: list[Any] = [each[:2] if each[2] is MISSING else each for each in typed]
            return msgspec.defstruct("Order", entries, kw_only=True)
        case "dataclass":
            described: list[Any] = [
                each[:2] if each[2] is MISSING else (*each[:2], dataclasses.field(default=each[2])) for each in typed
            ]
            return dataclasses.make_dataclass("Order", described, kw_only=True)
        case _:
            known: Any = {name: (hint, ... if default is MISSING else default) for name, hint, default in typed}
            return pydantic.create_model("Order", **known)


def raw(fields: Fields) -> dict[str, Any]:
    """Without defaults."""
    hints = {name: each[0] if isinstance(each, tuple) else each for name, each in fields.items()}
    return {
        "type": "object",
        "properties": {
            name: pydantic.TypeAdapter(_hint("pydantic", hint)).json_schema() for name, hint in hints.items()
        },
        "required": [name for name, each in fields.items() if not isinstance(each, tuple)],
    }


def _hint(style: str, hint: Any) -> Any:
    if not isinstance(hint, AtLeast):
        return hint
    return Annotated[int, pydantic.Field(ge=hint.least) if style == "pydantic" else msgspec.Meta(ge=hint.least)]


def exported(style: str, role: Role, fields: Fields, version: int = 1) -> dict[str, Any]:
    """The export of an application that publishes or consumes this type."""
    hf = Holdfast()
    if role == "published":
        declare(hf, style, fields, version=version)
    else:
        hf._event_types.consumed["shop", "order.paid", version] = python(style, fields)
    return document(hf)


def document(hf: Holdfast) -> dict[str, Any]:
    """As the command writes it, and reads it back."""
    return asyncapi.read(asyncapi.text(asyncapi.document("shop", contracts_of(hf._event_types))))
