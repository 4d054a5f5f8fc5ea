"""What the code of a workflow calls."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, TypeVar, TypeVarTuple, Unpack, cast, overload
from uuid import UUID, uuid4

import msgspec

from ..context import Context, TxContext
from ..errors import ChildFailed, InvalidInput
from ..model.durations import Duration, seconds
from ..model.flow import NewChild, RecordedStep, StepKind, StepRecord, StepStatus
from ..model.ids import new_id
from ..model.job import Claim
from ..model.limits import check_name
from ..model.outcome import Fail, Snooze
from ..model.terms import NewJob
from . import steps
from .branches import stand_still
from .calls import (
    PATCH_PREFIX,
    SIGNALLED,
    Signalled,
    StepOptions,
    as_child,
    signal_payload,
    step_how,
    step_name,
)
from .functions import Decode, decoder_of, result_of, step_function
from .history import TOO_LONG, shown
from .machine import Machine

__all__ = ["Flow", "StepOptions"]

R = TypeVar("R")
T = TypeVar("T")
A = TypeVarTuple("A")


class Flow:
    """The handle of a workflow instance: everything that its code does goes through it, and is recorded.

    ```python
    @hf.workflow(version=1)
    async def checkout(flow: Flow, order_id: int) -> str:
        await flow.step("reserve", reserve, order_id, undo=release)
        await flow.sleep("grace", "15m")
        shipped = await flow.wait("shipped", dict, timeout="3d")
        return "shipped" if shipped else "late"
    ```
    """

    def __init__(self, machine: Machine, claim: Claim) -> None:
        self._machine = machine
        self._claim = claim

    @property
    def id(self) -> str:
        """The id that the instance was started with, or that of its job."""
        return self._claim.idempotency_key or str(self._claim.id)

    @property
    def job_id(self) -> UUID:
        """The id of its job."""
        return self._claim.id

    # Steps

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[TxContext, *A], Awaitable[R | Snooze | Fail]],
        /,
        *arguments: *A,
        **options: Unpack[StepOptions],
    ) -> R: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[[Context, *A], Awaitable[R | Snooze | Fail]],
        /,
        *arguments: *A,
        **options: Unpack[StepOptions],
    ) -> R: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[[*A], Awaitable[R | Snooze | Fail]],
        /,
        *arguments: *A,
        **options: Unpack[StepOptions],
    ) -> R: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[[Context, *A], R | Snooze | Fail],
        /,
        *arguments: *A,
        **options: Unpack[StepOptions],
    ) -> R: ...
    @overload
    async def step(
        self, name: str, function: Callable[[*A], R | Snooze | Fail], /, *arguments: *A, **options: Unpack[StepOptions]
    ) -> R: ...

    async def step(  # type: ignore[misc]  # it does take all signatures
        self, name: str, function: Any, /, *arguments: Any, **options: Unpack[StepOptions]
    ) -> Any:
        """Run this function, once: its result is recorded, and a later run of the workflow gets the recorded one.

        The function may be sync or async, or a task; it may take a `Context` first. With a `TxContext`, its effect and
        its record commit together. If it raises, it is retried: `max_attempts` (5), `timeout` (1 h) and `retry` are as
        those of a task. Out of attempts, the instance becomes a dead letter, which can be resumed; with `catch`,
        `StepFailed` is raised here instead. `undo` is called with the same arguments if the instance is cancelled or
        fails later. In a loop, steps of one name are numbered; in `gather`, tell them apart with `key`.

        ```python
        charge_id = await flow.step("charge", charge_card, order_id, undo=refund, max_attempts=3, timeout="30s")
        ```
        """
        machine = self._machine
        branch = machine.enter()
        called = step_function(function)
        if not options:
            return await steps.step(machine, branch, step_name(name), called, arguments, steps.usual(called))
        undo = options.get("undo")
        return await steps.step(
            machine, branch, step_name(name, options.get("key")), called, arguments, step_how(called, options),
            step_function(undo) if undo is not None else None,
        )  # fmt: skip

    # Waiting

    async def sleep(self, name: str, delay: Duration, /) -> None:
        """Wait this long. It survives restarts, holds no worker, and never ends early.

        ```python
        await flow.sleep("grace", "15m")
        ```
        """
        await self._timer(name, seconds(delay, "delay"), None)

    async def until(self, name: str, at: datetime, /) -> None:
        """Wait until this time, which must have a time zone."""
        if at.tzinfo is None:
            raise InvalidInput("at", f"expected a time with a time zone, got {at!r}")
        await self._timer(name, None, at)

    async def _timer(self, name: str, delay: float | None, at: datetime | None) -> None:
        machine = self._machine
        branch = machine.enter()
        n = machine.number(branch, step_name(name))
        found = machine.find(branch, name, n, StepKind.SLEEP)
        waits = [f"timer:{shown(name, n)}"]
        if found is None:
            ordinal = await machine.begin(branch)
            machine.unwritten.append(
                StepRecord(name, n, ordinal, StepKind.SLEEP, StepStatus.OPEN, delay=delay, at=at, ended=perf_counter())
            )
            await machine.park(waits, delay=delay, wake_at=at)
        elif found.status == StepStatus.OPEN:
            if not found.due:
                await machine.park(waits, wake_at=found.wake_at)
            await machine.go_on(branch)
            self._end(found, StepStatus.DONE)

    def _end(self, found: RecordedStep, status: str, result: str | None = None, signal: int | None = None) -> None:
        self._machine.unwritten.append(
            StepRecord(
                found.name, found.n, found.ordinal, found.kind, status, result, took=self._machine.past.age(found),
                signal=signal, ended=perf_counter(),
            )
        )  # fmt: skip

    @overload
    async def wait(self, name: str, type: type[T], /, *, timeout: Duration | None = None) -> T | None: ...
    @overload
    async def wait(self, name: str, /, *, timeout: Duration | None = None) -> Any: ...

    async def wait(self, name: str, type: Any = Any, /, *, timeout: Duration | None = None) -> Any:
        """Wait for a signal of this name, and return its payload; None if it does not come within `timeout`.

        A signal that came before is taken at once. Each signal is taken by one wait.

        ```python
        shipped = await flow.wait("shipped", dict, timeout="3d")
        ```
        """
        decode = decoder_of(type)
        taken = await self._wait(name, (name,), timeout)
        return None if taken is None else signal_payload(taken[0], taken[1], decode)

    async def wait_any(
        self, name: str, signals: Iterable[str], /, *, timeout: Duration | None = None
    ) -> tuple[str, Any] | None:
        """Wait for the first of several signals: its name and its payload; None if none comes within `timeout`.

        ```python
        answer = await flow.wait_any("answer", ["approved", "rejected"], timeout="2d")
        ```
        """
        names = tuple(check_name("signal", each) for each in signals) if not isinstance(signals, str) else ()
        if not names:
            raise InvalidInput("signals", f"expected names of signals, got {signals!r}")
        taken = await self._wait(name, names, timeout)
        return None if taken is None else (taken[0], signal_payload(taken[0], taken[1], decoder_of(Any)))

    async def _wait(self, name: str, names: tuple[str, ...], timeout: Duration | None) -> tuple[str, bytes] | None:
        """The signal's name and its payload, as JSON. With several names, both are recorded."""
        machine = self._machine
        branch = machine.enter()
        n = machine.number(branch, step_name(name))
        limit = seconds(timeout, "timeout") if timeout is not None else None
        several = names != (name,)
        waits = [f"signal:{each}" for each in names]
        found = machine.find(branch, name, n, StepKind.WAIT)
        if found is None:
            found = RecordedStep(name, n, await machine.begin(branch), StepKind.WAIT, StepStatus.OPEN)
            if not machine.past.is_unread(names):
                self._machine.unwritten.append(
                    StepRecord(
                        name, n, found.ordinal, StepKind.WAIT, StepStatus.OPEN, delay=limit, ended=perf_counter()
                    )
                )
                await machine.park(waits, delay=limit)
        elif found.status == StepStatus.DONE:
            return await self._signalled(found) if several else (name, bytes(found.result))
        elif found.status == StepStatus.TIMED_OUT:
            return None
        elif not found.due and not machine.past.is_unread(names):
            await machine.park(waits, wake_at=found.wake_at)
        else:
            await machine.go_on(branch)
        signal = machine.past.take(names)
        if signal is None and found.due:
            self._end(found, StepStatus.TIMED_OUT)
            return None
        if signal is None:  # another branch has taken it while this one waited for its turn
            await machine.park(waits, wake_at=found.wake_at)
        result = msgspec.json.encode(Signalled(signal.name, signal.payload)) if several else bytes(signal.payload)
        self._end(found, StepStatus.DONE, result.decode(), signal.n)
        return signal.name, bytes(signal.payload)

    async def _signalled(self, found: RecordedStep) -> tuple[str, bytes]:
        """What a wait for several signals has recorded."""
        both = steps.replayed(self._machine, found, SIGNALLED.decode)
        if not isinstance(both, Signalled):
            await stand_still()
        return both.signal, bytes(both.payload)

    # Children

    async def child(self, name: str, target: Any, /, *arguments: Any, key: object = None, **keywords: Any) -> Any:
        """Start a workflow or a task, wait for it, and return its result. Raises `ChildFailed` if it did not complete.

        It is an ordinary job, which any worker runs. If this instance is cancelled, so is the child.

        ```python
        total = await flow.child("invoice", make_invoice, order_id)
        ```
        """
        machine = self._machine
        branch = machine.enter()
        name = step_name(name, key)
        job = as_child(target).job(*arguments, **keywords)
        n = machine.number(branch, name)
        found = machine.find(branch, name, n, StepKind.CHILD)
        if found is None:
            self._start(name, n, await machine.begin(branch), job)
        if found is None or found.status == StepStatus.OPEN:
            await machine.park([f"child:{shown(name, n)}"], left=1)
        return await self._ended(found, target)

    async def map(self, name: str, target: Any, items: Iterable[Mapping[str, Any]], /) -> list[Any]:
        """Start a child for each of these arguments, wait for all of them, and return their results, in this order.

        Raises `ChildFailed` for the first that did not complete, when all have ended.

        ```python
        sizes = await flow.map("resize", resize, [{"page": page} for page in range(1000)])
        ```
        """
        machine = self._machine
        branch = machine.enter()
        jobs = [as_child(target).job(**arguments) for arguments in items]
        # Each map has room for all children that an instance can have: one that grows does not find those of the next.
        first = machine.number(branch, step_name(name), room=TOO_LONG)
        found = [machine.find(branch, name, first + index, StepKind.CHILD) for index in range(len(jobs))]
        new = [(index, await machine.begin(branch)) for index, step in enumerate(found) if step is None]
        for index, ordinal in new:
            self._start(name, first + index, ordinal, jobs[index])
        waiting = sum(1 for step in found if step is None or step.status == StepStatus.OPEN)
        if waiting:
            await machine.park([f"child:{name}"], left=waiting)
        return [await self._ended(cast(RecordedStep, step), target) for step in found]

    def _start(self, name: str, n: int, ordinal: int, job: NewJob) -> None:
        terms = job._terms
        child = NewChild(
            new_id(), terms.kind, job.payload, terms.queue, terms.priority,
            terms.max_attempts, terms.version, job.key, terms.ordered, terms.skips, terms.expires,
            self._claim.carried,
        )  # fmt: skip
        self._machine.starts = True
        self._machine.unwritten.append(StepRecord(name, n, ordinal, StepKind.CHILD, StepStatus.OPEN, child=child))

    async def _ended(self, found: RecordedStep, target: Any) -> Any:
        if found.status == StepStatus.FAILED:
            raise ChildFailed(found.name, found.error or "it did not complete")
        value = steps.replayed(self._machine, found, result_of(target))
        if value is steps.UNREADABLE:
            await stand_still()
        return value

    async def gather(self, *branches: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run these side by side, and return their results: `await flow.gather(flow.step(…), pay(flow))`.

        Steps in different branches need different names, or a `key`. All of them run to their end; then the first
        error is raised, if there was one.

        ```python
        stock, price = await flow.gather(flow.step("stock", ask_stock, 1), flow.step("price", ask_price, 1))
        ```
        """
        return await self._machine.gather(branches)

    # Values

    async def patched(self, name: str, /) -> bool:
        """Whether to run the patched code: True for instances that had not reached this point when it was added.

        The first answer holds for the instance, wherever and however often it asks.

        ```python
        if await flow.patched("check for fraud"):
            await flow.step("fraud", check_fraud, order_id)
        ```
        """
        machine = self._machine
        branch = machine.enter()
        name = PATCH_PREFIX + step_name(name)
        if name not in machine.patches and name not in machine.past.patches:
            new = await machine.others(branch, asks=True)
            if name not in machine.patches:  # another branch may have asked meanwhile
                if new:
                    ordinal = await machine.begin(branch)
                    record = StepRecord(name, 0, ordinal, StepKind.PATCH, StepStatus.DONE, ended=perf_counter())
                    machine.unwritten.append(record)
                machine.patches[name] = new
        return machine.patches.setdefault(name, True)

    async def now(self) -> datetime:
        """The time, recorded: a replay gets the same one."""
        return cast(datetime, await self._value("now", lambda: datetime.now(UTC), decoder_of(datetime)))

    async def uuid(self) -> UUID:
        """A random id, recorded."""
        return cast(UUID, await self._value("uuid", uuid4, decoder_of(UUID)))

    async def random(self) -> float:
        """A random number from 0 to 1, recorded."""
        return cast(float, await self._value("random", random.random, decoder_of(float)))

    async def _value(self, name: str, make: Callable[[], Any], decode: Decode) -> Any:
        machine = self._machine
        branch = machine.enter()
        name += branch.suffix
        n = machine.number(branch, name)
        found = machine.find(branch, name, n, StepKind.VALUE)
        if found is None:
            ordinal = await machine.begin(branch)
            result = msgspec.json.encode(value := make()).decode()
            record = StepRecord(name, n, ordinal, StepKind.VALUE, StepStatus.DONE, result, ended=perf_counter())
            machine.unwritten.append(record)
            return value
        value = steps.replayed(machine, found, decode)
        if value is steps.UNREADABLE:
            await stand_still()
        return value
