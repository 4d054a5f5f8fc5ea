"""The types of events that an application declares, and what becomes of the data of an event that is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ..errors import ConfigurationError, InvalidInput
from ..model.limits import DEFAULT_LIMITS, Limits, check_int, check_name
from ..model.payload import encode_data
from .schemas import Schema

NOTHING: Final[Any] = msgspec.UNSET
"""No data was passed."""

Encode = Callable[[Any, Limits], str]
"""Checks the data of one event and returns it as JSON; raises `InvalidInput`."""


class EventType(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a type of events."""

    type: str
    """What happened: `order.paid`."""
    version: int
    """Of the schema of its data."""
    schema: Schema
    """JSON Schema 2020-12 of its data."""
    encode: Encode
    """Check data, and return it as JSON."""
    python: Any = None
    """The class of its data; None if it was declared with `schema=`."""

    @property
    def called(self) -> str:
        return called(self.type, self.version)

    def __repr__(self) -> str:
        return f"<EventType {self.called}>"


def called(type: str, version: int) -> str:
    """How messages name a version of a type."""
    return f"{type} version {version}"


class EventTypes(Mapping[tuple[str, int], EventType]):
    """The event types of an application, by type and version."""

    def __init__(self, *, strict: bool = False, limits: Limits = DEFAULT_LIMITS) -> None:
        self.strict = strict
        """Are types that are not declared rejected?"""
        self.limits = limits
        """Sizes above which data is rejected."""
        self.consumed: dict[tuple[str | None, str, int], Any] = {}
        """The Python types of the data of events that handlers take, by source (None: any), type and version."""
        self._found: dict[tuple[str, int], EventType] = {}
        self._by_class: dict[type, EventType] = {}

    def __getitem__(self, key: tuple[str, int]) -> EventType:
        return self._found[key]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, new: EventType) -> None:
        """Add a type that is declared once, by a class that declares nothing else."""
        self.check_new(new.type, new.version, new.python)
        self._found[new.type, new.version] = new
        if new.python is not None:
            self._by_class[new.python] = new

    def check_new(self, type: str, version: int, python: Any) -> None:
        """Raise `ConfigurationError` if this type and version, or this class, is already declared."""
        if (there := self._found.get((type, version))) is not None:
            by = f" by {there.python.__qualname__}" if there.python is not None else ""
            raise ConfigurationError(
                f"{called(type, version)} is already declared{by}; pass version={max(self.versions(type)) + 1} if its "
                "data has changed, or another type"
            )
        if python is not None and (there := self._by_class.get(python)) is not None:
            raise ConfigurationError(
                f"{python.__qualname__} already declares {there.called}; a class declares one type and version: "
                f"make another class for {called(type, version)}"
            )

    def of_class(self, python: type) -> EventType | None:
        """The type that this class declares."""
        return self._by_class.get(python)

    def versions(self, type: str) -> list[int]:
        """The declared versions of a type, in order."""
        return sorted(version for name, version in self._found if name == type)

    @property
    def names(self) -> list[str]:
        """The declared types, without their versions."""
        return sorted({type for type, _ in self._found})


def encode(types: EventTypes, event: Any, data: Any = NOTHING, version: int | None = None) -> tuple[str, int, str]:
    """Return the type, the version and the data, as JSON, of an event that is published.

    `event` is an instance of a declared class, or the name of a type; then `data` is checked as the type says. Without
    `version`, it is the declared one; a type with several needs it. The version of a type that is not declared is 1.
    """
    if isinstance(event, str):
        return _by_name(types, check_name("type", event), None if data is NOTHING else data, version)
    declared = types.of_class(type(event))
    if declared is None:
        raise InvalidInput(
            "event",
            "expected an instance of a class that is declared with @hf.event(…), or a type and its data, such as "
            f"'order.paid', {{…}}; got a {type(event).__name__}",
        )
    if data is not NOTHING and data is not None:
        raise InvalidInput("data", f"is not for an event that is a {type(event).__name__}, which has its own data")
    if version is not None and version != declared.version:
        raise InvalidInput(
            "version", f"expected {declared.version}, which {type(event).__name__} declares, got {version!r}"
        )
    return declared.type, declared.version, declared.encode(event, types.limits)


def _by_name(types: EventTypes, type: str, data: Any, version: int | None) -> tuple[str, int, str]:
    if version is not None:
        check_int("version", version, 1, 2**31 - 1)
    versions = types.versions(type)
    if not versions:
        if types.strict:
            raise InvalidInput(
                "type",
                f"expected a declared one: {', '.join(types.names) or 'there is none'}; got {type!r}. Declare it with "
                "@hf.event(…), or allow all types: strict_events=False",
            )
        return type, version or 1, encode_data("data", data, types.limits)
    listed = " or ".join(map(str, versions))
    if version is None and len(versions) > 1:
        raise InvalidInput("version", f"{type} has several: expected version={listed}, got none")
    chosen = version or versions[0]
    if chosen not in versions:
        raise InvalidInput("version", f"{type} is declared with version {listed}, got {version}; declare it, too")
    return type, chosen, types[type, chosen].encode(data, types.limits)
