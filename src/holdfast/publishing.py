"""Events as an application publishes them, and the routes along which they go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast
from uuid import UUID

import msgspec

from .calls import Calls
from .contracts.types import NOTHING, EventTypes, encode
from .db.callers import Caller, Operation
from .db.database import Connection, Database
from .definitions import OnFailure, skips
from .errors import ConfigurationError, InvalidInput
from .lazy import LazyModule
from .model import payload as payloads
from .model.backoff import Backoff
from .model.event import is_header_name, with_headers
from .model.ids import new_id
from .model.limits import check_instant, check_int, check_key, check_text
from .model.tracing import Tracing
from .outbox import routes as outbox_routes
from .outbox.publish import NewEvent, Published, publish
from .outbox.routes import MAX_ATTEMPTS, RETRY, TYPE, Route, check_patterns, check_route_name
from .transports import Transport

if TYPE_CHECKING:
    from .app import Holdfast
    from .outbox import operating
else:
    operating = LazyModule("holdfast.outbox.operating")


class PublishOptions(TypedDict, total=False):
    """The options of `Holdfast.publish`.

    ```python
    await hf.publish("order.paid", {"order_id": 1}, key="order:1", tenant="acme", headers={"traceparent": "00-…"})
    ```
    """

    key: str | None
    """What it is about: events with the same key keep their order, on ordered routes."""
    version: int | None
    """The version of the schema of its data; None: as its class says, or 1."""
    tenant: str | None
    """Whose it is: webhook endpoints of this tenant get it."""
    headers: Mapping[str, str] | None
    """Metadata: extension attributes of CloudEvents. Names of 1 to 20 lower-case letters and digits."""
    id: UUID | None
    """Publish it once, however often this is called: remembered as long as events are kept (`event_days`)."""


PUBLISH_OPTIONS = frozenset(PublishOptions.__annotations__)


class EventVerbs:
    """What `Holdfast` inherits. Each verb awaits; its twin in `_sync` is for code that does not."""

    _calls: Calls
    _event_source: str | None
    _tracing: Tracing | None
    _event_types: EventTypes
    _routes: dict[str, Route]

    @property
    def _database(self) -> Database:
        raise NotImplementedError

    def relay(
        self,
        *types: str,
        to: Transport,
        name: str,
        ordered: bool = False,
        on_failure: OnFailure = "block",
        max_attempts: int = MAX_ATTEMPTS,
        retry: Backoff = RETRY,
    ) -> None:
        """Send events of these types to a destination: `hf.relay("order.*", to=Nats(…), name="bus")`.

        A type is a name, or its beginning and a star. Workers of this application send them, at least once each and
        under the same id. With `ordered`, events with the same key arrive in the order in which they were published;
        one that waits for its retry then holds up its key, unless `on_failure` is "skip".

        ```python
        class Printer:
            batch, parallel, shown = 100, 1, "the terminal"

            async def open(self) -> None: ...
            async def close(self) -> None: ...
            async def send(self, batch: Sequence[Message], settle: Settle) -> None:
                for message in batch:
                    print(message.type, message.data)
                    settle(message, Delivered())


        hf.relay("order.*", to=Printer(), name="printer", ordered=True)
        ```
        """
        check_route_name(name)
        if name in self._routes:
            raise ConfigurationError(f"There is already a route {name!r}; each needs another name")
        if not isinstance(to, Transport):
            raise ConfigurationError(
                f"to: expected a transport, such as Nats(…), or an object with batch, parallel, shown, open, send and "
                f"close; got a {type(to).__name__}"
            )
        if any(route.transport is to for route in self._routes.values()):
            raise ConfigurationError(
                f"to: this transport belongs to another route; each needs its own, because it has its own connection: "
                f"make a second one for {name!r}"
            )
        if (only := getattr(to, "name", None)) is not None and name != only:
            raise ConfigurationError(f"name: the route to {to.shown} must be called {only!r}, got {name!r}")
        self._routes[name] = Route(
            name,
            check_patterns("types", types),
            to,
            ordered,
            bool(skips(on_failure)),
            check_int("max_attempts", max_attempts, 1, 2**31 - 1),
            retry,
        )

    async def publish(self, event: Any, data: Any = NOTHING, /, **options: Unpack[PublishOptions]) -> Published:
        """Publish an event on a connection of Holdfast's own. It is committed when this returns.

        `event` is its type, with its `data`; or an instance of a class that `hf.event` declares.

        ```python
        published = await hf.publish("order.paid", {"order_id": 1}, key="order:1")
        ```
        """
        made, brought = new_event(self._event_types, event, data, options)
        with _traced(self._tracing, made) as (made, note):
            operation = publish(
                self._database,
                [made],
                self._event_source,
                brought=brought,
                guarded=True,
                routes=self._routes_as_json(),
            )

            async def ask(connection: Connection) -> list[Published]:
                return operation.decode(await connection.fetch(operation.sql, *operation.parameters))

            published = (await self._calls.insist(ask))[0]
            note(published.id)
        return published

    def publish_sync(self, event: Any, data: Any = NOTHING, /, **options: Unpack[PublishOptions]) -> Published:
        """As `publish`, for code that does not await."""
        return self._calls.wait_for(self.publish(event, data, **options))

    async def replay(
        self,
        route: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        types: Iterable[str] = (),
        event: UUID | None = None,
    ) -> int:
        """Deliver events once more along a route: those published in a time, or one. Returns how many.

        They keep their ids, and the order of their keys on an ordered route.

        ```python
        again = await hf.replay("printer", since=datetime.now(UTC) - timedelta(hours=2))
        ```
        """
        if since is None and event is None:
            raise InvalidInput("since", "expected a time, or event=…: which events are meant?")
        first = check_instant("since", since) if since is not None else datetime.min.replace(tzinfo=UTC)
        last = check_instant("until", until) if until is not None else datetime.now(UTC) + timedelta(hours=1)
        counts = [count async for count in operating.replay(self._calls, route, first, last, tuple(types), event)]
        return counts[-1] if counts else 0

    def replay_sync(
        self,
        route: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        types: Iterable[str] = (),
        event: UUID | None = None,
    ) -> int:
        """As `replay`, for code that does not await."""
        return self._calls.wait_for(self.replay(route, since=since, until=until, types=types, event=event))

    def _routes_as_json(self) -> str | None:
        return outbox_routes.as_json(self._routes.values())


def new_event(types: EventTypes, given: object, data: Any, options: PublishOptions) -> tuple[NewEvent, bool]:
    """Check and encode an event. Also says whether the caller chose its id."""
    if unknown := sorted(options.keys() - PUBLISH_OPTIONS):
        raise InvalidInput(unknown[0], f"is not an option of publish(); it takes {', '.join(sorted(PUBLISH_OPTIONS))}")
    if isinstance(given, str) and not TYPE.fullmatch(given):
        raise InvalidInput(
            "type", f"expected 1 to 128 letters, digits and . _ - / :, such as 'order.paid', got {given!r}"
        )
    limits = types.limits
    key, tenant, id, version = (options.get(name) for name in ("key", "tenant", "id", "version"))
    if id is not None and not isinstance(id, UUID):
        raise InvalidInput("id", f"expected a UUID, got {id!r}")
    if version is not None:
        check_int("version", version, 1, 2**31 - 1)
    headers = options.get("headers")
    type, of_version, text = encode(types, given, data, options.get("version"))
    event = NewEvent(
        id or new_id(),
        type,
        of_version,
        text,
        _without_controls("key", check_key("key", key, limits)) if key is not None else None,
        _without_controls("tenant", check_key("tenant", tenant, limits)) if tenant is not None else None,
        payloads.encode_value("headers", check_headers(headers), limits) if headers else None,
    )
    return event, id is not None


def check_headers(headers: Mapping[Any, Any]) -> dict[str, str]:
    """Names that CloudEvents allows, and that no event has anyway."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        if not is_header_name(name):
            raise InvalidInput(
                "headers",
                f"expected names of 1 to 20 lower-case letters and digits, none of them an attribute that every event "
                f"has, got {name!r}",
            )
        found[name] = _without_controls(f"headers.{name}", check_text(f"headers.{name}", value))
    return found


def _without_controls(field: str, text: str) -> str:
    """Attributes of CloudEvents have no control characters, and protocols would misread them."""
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text):
        raise InvalidInput(field, f"contains a control character: {text[:80]!r}")
    return text


async def publish_on_async(app: Holdfast, caller: Caller, given: Any, data: Any, options: PublishOptions) -> Published:
    """Publish in the caller's open transaction."""
    event, brought = new_event(app._event_types, given, data, options)
    with _traced(app._tracing, event) as (event, note):
        answer = caller.run(_operation(app, event, brought))
        published = (await cast(Awaitable[list[Published]], answer))[0]
        note(published.id)
    return published


def publish_on_sync(app: Holdfast, caller: Caller, given: Any, data: Any, options: PublishOptions) -> Published:
    """As `publish_on_async`, on a synchronous connection."""
    event, brought = new_event(app._event_types, given, data, options)
    with _traced(app._tracing, event) as (event, note):
        published = cast(list[Published], caller.run(_operation(app, event, brought)))[0]
        note(published.id)
    return published


def _operation(app: Holdfast, event: NewEvent, brought: bool) -> Operation[list[Published]]:
    routes = app._routes_as_json()
    return publish(app._database, [event], app._event_source, brought=brought, guarded=False, routes=routes)


@contextmanager
def _traced(tracing: Tracing | None, event: NewEvent) -> Iterator[tuple[NewEvent, Callable[[UUID], None]]]:
    """As that of `sending`, for an event."""
    if tracing is None:
        yield event, lambda id: None
        return
    with tracing.sending("publish", event.type, None, event.id) as sending:
        yield _with_headers(event, sending.headers), sending.stored


def _with_headers(event: NewEvent, headers: Mapping[str, str]) -> NewEvent:
    """The event with these headers as well. The caller's win."""
    given: dict[str, str] = msgspec.json.decode(event.headers) if event.headers else {}
    found = with_headers(given, headers)
    return event if found == given else msgspec.structs.replace(event, headers=msgspec.json.encode(found).decode())
