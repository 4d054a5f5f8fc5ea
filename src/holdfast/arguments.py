"""The arguments of a task: read from the signature of its handler, and bound to the values of a call."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from .context import Context, Handler
from .errors import ConfigurationError, InvalidPayload
from .parameters import Convert, from_plain, is_pydantic_field, read


class Arguments(msgspec.Struct, frozen=True):
    """What a task takes."""

    kind: str
    struct: type[msgspec.Struct]
    """What a payload is decoded as."""
    names: tuple[str, ...]
    name_set: frozenset[str]
    required: tuple[str, ...]
    """Those that have no default."""
    decoder: msgspec.json.Decoder[msgspec.Struct]
    converts: Mapping[str, Convert]
    """By argument: what JSON cannot represent, such as a set, as its annotation says."""

    @property
    def types(self) -> dict[str, str]:
        """Their types, by name."""
        fields = msgspec.structs.fields(self.struct)
        return {each.name: _type_name(each.type) for each in fields if each.name != "type_"}

    def bind(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name; rejects unknown and missing ones."""
        names = self.names
        if not arguments and type(keywords) is dict and keywords.keys() == self.name_set and not self.converts:
            return keywords
        if len(arguments) > len(names):
            raise InvalidPayload("arguments", f"{self.kind} takes {len(names)}, got {len(arguments)}")
        bound = dict(zip(names, arguments, strict=False))
        for name, value in keywords.items():
            if name not in names:
                raise InvalidPayload(
                    str(name), f"is not an argument of {self.kind}; it takes {', '.join(names) or 'none'}"
                )
            if name in bound:
                raise InvalidPayload(name, "was given twice")
            bound[name] = value
        for name in self.required:
            if name not in bound:
                raise InvalidPayload(name, f"is missing; {self.kind} needs it")
        for name, convert in self.converts.items():
            if name in bound:
                bound[name] = convert(bound[name])
        return bound


def signature(
    kind: str, function: Handler, flow: type | None = None
) -> tuple[type | None, Sequence[inspect.Parameter], dict[str, Any]]:
    """The kind of context that it takes, if any; its other parameters; and all their types."""
    parameters = list(inspect.signature(function).parameters.values())
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"{kind}: its annotations are read when it is registered, and {error}; "
            "import that name at run time, not only under TYPE_CHECKING"
        ) from None
    context = _context_of(parameters[0], hints, flow) if parameters else None
    for parameter in parameters[1:]:
        if _has_context(hints.get(parameter.name)):
            raise ConfigurationError(f"{kind}: parameter {parameter.name!r} is a Context, which must come first")
    return context, parameters[1:] if context else parameters, hints


def _context_of(parameter: inspect.Parameter, hints: dict[str, Any], flow: type | None = None) -> type | None:
    hint = hints.get(parameter.name)
    if isinstance(hint, type) and issubclass(hint, flow or Context):
        return hint
    if flow is None and _has_context(hint):
        raise ConfigurationError(f"{parameter.name}: expected Context or TxContext as its annotation, got {hint}")
    return None


def _has_context(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Context):
        return True
    return any(_has_context(part) for part in typing.get_args(hint))


def read_arguments(kind: str, parameters: Sequence[inspect.Parameter], hints: dict[str, Any]) -> Arguments:
    """Make them from parameters and their annotations; reject what cannot be stored as JSON."""
    converts: dict[str, Convert] = {}
    fields: list[Any] = [("type_", str, msgspec.field(default="", name="type"))]
    for parameter in parameters:
        if parameter.name in ("type", "type_"):
            raise ConfigurationError(
                f"{kind}: a parameter cannot be named {parameter.name!r}; that name carries the kind"
            )
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(f"{kind}: expected named parameters only, got {parameter}")
        if is_pydantic_field(parameter.default):
            raise ConfigurationError(
                f"{kind}: {parameter.name} has a pydantic Field as its default; write Annotated[…, Field(…)]"
            )
        hint, convert = read(kind, parameter.name, hints.get(parameter.name, Any))
        if convert is not None:
            converts[parameter.name] = convert
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, msgspec.field(default_factory=partial(_same, parameter.default))))
    try:
        struct = msgspec.defstruct(f"{kind} arguments", fields, kw_only=True, forbid_unknown_fields=True)
        decoder = msgspec.json.Decoder(struct, dec_hook=from_plain)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{kind}: its parameters cannot be stored as JSON: {error}") from None
    names = tuple(name for name in struct.__struct_fields__ if name != "type_")
    return Arguments(
        kind=kind,
        struct=struct,
        names=names,
        name_set=frozenset(names),
        required=tuple(entry.name for entry in msgspec.structs.fields(struct) if entry.required),
        decoder=decoder,
        converts=converts,
    )


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _same(value: Any) -> Any:
    return value
