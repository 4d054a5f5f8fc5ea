"""Which of the jobs that wait a test expects, and what differs in the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, cast
from uuid import UUID

import msgspec

from ..errors import InvalidInput, InvalidPayload
from ..model.durations import Duration, seconds
from ..model.limits import check_instant, check_int

if TYPE_CHECKING:
    from ..tasks import Task

SHOWN = 5
"""The most jobs that a message shows."""
TOLERANCE = 1.0
"""Seconds by which a delay may differ: time passes while a job is enqueued."""


class Enqueued(msgspec.Struct, frozen=True):
    """A job that was enqueued and waits: for its time, its retry, or a worker.

    ```python
    (found,) = await assert_enqueued(send_receipt, key="order:21")
    print(found.arguments, found.at)
    ```
    """

    id: UUID
    """Its id."""
    kind: str
    """The name of its task."""
    arguments: Mapping[str, Any]
    """As its handler gets them; as JSON if they do not fit the task."""
    queue: str
    """Its queue."""
    key: str | None
    """What it belongs to; None if it was given no key."""
    at: datetime
    """When it is due."""
    priority: int
    """0 (first) to 3 (last)."""
    attempts: int
    """How many it has had."""
    headers: Mapping[str, str]
    """The headers that the producer set."""
    idempotency_key: str | None
    """Under which it was enqueued once."""
    created_at: datetime
    """When it was enqueued."""
    now: datetime
    """The time of the question, by the database's clock."""


class _Row(msgspec.Struct):
    id: UUID
    kind: str
    payload: dict[str, Any]
    version: int
    queue: str
    key: str | None
    priority: int
    at: datetime
    created_at: datetime
    now: datetime
    headers: dict[str, str]
    attempts: int
    idempotency_key: str | None


class Expectations(TypedDict, total=False):
    """What `assert_enqueued` and `assert_not_enqueued` can expect of a job, besides its arguments.

    ```python
    await assert_enqueued(send_receipt, queue="mail", within="10m")
    ```
    """

    key: Any
    """What it belongs to."""
    queue: Any
    """Its queue."""
    at: Any
    """When it is due: an instant, or a function of one."""
    delay: Duration
    """It is due this long after it was enqueued, within a second."""
    within: Duration
    """It is due within this time from now."""
    priority: Any
    """0 (first) to 3 (last)."""
    headers: Any
    """These headers are among its own."""
    idempotency_key: Any
    """Under which it was enqueued once."""


class Wanted:
    """What is expected of a job."""

    def __init__(
        self,
        task: Task[Any, Any],
        arguments: Mapping[str, Any] | None,
        expected: dict[str, Any],
        count: int | None = None,
    ) -> None:
        self.app = task._app
        self._definition = task._definition
        self.kind = self._definition.kind
        self.count = check_int("count", count, 0, 2**31 - 1) if count is not None else None
        if task._options:
            name = next(iter(task._options))
            raise InvalidInput(
                name, f"expected the plain task, without .options(…); write: assert_enqueued({self.kind}, {name}=…)"
            )
        names = self._definition.arguments.name_set
        options = set(Expectations.__annotations__)
        if arguments is None:
            given = (expected.keys() & options) | ({"count"} if count is not None else set())
            for name in sorted(names & given):  # which one is meant?
                raise InvalidInput(
                    name, f"{self.kind} has an argument of this name; pass its arguments as arguments={{{name!r}: …}}"
                )
            arguments = {name: value for name, value in expected.items() if name not in options}
            expected = {name: value for name, value in expected.items() if name in options}
        if unknown := sorted(expected.keys() - options):
            raise InvalidInput(
                unknown[0], f"expected one of {', '.join(sorted(options))}; arguments={{…}} has the rest"
            )
        if unknown := sorted(arguments.keys() - names):
            known = f"it takes {', '.join(self._definition.arguments.names)}" if names else "it takes none"
            raise InvalidInput(
                unknown[0], f"is neither an argument of {self.kind} ({known}) nor one of {', '.join(sorted(options))}"
            )
        self._arguments = arguments
        self._expected = expected
        for name in ("delay", "within"):
            if name in expected:
                seconds(expected[name], name)
        if isinstance(expected.get("at"), datetime):
            check_instant("at", expected["at"])

    def none(self) -> Wanted:
        """The same, and there must be no such job."""
        self.count = 0
        return self

    def look(self, rows: Sequence[Any]) -> Found:
        jobs = [self._job(msgspec.json.decode(row[0], type=_Row)) for row in rows]
        return Found(self, [(job, self._differences(job, raw)) for job, raw in jobs])

    def _job(self, row: _Row) -> tuple[Enqueued, dict[str, Any]]:
        raw = {name: value for name, value in row.payload.items() if name != "type"}
        try:
            arguments: Mapping[str, Any] = self._definition.decode(
                msgspec.json.encode(row.payload).decode(), row.version
            )
        except (InvalidPayload, KeyError):  # a wrong payload, or a version without an upcast
            arguments = raw
        job = Enqueued(
            row.id, row.kind, arguments, row.queue, row.key, row.at, row.priority, row.attempts, row.headers,
            row.idempotency_key, row.created_at, row.now,
        )  # fmt: skip
        return job, raw

    def _differences(self, job: Enqueued, raw: Mapping[str, Any]) -> list[str]:
        """What is not as expected, in words."""
        wrong: list[str] = []
        for name, expected in self._arguments.items():
            actual = job.arguments.get(name)
            if not (_fits(expected, actual) or (name in raw and _fits(expected, raw[name]))):
                wrong.append(f"{name} is {actual!r}, expected {_shown(expected)}")
        for name, expected in self._expected.items():
            if (difference := self._option_differs(name, expected, job)) is not None:
                wrong.append(difference)
        return wrong

    def _option_differs(self, name: str, expected: Any, job: Enqueued) -> str | None:
        due_in = (job.at - job.now).total_seconds()
        match name:
            case "delay":
                delay = seconds(expected)
                waits = (due_in, (job.at - job.created_at).total_seconds())
                if any(abs(each - delay) <= TOLERANCE for each in waits):
                    return None
                return f"its delay is {timedelta(seconds=round(waits[1]))}, expected {timedelta(seconds=delay)}"
            case "within":
                if due_in <= seconds(expected):
                    return None
                return f"it is due in {timedelta(seconds=round(due_in))}, expected within {expected}"
            case "headers" if isinstance(expected, Mapping):
                fits = all(key in job.headers and _fits(value, job.headers[key]) for key, value in expected.items())
                return None if fits else f"headers are {dict(job.headers)!r}, expected {dict(expected)!r} among them"
            case "at":
                fits = _fits(expected, job.at)
                return None if fits else f"it is due at {job.at.isoformat()}, expected {_shown(expected)}"
            case _:
                actual = getattr(job, name)
                return None if _fits(expected, actual) else f"{name} is {actual!r}, expected {_shown(expected)}"

    def __str__(self) -> str:
        return ", ".join(f"{name}={_shown(value)}" for name, value in {**self._arguments, **self._expected}.items())


def _fits(expected: Any, actual: Any) -> bool:
    """Is it what a test expects? A type is compared, not called: some libraries compare with classes."""
    if callable(expected) and not isinstance(expected, type):
        return bool(cast(Callable[[Any], Any], expected)(actual))
    return bool(expected == actual)


def _shown(expected: Any) -> str:
    if isinstance(expected, datetime):
        return expected.isoformat()
    if callable(expected) and not isinstance(expected, type):
        return f"what {getattr(expected, '__name__', repr(expected))} accepts"
    return repr(expected)


class Found:
    """The jobs that wait, each with what is not as expected."""

    def __init__(self, wanted: Wanted, jobs: list[tuple[Enqueued, list[str]]]) -> None:
        self._wanted = wanted
        self._jobs = jobs
        self.matching = [job for job, differences in jobs if not differences]
        count = wanted.count
        self.right = bool(self.matching) if count is None else len(self.matching) == count

    def message(self, around: Sequence[Any], committed: bool) -> str:
        """Say what was expected, what is there, and what differs. `committed`: uncommitted jobs are not seen."""
        count, kind = self._wanted.count, self._wanted.kind
        what = f"with {self._wanted}" if str(self._wanted) else ""
        if count is None:
            expected = f"expected a job of {kind} to be enqueued {what}".rstrip()
        elif count == 0:
            expected = f"expected no job of {kind} to be enqueued {what}".rstrip()
        else:
            expected = f"expected exactly {count} job{'s' * (count != 1)} of {kind} to be enqueued {what}".rstrip()
        lines = [f"{expected}; found {len(self.matching) or 'none'}."]
        lines += [f"  {_line(job)}" for job in self.matching[:SHOWN]]
        if len(self.matching) > SHOWN:
            lines.append(f"  … and {len(self.matching) - SHOWN} more")
        others = sorted((pair for pair in self._jobs if pair[1]), key=lambda pair: len(pair[1]))
        if others and count != 0:
            lines.append(
                f"{_jobs(len(others))} of {kind} wait{'s' * (len(others) == 1)} that differ{'s' * (len(others) == 1)}:"
            )
            for job, differences in others[:SHOWN]:
                lines.append(f"  {_line(job)}")
                lines += [f"      {difference}" for difference in differences]
            if len(others) > SHOWN:
                lines.append(f"  … and {len(others) - SHOWN} more, which differ in more")
        elsewhere = [
            f"{jobs} × {each} ({status})" for each, status, jobs in around if each != kind or status not in _WAITS
        ]
        if elsewhere:
            lines.append(f"Also there: {', '.join(elsewhere)}.")
        if committed and len(self.matching) < (1 if count is None else count):
            lines.append("A job of an open transaction is seen only there: pass on=connection, or commit first.")
        return "\n".join(lines)


_WAITS = ("pending", "blocked")


def _jobs(number: int) -> str:
    return f"{number} job{'s' * (number != 1)}"


def _line(job: Enqueued) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in job.arguments.items())
    due_in = round((job.at - job.now).total_seconds())
    more = [f"queue {job.queue!r}"]
    if job.key is not None:
        more.append(f"key {job.key!r}")
    if due_in > 0:
        more.append(f"due in {timedelta(seconds=due_in)}")
    if job.attempts:
        more.append(f"attempts so far: {job.attempts}")
    return f"{job.id}: {job.kind}({arguments}), {', '.join(more)}"
