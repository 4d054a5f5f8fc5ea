"""Contexts for unit tests of handlers, without a database."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload
from uuid import UUID

import msgspec

from ..context import NO_STATE, Context, TxContext, run_without_loop
from ..db.database import Connection
from ..errors import Cancelled, ConfigurationError, InvalidInput, LeaseLost, Timeout
from ..model.ids import new_id
from ..model.job import Claim
from ..model.questions import EnterOnce, FinishOnce, Progress, Question

if TYPE_CHECKING:
    from ..tasks import Task


class ContextOptions(TypedDict, total=False):
    """The options of `make_context`.

    ```python
    made = make_context(charge, max_attempts=5, headers={"traceparent": "00-…"})
    ```
    """

    job_id: UUID
    """Default: a new one."""
    kind: str
    """Default: the task's."""
    queue: str
    """Default: the task's."""
    key: str
    """Default: the job's id, as for jobs without a key."""
    attempt: int
    """Default: 1."""
    max_attempts: int
    """Default: the task's."""
    generation: int
    """How often it has been claimed."""
    fence: int
    """The number that rises with every claim."""
    idempotency_key: str
    """Default: the job's id."""
    headers: Mapping[str, str]
    """Default: none."""
    state: Any
    """What the lifespan would yield."""
    done: Iterable[str]
    """Keys of `once` blocks that have finished before."""


class _Recorded:
    """What a handler did with its context."""

    _desk: Any
    _tell: Any

    @property
    def reported(self) -> list[tuple[float, str]]:
        """What the handler has reported with `ctx.progress`, as (fraction, text), oldest first."""
        return [(each.fraction, each.text) for each in self._desk.notes]

    @property
    def done(self) -> set[str]:
        """The keys of `once` blocks that have finished, with those that were given."""
        return set(self._desk.done)

    def stop(self, reason: LeaseLost | Cancelled | Timeout | None = None) -> None:
        """Tell the handler to stop: from now on, `ctx.check()` raises `reason`, and `ctx.stopping` is True."""
        self._tell(reason or Cancelled("cancelled by the test"))


class MadeContext(_Recorded, Context):
    """A context that `make_context` has made."""


class MadeTxContext(_Recorded, TxContext):
    """The same, with a transaction."""


@overload
def make_context(
    task: Task[Any, Any] | None = None, *, tx: None = None, **options: Unpack[ContextOptions]
) -> MadeContext: ...
@overload
def make_context(
    task: Task[Any, Any] | None = None, *, tx: Connection, **options: Unpack[ContextOptions]
) -> MadeTxContext: ...


def make_context(
    task: Task[Any, Any] | None = None, *, tx: Connection | None = None, **options: Unpack[ContextOptions]
) -> MadeContext | MadeTxContext:
    """Make a context for a direct call of a handler: `await send_receipt(make_context(attempt=3), order_id=1)`.

    Needs no database. With a `task`, kind, queue and max_attempts are the task's. With `tx`, your connection, it is a
    `TxContext`. `ctx.once` remembers in memory, `ctx.progress` is recorded in `ctx.reported`, and `ctx.stop()` tells
    the handler to stop. For the other options, see `ContextOptions`.

    ```python
    from holdfast.testing import make_context

    made = make_context(charge, attempt=3)
    await charge(made, order_id=23)
    ```
    """
    if unknown := sorted(options.keys() - set(ContextOptions.__annotations__)):
        known = ", ".join(["task", "tx", *ContextOptions.__annotations__])
        raise InvalidInput(unknown[0], f"is not an option of make_context(); it takes {known}")
    definition = task._definition if task is not None else None
    id = options.get("job_id") or new_id()
    headers = options.get("headers")
    claim = Claim(
        worker="make_context",
        id=id,
        generation=options.get("generation", options.get("attempt", 1)),
        fence=options.get("fence", 1),
        attempt=options.get("attempt", 1),
        max_attempts=options.get("max_attempts", definition.max_attempts if definition is not None else 5),
        kind=options.get("kind", definition.kind if definition is not None else "task"),
        version=definition.version if definition is not None else 1,
        payload="{}",
        queue=options.get("queue", definition.queue if definition is not None else "default"),
        key=options.get("key", str(id)),
        headers=msgspec.json.encode(dict(headers)).decode() if headers else None,
        idempotency_key=options.get("idempotency_key"),
    )
    desk = _MemoryDesk(options.get("state", NO_STATE), options.get("done", ()))
    return MadeContext(claim, desk) if tx is None else MadeTxContext(claim, desk, tx)


class _MemoryDesk:
    """See `context.Desk`."""

    def __init__(self, state: Any, done: Iterable[str]) -> None:
        self._state = state
        self.done = set(done)
        self.notes: list[Progress] = []

    @property
    def state(self) -> Any:
        if self._state is NO_STATE:
            raise ConfigurationError("ctx.state: this context has none; pass make_context(state=…)")
        return self._state

    async def ask(self, claim: Claim, question: Question) -> bool:
        match question:
            case EnterOnce(key):
                return key not in self.done
            case FinishOnce(key):
                self.done.add(key)
                return True

    def note(self, claim: Claim, progress: Progress) -> None:
        self.notes.append(progress)

    def wait(self, work: Awaitable[Any]) -> Any:
        return run_without_loop(work)
