"""Routes: which events go where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from ..db.runner import Runner
from ..errors import ConfigurationError
from ..model.backoff import Backoff
from ..transports import Transport

RETRY = Backoff(base="1s", factor=2.0, cap="5m")
MAX_ATTEMPTS = 20
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,127}")


class Route(msgspec.Struct, frozen=True):
    """Events of these types go to this destination."""

    name: str
    types: tuple[str, ...]
    transport: Transport
    ordered: bool = False
    skips: bool = False
    max_attempts: int = MAX_ATTEMPTS
    retry: Backoff = RETRY

    @property
    def queue(self) -> str:
        return f"out.{self.name}"

    @property
    def queues(self) -> tuple[str, ...]:
        """Where its deliveries wait: those of the route, and those of its destinations if it has many."""
        more: tuple[str, ...] = getattr(self.transport, "queues", ())
        return (self.queue, *more)

    @property
    def stored(self) -> dict[str, object]:
        return {
            "name": self.name,
            "types": list(self.types),
            "ordered": self.ordered,
            "skips": self.skips,
            "max_attempts": self.max_attempts,
            "destination": self.transport.shown,
        }


def check_route_name(name: object) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigurationError(
            f"name: expected 1 to 100 lower-case letters, digits, _ and -, and a letter or digit first; got {name!r}"
        )
    return name


def check_patterns(field: str, patterns: Sequence[object]) -> tuple[str, ...]:
    """Types, or beginnings of types with a star at the end."""
    if not 1 <= len(patterns) <= 100:
        raise ConfigurationError(f"{field}: expected 1 to 100 types, such as 'order.*', got {len(patterns)}")
    for pattern in patterns:
        beginning = pattern.removesuffix("*") if isinstance(pattern, str) else None
        if beginning is None or (beginning != "" and not TYPE.fullmatch(beginning)) or pattern == "":
            raise ConfigurationError(
                f"{field}: expected a type, such as 'order.paid', or its beginning and a star, such as 'order.*' or "
                f"'*'; got {pattern!r}"
            )
    return tuple(str(pattern) for pattern in patterns)


def as_json(routes: Iterable[Route]) -> str | None:
    """The routes as `declare_routes` takes them; None if there are none."""
    stored = [route.stored for route in routes]
    return msgspec.json.encode(stored).decode() if stored else None


async def declare(runner: Runner, routes: Iterable[Route]) -> list[str]:
    """Store the routes as this code has them; return the names of new ones."""
    listed = as_json(routes)
    return [row[0] for row in await runner.run("outbox", "declare_routes", listed)] if listed is not None else []
