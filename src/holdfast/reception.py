"""Events of others, as an application receives them: handlers, webhooks, consumers."""

from __future__ import annotations

import asyncio
import typing
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

import msgspec

from .contracts.types import EventTypes
from .db.link import backoff
from .definitions import Definition, OnFailure, Upcast, define
from .errors import ConfigurationError, Contended, InvalidInput, Rejected, Unreachable
from .lazy import LazyModule
from .model.backoff import Backoff, RetryFunction
from .model.durations import Duration, seconds
from .model.event import Event
from .model.limits import check_flag
from .model.terms import Terms
from .operating import OperatorVerbs
from .tasks import Task

if TYPE_CHECKING:
    from .app import Holdfast
    from .receiving import arrivals, asgi, consuming, gathering, rejecting, requests, storing
    from .receiving.arrivals import Arrival, Source
    from .receiving.asgi import Receiver
    from .receiving.consuming import Consumed
    from .receiving.rejecting import Rejections
    from .receiving.requests import Headers, Secrets
    from .receiving.storing import Received
    from .transports import consuming as transports
    from .transports.consuming import Consumer
else:
    arrivals = LazyModule("holdfast.receiving.arrivals")
    asgi = LazyModule("holdfast.receiving.asgi")
    consuming = LazyModule("holdfast.receiving.consuming")
    gathering = LazyModule("holdfast.receiving.gathering")
    rejecting = LazyModule("holdfast.receiving.rejecting")
    requests = LazyModule("holdfast.receiving.requests")
    storing = LazyModule("holdfast.receiving.storing")
    transports = LazyModule("holdfast.transports.consuming")

R = TypeVar("R")

STORED_WITHIN = 10.0
"""Seconds that a sender waits for an answer while there is no database: less than senders usually wait."""


class EventOptions(typing.TypedDict, total=False):
    """The options of `Holdfast.on_event`: those of a task, except what the event decides.

    ```python
    @hf.on_event("order.shipped", source="shop", ordered=True, max_attempts=20, timeout="30s")
    async def shipped(event: Event[dict[str, str]]) -> None: ...
    ```
    """

    version: int
    """Of the event's data that the handler takes; 1. For older ones, add an `upcast`. Newer ones wait."""
    queue: str
    """The queue of its jobs; `in.<source>`."""
    max_attempts: int
    """Attempts until a job becomes a dead letter; 5."""
    priority: int
    """0 (first) to 3 (last); 1."""
    timeout: Duration
    """Of one attempt; 1 h."""
    ordered: bool | None
    """One at a time and in order of arrival, per key of the events; None: as the queue says."""
    on_failure: OnFailure | None
    """While a failed job of an ordered key waits for its retry, the others of the key wait too ('block') or run
    ('skip')."""
    process: bool
    """Run it in a separate process, for work that keeps a core busy or may crash."""
    retry: Backoff | RetryFunction | None
    """When a failed attempt is retried, and when not; None: the installation's backoff."""
    max_snoozes: int | None
    """How often its handler may snooze a job, before it becomes a dead letter; None: as the settings say, 1,000."""
    keep: str | timedelta | None
    """How long a completed job is kept at least; None: it leaves no row; left out: `archive_days`."""
    expires: Duration | None
    """If a job has not started this long after the event arrived, end it as expired."""


class EventTask(Task[[Event[Any]], R], Generic[R]):
    """The handler of an event type; `@hf.on_event(…)` makes it.

    ```python
    await shipped(Event(id="1", source="shop", type="order.shipped", data={"order": "9182"}))  # a plain call: no job
    ```
    """

    of: tuple[str, str]
    """The source and the type of its events."""

    def upcast(self, *, from_version: int) -> Callable[[Upcast], Upcast]:
        """Register how the data of `from_version` becomes that of the next version.

        ```python
        @hf.on_event("order.returned", source="shop", version=2)
        async def returned(event: Event[dict[str, Any]]) -> None: ...


        @returned.upcast(from_version=1)
        def returned_had_no_reason(data: dict[str, Any]) -> dict[str, Any]:
            return {**data, "reason": "unknown"}
        ```
        """
        register = super().upcast(from_version=from_version)

        def register_for_data(function: Upcast) -> Upcast:
            def convert(arguments: dict[str, Any]) -> dict[str, Any]:
                event = arguments["event"]
                return {"event": {**event, "data": function(event["data"]), "version": from_version + 1}}

            register(convert)
            self._app._event_types.consumed[*self.of, from_version] = Any  # its upcast takes it
            return function

        return register_for_data


def define_handler(function: Callable[..., Any], type: str, source: str, options: EventOptions) -> Definition:
    """Read the signature of a handler of events."""
    if unknown := sorted(options.keys() - EventOptions.__annotations__.keys()):
        raise ConfigurationError(
            f"{unknown[0]}: is not an option of on_event; expected one of {', '.join(EventOptions.__annotations__)}"
        )
    if not type or not isinstance(typing.cast(object, type), str):
        raise ConfigurationError(f"type: expected the type of an event, such as 'order.paid', got {type!r}")
    try:
        kind = arrivals.kind_of(arrivals.check_source(source), type)
        definition = define(function, name=kind, **{"queue": arrivals.queue_of(source), **options})  # type: ignore[arg-type]
    except InvalidInput as error:
        raise ConfigurationError(str(error)) from None
    fields = [each for each in msgspec.structs.fields(definition.arguments.struct) if each.name != "type_"]
    taken = [each.name for each in fields]
    hint = fields[0].type if fields else None
    if taken != ["event"] or (typing.get_origin(hint) or hint) is not Event:
        raise ConfigurationError(
            f"{kind}: expected a handler of one event, such as (event: Event[OrderPaid]) or (ctx: Context, event: "
            f"Event[OrderPaid]); got ({', '.join(taken)})"
        )
    return definition


def _data_of(function: Callable[..., Any]) -> Any:
    """What a handler says about the data of its event; Any: nothing."""
    hints = typing.get_type_hints(function, include_extras=True)
    (data,) = typing.get_args(hints.get("event")) or (Any,)
    return data


def terms_of(definition: Definition) -> Terms:
    """The terms on which the events of a handler are stored."""
    return Terms(
        kind=definition.kind,
        queue=definition.queue,
        priority=definition.priority,
        max_attempts=definition.max_attempts,
        version=definition.version,
        ordered=definition.ordered,
        skips=definition.skips,
        expires=definition.expires,
    )


class ReceptionVerbs(OperatorVerbs):
    """What `Holdfast` inherits: handle events of others, receive webhooks, consume from brokers."""

    tasks: dict[str, Task[Any, Any]]
    _event_types: EventTypes
    _consumers: list[Consumed]
    """Those that its workers run."""
    _rejections: dict[str, Rejections]
    """Requests that `receive` has rejected, by source."""

    def on_event(
        self, type: str, /, *, source: str, **options: Unpack[EventOptions]
    ) -> Callable[[Callable[..., R]], EventTask[R]]:
        """Handle the events of a type from a source: `@hf.on_event("order.paid", source="shop")`.

        The handler takes the event, annotated as `Event[OrderPaid]`, and a context before it, if it wants one. Each
        event becomes one job of the kind `<source>/<type>`, however often it is delivered. Options: `version`, `queue`,
        `max_attempts`, `priority`, `timeout`, `ordered`, `on_failure`, `process`, `retry`, `max_snoozes`, `keep`,
        `expires`; see `EventOptions`.

        ```python
        @hf.on_event("order.paid", source="shop", ordered=True)
        async def paid(ctx: TxContext, event: Event[OrderPaid]) -> None:
            await ctx.tx.execute("insert into ledger values ($1)", event.data.order_id)
        ```
        """

        def register(function: Callable[..., R]) -> EventTask[R]:
            definition = define_handler(function, type, source, options)
            if definition.kind in self.tasks:
                raise ConfigurationError(
                    f"There is already a handler of {type!r} from the source {source!r}; an event has one handler, "
                    "which may enqueue several tasks"
                )
            task: EventTask[R] = EventTask(typing.cast("Holdfast", self), definition)
            task.of = source, type
            self.tasks[definition.kind] = task
            self._event_types.consumed[source, type, definition.version] = _data_of(function)
            return task

        return register

    def receiver(self, *, source: str, secrets: Secrets, timeout: Duration = "10s", binary: bool = False) -> Receiver:
        """Return an ASGI application that receives the webhooks of a source: `app.mount("/hooks", hf.receiver(…))`.

        `secrets` may have signed a request, as Standard Webhooks describes it: a list, or a function that returns one,
        for secrets that change while the application runs. A body that takes longer than `timeout` is rejected.
        `binary`: this sender puts the attributes of its events in `ce-` headers, which are not signed. The answer is
        204 after the commit, for a message that was delivered before, too.

        ```python
        app = hf.receiver(source="shop", secrets=SECRETS)  # uvicorn shop.hooks:app
        ```
        """
        named = self._source(source)
        within = seconds(timeout, "timeout")
        if not within:
            raise ConfigurationError(f"timeout: expected a duration above zero, got {timeout!r}")
        return asgi.Receiver(
            named,
            requests.check_secrets(secrets),
            gathering.Gathering(partial(self._keep, named)).keep,
            self._calls.close,
            within,
            bool(check_flag("binary", binary)),
        )

    async def receive(
        self, *, source: str, secrets: Secrets, headers: Headers, body: bytes, binary: bool = False
    ) -> Received:
        """Receive one webhook, in a view of any framework. When this returns, it is committed: answer with 204.

        `body` is the raw bytes of the request, because these are signed. `binary` is that of `receiver`. Raises
        `Rejected`, with the status of the answer, and logs why; and `Unreachable` if there is no database: answer with
        503, and the sender tries again.

        ```python
        received = await hf.receive(source="shop", secrets=SECRETS, headers=request.headers, body=request.body)
        ```
        """
        named = self._source(source)
        if not isinstance(body, bytes):
            raise InvalidInput("body", f"expected the raw bytes of the request, got a {body.__class__.__name__}")
        given = await requests.current(requests.check_secrets(secrets))
        try:
            arrival = requests.verified(named, requests.plain(headers), body, given, bool(check_flag("binary", binary)))
        except Rejected as rejected:
            rejecting.of(source, self._rejections).record(rejected)
            raise
        return (await self._keep(named, [arrival]))[0]

    def receive_sync(
        self, *, source: str, secrets: Secrets, headers: Headers, body: bytes, binary: bool = False
    ) -> Received:
        """As `receive`, for code that does not await."""
        received = self.receive(source=source, secrets=secrets, headers=headers, body=body, binary=binary)
        return self._calls.wait_for(received)

    def consume(self, consumer: Consumer, /, *, source: str) -> None:
        """Let the workers that serve `in.<source>` fetch from a broker: each message becomes one job.

        A message is acknowledged after its job is committed. One worker at a time fetches, so that order is kept; the
        others stand by. A source may have several consumers.

        ```python
        hf.consume(consumer, source="shop")  # such as NatsConsumer(…), RedisConsumer(…), RabbitMQConsumer(…)
        ```
        """
        if not isinstance(consumer, transports.Consumer):
            raise ConfigurationError(
                f"consumer: expected one such as NatsConsumer(…), got a {consumer.__class__.__name__}; to write your "
                "own, see holdfast.transports.consuming.Consumer"
            )
        named = self._source(source)
        if any(each.consumer is consumer for each in self._consumers):
            raise ConfigurationError(
                f"consumer: {consumer.shown} is there already; make one for each call of consume()"
            )
        self._consumers.append(consuming.Consumed(consumer, named))

    def _source(self, source: str) -> Source:
        """The source of this name, with the terms of its handlers."""
        most_body = arrivals.most_body(self._event_types.limits)
        return arrivals.Source(arrivals.check_source(source), self._terms_of_handler, most_body)

    def _terms_of_handler(self, kind: str) -> Terms | None:
        task = self.tasks.get(kind)
        return terms_of(task._definition) if isinstance(task, EventTask) else None

    def _queues_of_sources(self) -> set[str]:
        """Where messages wait whose type has no handler. A worker serves them, to name what waits there."""
        handled = {kind.partition("/")[0] for kind, task in self.tasks.items() if isinstance(task, EventTask)}
        return {arrivals.queue_of(source) for source in handled} | {each.queue for each in self._consumers}

    async def _keep(self, source: Source, messages: Sequence[Arrival]) -> list[Received]:
        """Store messages. It is safe to retry: a try whose answer was lost has stored the same messages."""
        failures = 0
        try:
            async with asyncio.timeout(STORED_WITHIN):
                while True:
                    try:
                        return await storing.store(self._calls, source, messages)
                    except (Unreachable, Contended):
                        failures += 1
                        if failures == 5:
                            raise
                    await asyncio.sleep(backoff(failures))
        except TimeoutError:
            raise Unreachable(f"messages could not be stored within {STORED_WITHIN:g} s", silent=True) from None
