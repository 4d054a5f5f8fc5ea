"""Turn arguments into jobs that can be enqueued: everything is checked before anything is sent."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from .definitions import Definition, check_expires
from .errors import InvalidInput, InvalidPayload
from .model import payload as payloads
from .model.durations import Duration, seconds
from .model.ids import JobId, new_id, new_ids
from .model.limits import PRIORITIES, Limits, check_flag, check_instant, check_int, check_key, check_name
from .model.terms import NewJob, Terms

Replace = typing.Literal["arguments", "time"]
"""What a job gets that was found, and waits: the new arguments, or the new time as well."""


class EnqueueOptions(typing.TypedDict, total=False):
    """The options of `Task.options` and `Task.on`; None, or left out: as the task says.

    ```python
    job = await send_receipt.options(priority=0, idempotency_key="receipt:13").enqueue(13)
    ```
    """

    key: str | None
    """What the job belongs to; order holds within a key."""
    delay: Duration | None
    """Run it after this long."""
    at: datetime | None
    """Run it at this time."""
    queue: str | None
    """The queue to wait in."""
    priority: int | None
    """0 (first) to 3 (last)."""
    max_attempts: int | None
    """Attempts until it becomes a dead letter."""
    idempotency_key: str | None
    """Enqueue one job under this key, however often this is called."""
    id: UUID | None
    """The id of the job."""
    headers: Mapping[str, str] | None
    """Metadata, for tracing and the like."""
    unique_key: str | None
    """If a job of this task and unique key has not started yet, find it instead of adding another."""
    unique_arguments: bool | None
    """The same for a job with the same arguments."""
    unique_done: bool | None
    """Find it until it has ended, not only until it has started."""
    replace: Replace | None
    """Give the job that was found, if it waits, the new 'arguments', or the new 'time' as well."""
    expires: Duration | datetime | None
    """If it has not started after this long, or by this time, end it as expired. No attempt starts after that."""


OPTION_NAMES = tuple(EnqueueOptions.__annotations__)
_OPTIONS = frozenset(OPTION_NAMES)


def check_options(method: str, options: Mapping[str, Any]) -> None:
    """Raise for names that are no options."""
    if not options.keys() <= _OPTIONS:
        unknown = sorted(options.keys() - _OPTIONS)
        raise InvalidInput(unknown[0], f"is not an option of {method}(); it takes {', '.join(OPTION_NAMES)}")


class Maker:
    """Makes the jobs of one task with the same options."""

    def __init__(self, limits: Limits, definition: Definition, options: EnqueueOptions) -> None:
        self._limits = limits
        self._definition = definition
        self._kind = definition.kind
        self._bind = definition.arguments.bind
        self._decode = definition.arguments.decoder.decode
        self._options = options
        self._terms = self._make_terms()
        self._key = self._checked_key("key")
        self._derives_key = self._key is None and definition.make_key is not None
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
        self._brought = self._id is not None
        self._kept = definition.kept

    def one(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> NewJob:
        """Make one job."""
        bound = self._bind(arguments, keywords)
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

        return Batch(len(rows), make, self._terms, self._terms.queue, unique=any(key is not None for key in keys))

    def _make_numbered(self, position: int, id: JobId, arguments: Mapping[str, Any], key: str | None) -> NewJob:
        """Make one job of many; errors name its position."""
        try:
            if type(arguments) is not dict and not isinstance(arguments, Mapping):
                raise InvalidPayload(
                    "", f"expected arguments by name, such as {{'order_id': 1}}, got a {type(arguments).__name__}"
                )
            checked = check_key("idempotency_key", key, self._limits) if key is not None else None
            return self._make(id, self._bind((), arguments), checked)
        except InvalidInput as refused:
            field = f"[{position}].{refused.field}" if refused.field else f"[{position}]"
            raise type(refused)(field, refused.problem) from None

    def _make(self, id: UUID, arguments: dict[str, Any], idempotency_key: str | None) -> NewJob:
        text = payloads.encode(self._kind, arguments, self._limits)
        try:
            decoded = self._decode(text)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$.")
            raise InvalidPayload(path.rstrip("`") or "payload", message) from None
        key = self._derive_key(decoded) if self._derives_key else self._key
        return NewJob(self._terms, id, text, key, idempotency_key, self._brought, self._kept)

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
        unique_key, unique_arguments, unique_done, replace = self._uniqueness()
        expires, expires_at = self._expiry()
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
            unique_key=unique_key,
            unique_arguments=unique_arguments,
            unique_done=unique_done,
            replace=replace,
            expires=expires,
            expires_at=expires_at,
        )

    def _expiry(self) -> tuple[float | None, datetime | None]:
        """Seconds, or a time. Of a duration and a time, the server decides whether the job can start."""
        options = self._options
        expires, delay, at = options.get("expires"), options.get("delay"), options.get("at")
        if isinstance(expires, datetime):
            instant = check_instant("expires", expires)
            if at is not None and check_instant("at", at) >= instant:
                raise InvalidInput("expires", f"expected a time after at, which is {at}, got {expires}")
            return None, instant
        if expires is None and self._definition.expires is None:
            return None, None
        after = check_expires(expires) if expires is not None else self._definition.expires
        if after is not None and delay is not None and seconds(delay, "delay") >= after:
            raise InvalidInput(
                "expires",
                f"the job is due after {delay!r}, and would expire before that, after {after:g} s: both count from the "
                "enqueue; pass a longer expires",
            )
        return after, None

    def _uniqueness(self) -> tuple[str | None, bool | None, bool | None, Replace | None]:
        options, task = self._options, self._definition
        key = options.get("unique_key")
        by_arguments = check_flag("unique_arguments", options.get("unique_arguments"))
        until_done = check_flag("unique_done", options.get("unique_done"))
        replace = options.get("replace")
        if key is not None and by_arguments:
            raise InvalidInput("unique_key", "give unique_key or unique_arguments, not both")
        if by_arguments is None and key is None:
            by_arguments = task.unique_arguments
        if until_done is None:
            until_done = task.unique_done
        if replace not in (None, "arguments", "time"):
            raise InvalidInput("replace", f"expected 'arguments' or 'time', got {replace!r}")
        if key is None and not by_arguments:
            if replace is not None or options.get("unique_done"):
                field = "replace" if replace is not None else "unique_done"
                raise InvalidInput(field, "needs unique_key='…' or unique_arguments=True: which job is meant?")
            return None, None, None, None
        checked = check_key("unique_key", key, self._limits) if key is not None else None
        return checked, by_arguments or None, until_done or None, replace

    def _checked_key(self, field: typing.Literal["key", "idempotency_key"]) -> str | None:
        key = self._options.get(field)
        return check_key(field, key, self._limits) if key is not None else None


class Batch:
    """The jobs of one call for many. They are made when they are needed, and once: a retry sends the same ids."""

    CHUNK = 100

    def __init__(
        self,
        number: int,
        make: Callable[[int, int], Sequence[NewJob]],
        terms: Terms | None,
        queue: str | None,
        *,
        unique: bool,
    ) -> None:
        self._number = number
        self._make = make
        self.terms = terms
        """Of all of them; None if they differ."""
        self.queue = queue
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
        same = ready[0]._terms if ready and all(job._terms == ready[0]._terms for job in ready) else None
        queues = {job._terms.queue for job in ready}
        queue = queues.pop() if len(queues) == 1 else None
        unique = any(job.unique for job in ready)
        return cls(len(ready), lambda start, stop: ready[start:stop], same, queue, unique=unique)

    @property
    def copyable(self) -> bool:
        """Can COPY store them?"""
        return not self.unique and self.terms is not None and self.terms.copyable

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

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Let all of them carry these headers, too; see `with_headers`. Before the first is made."""
        changed: dict[int, Terms] = {}  # by the terms that they had: jobs share them, and so must these
        make = self._make

        def terms_of(terms: Terms) -> Terms:
            if (found := changed.get(id(terms))) is None:
                found = changed[id(terms)] = with_headers(terms, headers)
            return found

        if self.terms is not None:
            self.terms = terms_of(self.terms)
        self._make = lambda start, stop: [
            msgspec.structs.replace(job, _terms=terms_of(job._terms)) for job in make(start, stop)
        ]


def job_with_headers(job: NewJob, headers: Mapping[str, str]) -> NewJob:
    """The job on its terms with these headers; see `with_headers`."""
    return msgspec.structs.replace(job, _terms=with_headers(job._terms, headers))


def with_headers(terms: Terms, headers: Mapping[str, str]) -> Terms:
    """The terms with these headers as well. If the caller gave one of them, none is added: they belong together."""
    given = terms.headers or {}
    if not headers or not given.keys().isdisjoint(headers):
        return terms
    return msgspec.structs.replace(terms, headers={**given, **headers})


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
