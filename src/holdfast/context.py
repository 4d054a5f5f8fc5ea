"""What a handler knows about its job, and what it can ask for."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, Protocol
from uuid import UUID

import msgspec

from .db.database import Connection
from .errors import Cancelled, ConfigurationError, LeaseLost, Timeout
from .model.job import Claim
from .model.limits import check_key
from .model.questions import EnterOnce, FinishOnce, Progress, Question

NO_STATE = object()
"""The state of a process without a lifespan."""


class Desk(Protocol):
    """The part of the worker that serves its handlers."""

    @property
    def state(self) -> Any:
        """What the lifespan of this process yielded, or NO_STATE."""

    async def ask(self, claim: Claim, question: Question) -> bool:
        """The answer. Raises `LeaseLost` if the attempt no longer owns its job, or whatever else ends the attempt."""

    def note(self, claim: Claim, progress: Progress) -> None:
        """Take note of the attempt's progress, from any thread. Never waits."""

    def wait(self, work: Awaitable[Any]) -> Any:
        """Run it on the worker's event loop and wait for it in the handler's thread."""


def run_without_loop(work: Awaitable[Any]) -> Any:
    """Run it to its end: nothing in it waits for an event loop. For desks that have none."""
    try:
        work.__await__().send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for an event loop")


class Context:
    """The job, its attempt and its fence. Handlers that need it take it as their first parameter.

    ```python
    @hf.task
    async def charge(ctx: Context, order_id: int) -> None:
        print(f"order {order_id}, attempt {ctx.attempt} of {ctx.max_attempts}, key {ctx.idempotency_key}")
    ```
    """

    def __init__(self, claim: Claim, desk: Desk) -> None:
        self._claim = claim
        self._desk = desk
        self._stop: Exception | None = None
        self._stopped: threading.Event | None = None  # made when it is needed: it costs as much as the rest

    @property
    def job_id(self) -> UUID:
        """The id of the job."""
        return self._claim.id

    @property
    def kind(self) -> str:
        """The name of its task."""
        return self._claim.kind

    @property
    def queue(self) -> str:
        """The queue that it was claimed from."""
        return self._claim.queue

    @property
    def key(self) -> str:
        """What the job belongs to: the key that the producer gave, or one that no other job has."""
        return self._claim.key

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return self._claim.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts the job has in all."""
        return self._claim.max_attempts

    @property
    def generation(self) -> int:
        """How often this job has been claimed."""
        return self._claim.generation

    @property
    def fence(self) -> int:
        """A number that rises with every claim of any job. Another store can use it to reject stale writers."""
        return self._claim.fence

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this job: pass it to services that deduplicate."""
        return self._claim.idempotency_key or str(self._claim.id)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the producer set, such as `traceparent`."""
        return msgspec.json.decode(self._claim.headers) if self._claim.headers else {}

    @property
    def state(self) -> Any:
        """What the lifespan of this process has yielded; shared by all attempts in it."""
        if (state := self._desk.state) is NO_STATE:
            raise ConfigurationError(
                "ctx.state: this process has none; pass Holdfast(lifespan=…), or lifespan_sync=… for process=True"
            )
        return state

    @property
    def stopping(self) -> bool:
        """True once this attempt should stop: its lease is lost, its job was cancelled, or it timed out."""
        return self._stop is not None

    def check(self) -> None:
        """Raise `LeaseLost`, `Cancelled` or `Timeout` once this attempt should stop. For long synchronous work.

        ```python
        @hf.task
        def resize(ctx: Context, pages: int) -> None:
            for page in range(pages):
                ctx.check()
                ...
        ```
        """
        if self._stop is not None:
            raise self._stop

    def wait_stopping(self, timeout: float | None = None) -> bool:
        """Wait until this attempt should stop, at most `timeout` seconds. For synchronous handlers.

        ```python
        @hf.task
        def watch(ctx: Context) -> None:
            while not ctx.wait_stopping(timeout=5.0):
                ...
        ```
        """
        if self._stopped is None:
            self._stopped = self.__dict__.setdefault("_event", threading.Event())  # one, for all threads that wait
        if self._stop is not None:  # read after the event is there; `_tell` writes it before it looks for the event
            self._stopped.set()
        return self._stopped.wait(timeout)

    def progress(self, fraction: float, text: str = "") -> None:
        """Report how far this attempt has got, from 0 to 1, and in words: `ctx.progress(0.4, "400 of 1000")`.

        Call it as often as you like: it never waits. The last value is stored about once a second. `holdfast job show`
        and `hf.job(id)` show it.

        ```python
        @hf.task
        async def reindex(ctx: Context, rows: int) -> None:
            for row in range(rows):
                ctx.progress(row / rows, f"{row} of {rows}")
        ```
        """
        done = float(fraction)
        self._desk.note(self._claim, Progress(min(max(done, 0.0), 1.0) if done == done else 0.0, str(text)[:2000]))

    def once(self, key: str) -> Once:
        """`async with ctx.once(key) as first:` `first` is True until one such block has finished, then False.

        The marker is durable. It is written when the block ends without an exception. Handlers that are not async use
        `with ctx.once(key) as first:`.

        ```python
        @hf.task
        async def welcome(ctx: Context, user_id: int) -> None:
            async with ctx.once(f"welcome:{user_id}") as first:
                if first:
                    ...  # send the mail
        ```
        """
        return Once(self._desk, self._claim, check_key("key", key))

    def _tell(self, reason: LeaseLost | Cancelled | Timeout) -> None:
        if self._stop is None:
            self._stop = reason
        if self._stopped is not None:
            self._stopped.set()


class TxContext(Context):
    """A context with a transaction: what you write through `tx` commits together with the completion, and only while
    the worker holds the job.

    ```python
    @hf.task
    async def book(ctx: TxContext, order_id: int) -> None:
        await ctx.tx.execute("insert into ledger values ($1)", order_id)
    ```
    """

    def __init__(self, claim: Claim, desk: Desk, tx: Connection) -> None:
        super().__init__(claim, desk)
        self.tx: Connection = tx
        """An asyncpg connection in a transaction (READ COMMITTED), which commits when the handler returns."""


class StepContext(Context):
    """The context of a step of a workflow: the same for functions and for tasks that are called as steps.

    ```python
    async def charge_card(ctx: StepContext, order_id: int) -> str:
        return f"{ctx.step} under {ctx.idempotency_key}, attempt {ctx.attempt}"
    ```
    """

    def __init__(self, claim: Claim, desk: Desk, step: str, attempt: int, result: Any = None) -> None:
        Context.__init__(self, claim, desk)  # not that of TxContext, which may come next
        self.step = step
        """Its name; in a loop, with a number."""
        self._attempt = attempt
        self.result = result
        """In an `undo` function: what the step returned."""

    @property
    def attempt(self) -> int:
        """Of the step; 1 for the first."""
        return self._attempt

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step: pass it to services that deduplicate."""
        return f"{self._claim.idempotency_key or self._claim.id}/{self.step}"


class StepTxContext(StepContext, TxContext):
    """The context of a step with a transaction: what it writes through `tx` commits together with its record."""

    def __init__(self, claim: Claim, desk: Desk, tx: Connection, step: str, attempt: int, result: Any = None) -> None:
        StepContext.__init__(self, claim, desk, step, attempt, result)
        self.tx = tx


class Once(AbstractAsyncContextManager[bool], AbstractContextManager[bool]):
    """See `Context.once`."""

    def __init__(self, desk: Desk, claim: Claim, key: str) -> None:
        self._desk = desk
        self._claim = claim
        self._key = key
        self._first = False

    async def __aenter__(self) -> bool:
        self._first = await self._desk.ask(self._claim, EnterOnce(self._key))
        return self._first

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._first and kind is None:
            await self._desk.ask(self._claim, FinishOnce(self._key))

    def __enter__(self) -> bool:
        self._first = bool(self._desk.wait(self._desk.ask(self._claim, EnterOnce(self._key))))
        return self._first

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._first and kind is None:
            self._desk.wait(self._desk.ask(self._claim, FinishOnce(self._key)))


Handler = Callable[..., Any]
