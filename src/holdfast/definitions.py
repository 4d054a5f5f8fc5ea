"""What a task is: its name, its handler, its options, and how its attempts run."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

import msgspec

from .arguments import Arguments, read_arguments, signature
from .context import Handler, TxContext
from .errors import ConfigurationError, InvalidInput, InvalidPayload
from .model.backoff import Backoff, RetryFunction, policy
from .model.durations import Duration, seconds
from .model.keep import CLASSES, NOTHING, days_of
from .model.limits import PRIORITIES, check_flag, check_int, check_name
from .parameters import check_result, from_plain

OnFailure = typing.Literal["block", "skip"]
"""What a failed job means for the next ones of its ordered key: they wait for its retry, or run meanwhile."""

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts a payload of one version to the next version."""


ARCHIVE_DAYS: Final = "archive_days"
"""The default of `keep`."""


class Runs(Enum):
    """How the attempts of a task run."""

    ON_LOOP = "on the worker's event loop"
    IN_TRANSACTION = "on the event loop, in a transaction that commits with the ending"
    IN_THREAD = "in a thread of the worker"
    IN_PROCESS = "in a separate process"
    AS_FLOW = "replayed from its steps"


class Definition(msgspec.Struct, frozen=True):
    """A task as the worker sees it."""

    kind: str
    function: Handler
    queue: str
    max_attempts: int
    priority: int
    timeout: float
    version: int
    runs: Runs
    wants_context: bool
    arguments: Arguments
    ordered: bool | None = None
    skips: bool | None = None
    retry: Backoff | None = None
    max_snoozes: int | None = None
    unique_arguments: bool | None = None
    unique_done: bool | None = None
    keep: int | None = None
    """For how many days a completed job is kept; 0: it leaves no row; None: for as long as the installation says."""
    expires: float | None = None
    """Seconds from the enqueue of a job to its expiry."""
    make_key: Callable[..., str] | None = None
    key_names: tuple[str, ...] = ()
    """The arguments that `make_key` takes."""
    upcasts: dict[int, Upcast] = msgspec.field(default_factory=dict)
    earlier: dict[int, Definition] = msgspec.field(default_factory=dict)
    """Of a workflow: its code of earlier versions, for instances that began with them."""
    undo_on_failure: bool = False
    """Of a workflow: undo its finished steps when one is out of attempts, instead of waiting for an operator."""

    @property
    def kept(self) -> bool:
        """Does a completed job leave a row?"""
        return self.keep != 0

    @property
    def app(self) -> str:
        """The package that declares it."""
        return (getattr(self.function, "__module__", None) or "").partition(".")[0]

    @property
    def stoppable(self) -> bool:
        """Can an attempt be stopped from outside? A thread cannot."""
        return self.runs is not Runs.IN_THREAD

    @property
    def oldest(self) -> int:
        """The oldest payload version that the upcasts can convert."""
        version = self.version
        while version - 1 in self.upcasts or version - 1 in self.earlier:
            version -= 1
        return version

    def at(self, version: int) -> Definition:
        """Of a workflow: the code of this version."""
        return self if version == self.version else self.earlier[version]

    def decode(self, payload: str, version: int) -> dict[str, Any]:
        """The arguments of a stored payload, converted to this version and checked against the types."""
        try:
            if version < self.version:
                plain = msgspec.json.decode(payload)
                for step in range(version, self.version):
                    plain = {"type": self.kind, **self.upcasts[step]({k: v for k, v in plain.items() if k != "type"})}
                decoded = msgspec.convert(plain, self.arguments.struct, dec_hook=from_plain)
            else:
                decoded = self.arguments.decoder.decode(payload)
        except msgspec.ValidationError as error:
            raise InvalidPayload("payload", f"does not fit {self.kind}: {error}") from None
        arguments = msgspec.structs.asdict(decoded)
        del arguments["type_"]
        return arguments


class TaskOptions(typing.TypedDict, total=False):
    """The options of `Holdfast.task`.

    ```python
    @hf.task(name="orders.export", max_attempts=3, key=lambda tenant: f"tenant:{tenant}", ordered=True)
    async def export(tenant: int) -> None: ...
    ```
    """

    name: str | None
    """Stored with every job, so keep it when the function is renamed; None: the function's name."""
    queue: str
    """The queue of its jobs; 'default'."""
    max_attempts: int
    """Attempts until a job becomes a dead letter; 5."""
    priority: int
    """0 (first) to 3 (last); 1."""
    timeout: Duration
    """Of one attempt; 1 h."""
    version: int
    """Of its payloads; 1. Raise it when the arguments change, and add an `upcast` for jobs in flight."""
    ordered: bool | None
    """One at a time and in order, per queue and key; None: as the queue says."""
    on_failure: OnFailure | None
    """While a failed job of an ordered key waits for its retry, the others of the key wait too ('block') or run
    ('skip')."""
    process: bool
    """Run it in a separate process, for work that keeps a core busy or may crash."""
    retry: Backoff | RetryFunction | None
    """When a failed attempt is retried, and when not; None: the installation's backoff."""
    max_snoozes: int | None
    """How often its handler may snooze a job, before it becomes a dead letter; None: as the settings say, 1,000."""
    unique_arguments: bool | None
    """If a job with the same arguments has not started yet, find it instead of adding another."""
    unique_done: bool | None
    """Find it until it has ended, not only until it has started."""
    keep: str | timedelta | None
    """How long a completed job is kept at least, such as "7d"; None: it leaves no row, and so has no result; left out:
    `archive_days`."""
    expires: Duration | None
    """If a job has not started this long after its enqueue, end it as expired."""
    key: Callable[..., str] | None
    """Makes the key of a job from its arguments: `key=lambda order_id: f"order:{order_id}"`."""


def define(
    function: Handler,
    *,
    name: str | None = None,
    queue: str = "default",
    max_attempts: int = 5,
    priority: int = 1,
    timeout: Duration = "1h",
    version: int = 1,
    ordered: bool | None = None,
    on_failure: OnFailure | None = None,
    process: bool = False,
    retry: Backoff | RetryFunction | None = None,
    max_snoozes: int | None = None,
    unique_arguments: bool | None = None,
    unique_done: bool | None = None,
    keep: str | timedelta | None = ARCHIVE_DAYS,
    expires: Duration | None = None,
    key: Callable[..., str] | None = None,
    flow: type | None = None,
    undo_on_failure: bool = False,
) -> Definition:
    """Read a handler's signature; reject what cannot be stored or called later. `flow`: of a workflow, the class that
    its first parameter must have."""
    _check_function(function)
    kind = check_name("name", name or getattr(function, "__name__", "<lambda>"))
    if kind == "<lambda>" or "<locals>" in kind:
        raise ConfigurationError("name: a task needs a stable name; pass name='…'")
    context, parameters, hints = signature(kind, function, flow)
    is_async = inspect.iscoroutinefunction(function)
    if flow is not None:
        runs = _runs_as_flow(kind, is_async, context)
    else:
        runs = _runs(kind, is_async, context, bool(check_flag("process", process)))
    check_result(kind, hints.get("return", Any))
    arguments = read_arguments(kind, parameters, hints)
    return Definition(
        kind=kind,
        function=function,
        queue=check_name("queue", queue),
        max_attempts=check_int("max_attempts", max_attempts, 1, 2**31 - 1),
        priority=check_int("priority", priority, PRIORITIES[0], PRIORITIES[-1]),
        timeout=_positive("timeout", timeout),
        version=check_int("version", version, 1, 2**31 - 1),
        runs=runs,
        wants_context=context is not None,
        arguments=arguments,
        ordered=check_flag("ordered", ordered),
        skips=skips(on_failure),
        retry=policy(retry),
        max_snoozes=check_int("max_snoozes", max_snoozes, 0, 2**31 - 1) if max_snoozes is not None else None,
        unique_arguments=check_flag("unique_arguments", unique_arguments),
        unique_done=check_flag("unique_done", unique_done),
        keep=_keep_days(keep),
        expires=check_expires(expires) if expires is not None else None,
        make_key=key,
        key_names=_key_names(kind, key, arguments.names),
        undo_on_failure=bool(check_flag("undo_on_failure", undo_on_failure)),
    )


def _key_names(kind: str, key: Callable[..., str] | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Which of the arguments the function takes that makes a job's key."""
    if key is None:
        return ()
    if not callable(key):
        raise ConfigurationError(f"{kind}: key: expected a function of the arguments, got {key!r}")
    wanted = tuple(inspect.signature(key).parameters)
    if unknown := [name for name in wanted if name not in names]:
        raise ConfigurationError(
            f"{kind}: key: its function takes {unknown[0]!r}, which is no argument of the task; expected some of "
            f"{', '.join(names) or 'none'}"
        )
    return wanted


def _runs_as_flow(kind: str, is_async: bool, flow: type | None) -> Runs:
    if not is_async:
        raise ConfigurationError(f"{kind}: a workflow must be async; its steps need not be")
    if flow is None:
        raise ConfigurationError(f"{kind}: the first parameter of a workflow must be annotated as Flow")
    return Runs.AS_FLOW


def _runs(kind: str, is_async: bool, context: type | None, process: bool) -> Runs:
    wants_tx = context is not None and issubclass(context, TxContext)
    if wants_tx and not is_async:
        raise ConfigurationError(f"{kind}: a handler that takes TxContext must be async")
    if process and is_async:
        raise ConfigurationError(
            f"{kind}: process=True is for plain functions; an async one runs on the worker's event loop"
        )
    if is_async:
        return Runs.IN_TRANSACTION if wants_tx else Runs.ON_LOOP
    return Runs.IN_PROCESS if process else Runs.IN_THREAD


def _check_function(function: object) -> None:
    if isinstance(function, str):
        raise ConfigurationError(f"task: expected a function, got text; write @hf.task(name={function!r})")
    if inspect.isclass(function) or not callable(function):
        got = f"the class {function.__name__}" if inspect.isclass(function) else f"a {type(function).__name__}"
        raise ConfigurationError(f"task: expected a function, sync or async, got {got}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        name = getattr(function, "__name__", "task")
        raise ConfigurationError(f"{name}: a handler must return, and this one yields: calling it would run nothing")


def skips(on_failure: OnFailure | None) -> bool | None:
    if on_failure not in (None, "block", "skip"):
        raise InvalidInput("on_failure", f"expected 'block' or 'skip', got {on_failure!r}")
    return None if on_failure is None else on_failure == "skip"


def _keep_days(keep: str | timedelta | None) -> int | None:
    """Rounded up; 0: nothing is kept; None: as the installation says."""
    if keep is None or keep == ARCHIVE_DAYS:
        return NOTHING if keep is None else None
    if not isinstance(keep, str | timedelta):  # 7 would be seconds, and look like days
        raise InvalidInput("keep", f"expected a duration such as '7d', or None to keep no row, got {keep!r}")
    if not (number := seconds(keep, "keep")):
        raise InvalidInput("keep", f"expected a duration above zero, or None to keep no row, got {keep!r}")
    days = days_of(number)
    if days is None:
        raise InvalidInput("keep", f"expected a duration of at most {CLASSES[-1]}d, got {keep!r}")
    return days


def check_expires(expires: object) -> float:
    """Return the seconds after which a job expires."""
    if isinstance(expires, datetime):
        raise InvalidInput(
            "expires", "of a task, expected a duration such as '10m'; for one job, pass a time to options()"
        )
    return _positive("expires", typing.cast(Duration, expires))


def _positive(field: str, duration: Duration) -> float:
    if (number := seconds(duration, field)) == 0:
        raise InvalidInput(field, f"expected a duration above zero, got {duration!r}")
    return number
