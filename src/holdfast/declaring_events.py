"""Event types as an application declares them: the data that events carry, and its versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from .contracts.types import EventTypes, called
from .errors import ConfigurationError, InvalidInput
from .lazy import LazyModule
from .model.limits import check_int, check_name

if TYPE_CHECKING:
    from . import event_data
    from .contracts import asyncapi
    from .contracts.asyncapi import Contract
else:
    asyncapi = LazyModule("holdfast.contracts.asyncapi")
    event_data = LazyModule("holdfast.event_data")

AnyClass = TypeVar("AnyClass", bound=type)


class EventDecorator(Protocol):
    """`@hf.event(…)`: declares a class, and returns it."""

    def __call__(self, python: AnyClass, /) -> AnyClass: ...


class EventDeclarations:
    """What `Holdfast` inherits: declare event types in code."""

    _event_types: EventTypes
    """Those in the code, by type and version."""

    @overload
    def event(self, type: str, /, *, version: int = 1) -> EventDecorator: ...
    @overload
    def event(self, type: str, /, *, version: int = 1, schema: Mapping[str, Any]) -> None: ...

    def event(self, type: str, /, *, version: int = 1, schema: Mapping[str, Any] | None = None) -> Any:
        """Declare a type of events: above a msgspec Struct, a dataclass or a pydantic model, or with `schema=`.

        Data is checked when an event is published. `holdfast contracts check` finds changes that break consumers. With
        `schema`, a JSON Schema 2020-12, it needs the package `jsonschema`: `pip install 'holdfast[contracts]'`.

        ```python
        import msgspec


        @hf.event("order.billed", version=2)
        class OrderBilled(msgspec.Struct):
            order_id: int
            total: str


        hf.event("order.shipped", schema={"type": "object", "required": ["order_id"]})
        ```
        """
        try:
            check_name("type", type)
            check_int("version", version, 1, 2**31 - 1)
        except InvalidInput as error:
            raise ConfigurationError(f"event: {error}") from None
        if schema is not None:
            self._event_types.check_new(type, version, None)
            self._event_types.add(event_data.of_schema(type, version, schema))
            return None

        def register(python: AnyClass) -> AnyClass:
            self._event_types.check_new(type, version, python)
            self._event_types.add(event_data.of_class(type, version, python))
            return python

        return register


def contracts_of(event_types: EventTypes) -> list[Contract]:
    """All contracts of an application: of the types that it publishes, and of those that its handlers consume."""
    published = [
        asyncapi.Contract(role="published", type=each.type, version=each.version, schema=each.schema)
        for each in event_types.values()
    ]
    consumed = [
        asyncapi.Contract(
            role="consumed", source=source, type=type, version=version,
            schema=event_data.schema_of(called(type, version), python, consumed=True),
        )
        for (source, type, version), python in event_types.consumed.items()
    ]  # fmt: skip
    return published + consumed
