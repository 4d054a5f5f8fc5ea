"""Turn arguments into jobs that can be enqueued: everything is checked before anything is sent."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from .definitions import Definition, bind
from .errors import InvalidInput, InvalidPayload
from .model import payload as payloads
from .model.durations import Duration, seconds
from .model.ids import JobId, new_id, new_ids
from .model.limits import PRIORITIES, Limits, check_instant, check_int, check_key, check_name
from .model.terms import NewJob, Terms


class EnqueueOptions(typing.TypedDict, total=False):
    """The options of `Task.options` and `Task.on`; None, or left out: as the task says."""

    key: str | None
    """What the job belongs to; order holds within a key."""
    delay: Duration | None
    """Run it after this long."""
    at: datetime | None
    """Run it at this time."""
    queue: str | None
    priority: int | None
    """0 (first) to 3 (last)."""
    max_attempts: int | None
    idempotency_key: str | None
    """Enqueue one job under this key, however often this is called."""
    id: UUID | None
    """The id of the job."""
    headers: Mapping[str, str] | None
    """Metadata, for tracing and the like."""


OPTION_NAMES = tuple(EnqueueOptions.__annotations__)


def check_options(method: str, options: Mapping[str, Any]) -> None:
    """Raise for names that are no options."""
    if unknown := sorted(options.keys() - set(OPTION_NAMES)):
        raise InvalidInput(unknown[0], f"is not an option of {method}(); it takes {', '.join(OPTION_NAMES)}")


class Maker:
    """Makes the jobs of one task with the same options."""

    def __init__(self, limits: Limits, definition: Definition, options: EnqueueOptions) -> None:
        self._limits = limits
        self._definition = definition
        self._options = options
        self._terms = self._make_terms()
        self._key = self._checked_key("key")
        self._derives_key = definition.make_key is not None
        if definition.ordered and self._key is None and not self._derives_key:
            raise InvalidInput(
                "key",
                f"{definition.kind} is ordered, and order holds within a key: pass key='…', or let the task make it: "
                "@hf.task(ordered=True, key=lambda order_id: f'order:{order_id}')",
            )
        self._idempotency_key = self._checked_key("idempotency_key")
        self._id = options.get("id")
        if self._id is not None and not isinstance(self._id, UUID):
            raise InvalidInput("id", f"expected a UUID, got {type(self._id).__name__}")

    def one(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> NewJob:
        """Make one job."""
        bound = bind(self._definition, arguments, keywords)
        return self._make(self._id or new_id(), bound, self._idempotency_key)

    def many(self, arguments: Iterable[Mapping[str, Any]], idempotency_keys: Iterable[str] | None) -> Batch:
        """Make one job for each mapping of arguments."""
        if self._idempotency_key is not None or self._id is not None:
            raise InvalidInput("idempotency_key", "one key cannot stand for many jobs; pass idempotency_keys=[…]")
        rows = list(arguments)
        keys: list[str | None] = list(idempotency_keys) if idempotency_keys is not None else [None] * len(rows)
        if len(keys) != len(rows):
            raise InvalidInput("idempotency_keys", f"expected one for each of {len(rows)} jobs, got {len(keys)}")

        def make(start: int, stop: int) -> list[NewJob]:
            ids = new_ids(min(stop, len(rows)) - start)
            return list(map(self._make_numbered, range(start, stop), ids, rows[start:stop], keys[start:stop]))

        return Batch(len(rows), make, self._terms, unique=any(key is not None for key in keys))

    def _make_numbered(self, position: int, id: JobId, arguments: Mapping[str, Any], key: str | None) -> NewJob:
        """Make one job of many; errors name its position."""
        try:
            if type(arguments) is not dict and not isinstance(arguments, Mapping):
                raise InvalidPayload(
                    "", f"expected arguments by name, such as {{'order_id': 1}}, got a {type(arguments).__name__}"
                )
            checked = check_key("idempotency_key", key, self._limits) if key is not None else None
            return self._make(id, bind(self._definition, (), arguments), checked)
        except InvalidInput as refused:
            field = f"[{position}].{refused.field}" if refused.field else f"[{position}]"
            raise type(refused)(field, refused.problem) from None

    def _make(self, id: UUID, arguments: dict[str, Any], idempotency_key: str | None) -> NewJob:
        text = payloads.encode(self._definition.kind, arguments, self._limits)
        try:
            decoded = self._definition.decoder.decode(text)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$.")
            raise InvalidPayload(path.rstrip("`") or "payload", message) from None
        key = self._key if self._key is not None or not self._derives_key else self._derive_key(decoded)
        return NewJob(self._terms, id, text, key, idempotency_key, self._id is not None)

    def _derive_key(self, arguments: msgspec.Struct) -> str:
        task = self._definition
        assert task.make_key is not None
        key = task.make_key(**{name: getattr(arguments, name) for name in task.key_names})
        return check_key("key", key, self._limits)

    def _make_terms(self) -> Terms:
        options, task = self._options, self._definition
        delay, at, queue = options.get("delay"), options.get("at"), options.get("queue")
        if delay is not None and at is not None:
            raise InvalidInput("delay", "give delay or at, not both")
        if task.ordered and not task.skips and (delay is not None or at is not None):
            raise InvalidInput(
                "delay" if delay is not None else "at",
                f"{task.kind} is ordered: a job that is due later would hold up its key until then; enqueue it when it "
                "is due, or let waiting jobs be skipped (on_failure='skip')",
            )
        return Terms(
            kind=task.kind,
            queue=check_name("queue", queue, self._limits) if queue is not None else task.queue,
            priority=_or_default("priority", options.get("priority"), task.priority, PRIORITIES[0], PRIORITIES[-1]),
            max_attempts=_or_default("max_attempts", options.get("max_attempts"), task.max_attempts, 1, 2**31 - 1),
            version=task.version,
            delay=seconds(delay, "delay") if delay is not None else None,
            at=check_instant("at", at) if at is not None else None,
            headers=_headers(options.get("headers"), self._limits),
            ordered=task.ordered,
            skips=task.skips,
        )

    def _checked_key(self, field: typing.Literal["key", "idempotency_key"]) -> str | None:
        key = self._options.get(field)
        return check_key(field, key, self._limits) if key is not None else None


class Batch:
    """The jobs of one call for many. They are made when they are needed, and once: a retry sends the same ids."""

    CHUNK = 100

    def __init__(
        self, number: int, make: Callable[[int, int], Sequence[NewJob]], terms: Terms | None, *, unique: bool
    ) -> None:
        self._number = number
        self._make = make
        self.terms = terms
        """Of all of them; None if they differ."""
        self.unique = unique
        """Might some of them be there already?"""
        self.made: list[NewJob] = []

    @classmethod
    def of(cls, jobs: Iterable[NewJob]) -> Batch:
        """A batch of jobs that are made already, of one task or of several."""
        ready = list(jobs)
        for position, job in enumerate(ready):
            if not isinstance(job, NewJob):
                raise InvalidInput(f"[{position}]", f"expected task.job(…), got a {type(job).__name__}")
        same = ready[0].terms if ready and all(job.terms == ready[0].terms for job in ready) else None
        return cls(len(ready), lambda start, stop: ready[start:stop], same, unique=any(job.unique for job in ready))

    @property
    def copyable(self) -> bool:
        """Can COPY store them?"""
        return not self.unique and self.terms is not None and self.terms.plain is not None

    def __len__(self) -> int:
        return self._number

    def next(self, number: int = CHUNK) -> Sequence[NewJob]:
        """Make some more; none if all are made. After an error, none of these are made."""
        start = len(self.made)
        made = self._make(start, min(start + number, self._number))
        self.made += made
        return made

    def all(self) -> list[NewJob]:
        self.next(len(self))
        return self.made


def _or_default(field: str, value: int | None, default: int, low: int, high: int) -> int:
    return default if value is None else check_int(field, value, low, high)


def _headers(headers: Mapping[str, str] | None, limits: Limits) -> dict[str, str] | None:
    if headers is None:
        return None
    plain = dict(headers)
    for part in (part for pair in plain.items() for part in pair):
        if not isinstance(part, str):
            raise InvalidInput(
                "headers", f"expected text by text, such as {{'traceparent': '00-…'}}, got a {type(part).__name__}"
            )
    payloads.encode_value("headers", plain, limits)  # checks what cannot be stored
    return plain
