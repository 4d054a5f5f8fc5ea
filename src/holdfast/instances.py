"""Verbs about workflow instances: signal them, look at them, cancel, pause, resume and restart them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from .calls import Calls
from .db.acting import named
from .db.callers import Operation, Row
from .db.database import Database
from .errors import InvalidInput, NotFound
from .inbox import operating as jobs
from .lazy import LazyModule
from .model import payload as payloads
from .model.limits import Limits, check_int, check_key, check_name, check_text
from .workflow import operating

if TYPE_CHECKING:
    from . import instance_states as standing
    from .instance_states import InstanceState
    from .workflows import Instance, Workflow
else:
    standing = LazyModule("holdfast.instance_states")

CANNOT = "HF003"
"""SQLSTATE of what our SQL functions cannot do now."""
STATES = (
    "queued", "running", "sleeping", "waiting", "retrying", "undoing", "paused", "dead letter", "needs attention",
)  # fmt: skip
"""Of live instances."""


class Signalled(StrEnum):
    """What became of a signal.

    ```python
    if await hf.signal("checkout:9", "shipped") is Signalled.ENDED:
        print("too late")
    ```
    """

    WOKEN = "woken"
    """The instance waited for it, and runs on."""
    KEPT = "kept"
    """The instance is not waiting for it yet: its next wait of this name takes it at once."""
    KNOWN = "known"
    """A signal with this `signal_id` was sent before: nothing was added."""
    ENDED = "ended"
    """The instance has ended: nothing was added."""


def signal_operation(
    database: Database, limits: Limits, instance: Any, name: str, payload: Any, signal_id: str | None
) -> Operation[Signalled]:
    """Send a signal, on any connection. Everything is checked before: an error would end the caller's transaction."""
    id = instance_id(instance)

    def decode(rows: Sequence[Row]) -> Signalled:
        if (became := str(rows[0][0])) == "unknown":
            raise unknown(id)
        return Signalled(became)

    return Operation(
        database.sql("workflow", "signal"),
        (
            id,
            check_name("name", name, limits),
            payloads.encode_value("payload", payload, limits),
            check_key("signal_id", signal_id, limits) if signal_id is not None else None,
            named(),
        ),
        decode,
    )


def instance_id(instance: Any) -> str:
    """The id of an instance as text, from all that stands for one."""
    if isinstance(instance, str):
        return check_text("instance", instance)
    if isinstance(instance, UUID):
        return str(instance)
    job_id = getattr(instance, "job_id", None)
    if isinstance(job_id, UUID):
        return str(job_id)
    raise InvalidInput(
        "instance",
        f"expected the id given at its start, the id of its job, or what start() returned; got a "
        f"{type(instance).__name__}",
    )


def unknown(id: str) -> NotFound:
    return NotFound(
        f"There is no workflow instance {id!r}. Its start has not committed, or it ended so long ago that its row is "
        "gone"
    )


class InstanceVerbs:
    """What `Holdfast` inherits. Each verb awaits; its twin in `_sync` is for code that does not."""

    _calls: Calls
    limits: Limits

    @property
    def _database(self) -> Database:
        raise NotImplementedError

    async def signal(
        self, instance: str | UUID | Instance[Any], name: str, payload: Any = None, *, signal_id: str | None = None
    ) -> Signalled:
        """Send a signal to a workflow instance: its `flow.wait(name)` returns the payload.

        A signal that comes before its wait is kept. `signal_id`: the signal has one effect, however often it is sent.
        Raises `NotFound` if there is no such instance; one that has ended is no error: `Signalled.ENDED`.

        ```python
        await checkout.options(id="checkout:1").start(order_id=1)
        await hf.signal("checkout:1", "shipped", {"carrier": "DHL"}, signal_id="parcel 771")
        ```
        """
        operation = signal_operation(self._database, self.limits, instance, name, payload, signal_id)
        return operation.decode(await self._calls.run("workflow", "signal", *operation.parameters))

    def signal_sync(
        self, instance: str | UUID | Instance[Any], name: str, payload: Any = None, *, signal_id: str | None = None
    ) -> Signalled:
        """As `signal`, for code that does not await."""
        return self._calls.wait_for(self.signal(instance, name, payload, signal_id=signal_id))

    async def list_instances(
        self,
        workflow: str | Workflow[Any, Any] | None = None,
        *,
        state: str | Sequence[str] | None = None,
        limit: int = 100,
    ) -> list[InstanceState]:
        """Live workflow instances, those that are in their state for the longest first. Without their steps.

        `state`: one or several of queued, running, sleeping, waiting, retrying, undoing, paused, 'dead letter' and
        'needs attention'.

        ```python
        for where in await hf.list_instances("checkout", state=["dead letter", "needs attention"]):
            print(where.id, where.last_error)
        ```
        """
        states = [state] if isinstance(state, str) else list(state) if state is not None else None
        if wrong := [each for each in states or () if each not in STATES]:
            raise InvalidInput("state", f"expected some of {', '.join(STATES)}; got {wrong[0]!r}")
        kind = workflow if workflow is None or isinstance(workflow, str) else workflow._definition.kind
        rows = await operating.list(self._calls, kind, states, check_int("limit", limit, 1, 2**31 - 1))
        return [standing.instance_state(dict(row)) for row in rows]

    def list_instances_sync(
        self,
        workflow: str | Workflow[Any, Any] | None = None,
        *,
        state: str | Sequence[str] | None = None,
        limit: int = 100,
    ) -> list[InstanceState]:
        """As `list_instances`, for code that does not await."""
        return self._calls.wait_for(self.list_instances(workflow, state=state, limit=limit))

    async def instance(self, instance: str | UUID | Instance[Any]) -> InstanceState:
        """A workflow instance with its steps and signals, live or ended. Raises `NotFound` if there is no such one.

        Ended instances are kept as their workflow says (`keep`).

        ```python
        where = await hf.instance("checkout:1")
        print([(step.shown, step.status) for step in where.steps])
        ```
        """
        return standing.instance_state(dict(await operating.show(self._calls, instance_id(instance))))

    def instance_sync(self, instance: str | UUID | Instance[Any]) -> InstanceState:
        """As `instance`, for code that does not await."""
        return self._calls.wait_for(self.instance(instance))

    async def cancel_instance(self, instance: str | UUID | Instance[Any], reason: str = "cancelled") -> str:
        """Cancel a workflow instance: no further step starts, its children are cancelled, finished steps are undone.

        Returns 'cancelled' if it had not started, and has ended; otherwise 'processing': it ends when all is undone.
        Raises `NotFound` if there is no such instance, or it has ended.

        ```python
        instance = await checkout.options(id="checkout:8").start(order_id=8)
        await hf.cancel_instance(instance, "the order was withdrawn")
        ```
        """
        given = instance_id(instance)
        id = await operating.find(self._calls, given)
        try:
            return await jobs.cancel(self._calls, id, check_text("reason", reason))
        except NotFound:
            raise _ended(given) from None

    def cancel_instance_sync(self, instance: str | UUID | Instance[Any], reason: str = "cancelled") -> str:
        """As `cancel_instance`, for code that does not await."""
        return self._calls.wait_for(self.cancel_instance(instance, reason))

    async def pause_instance(self, instance: str | UUID | Instance[Any]) -> None:
        """Pause a workflow instance: it finishes the step that it is in, and nothing wakes it. Signals are kept.

        Raises `NotFound` if there is no such instance, or it has ended.

        ```python
        await hf.pause_instance("checkout:1")
        ```
        """
        id = instance_id(instance)
        _live(id, await operating.pause(self._calls, id))

    def pause_instance_sync(self, instance: str | UUID | Instance[Any]) -> None:
        """As `pause_instance`, for code that does not await."""
        self._calls.wait_for(self.pause_instance(instance))

    async def resume_instance(self, instance: str | UUID | Instance[Any]) -> bool:
        """Let a paused workflow instance continue, or retry one that is a dead letter or needs attention.

        Recorded steps are not run again; the one that failed has a full set of attempts. Returns False if the instance
        was neither paused nor a dead letter. Raises `NotFound` if there is no such instance, or it has ended.

        ```python
        assert await hf.resume_instance("checkout:1")
        ```
        """
        id = instance_id(instance)
        return _live(id, await operating.resume(self._calls, id)) == "resumed"

    def resume_instance_sync(self, instance: str | UUID | Instance[Any]) -> bool:
        """As `resume_instance`, for code that does not await."""
        return self._calls.wait_for(self.resume_instance(instance))

    async def restart_instance(self, instance: str | UUID | Instance[Any], step: str) -> int:
        """Run a workflow instance again from a given step: this one and all later ones are forgotten. Returns how many.

        `step` is named as in `holdfast workflow show`: the second of a name is 'charge#2'. Nothing is undone; children
        that it waits for are cancelled. Raises `InvalidInput` if it runs, is being undone, or has no such step.

        ```python
        from holdfast.testing import run_until_parked

        instance = await checkout.options(id="checkout:10").start(order_id=10)
        await run_until_parked(hf, instance)
        assert await hf.restart_instance(instance, "receipt") == 2
        ```
        """
        name, n = _numbered(check_name("step", step))
        try:
            return await operating.restart(self._calls, instance_id(instance), name, n)
        except asyncpg.PostgresError as error:
            if error.sqlstate == CANNOT:
                hint = f". {error.hint}" if error.hint else ""
                raise InvalidInput("instance", f"{str(error).removeprefix('instance ')}{hint}") from None
            raise

    def restart_instance_sync(self, instance: str | UUID | Instance[Any], step: str) -> int:
        """As `restart_instance`, for code that does not await."""
        return self._calls.wait_for(self.restart_instance(instance, step))


def _live(id: str, became: str) -> str:
    if became == "unknown":
        raise unknown(id)
    if became == "ended":
        raise _ended(id)
    return became


def _ended(id: str) -> NotFound:
    return NotFound(f"There is no live workflow instance {id!r}; it has ended")


def _numbered(step: str) -> tuple[str, int]:
    """The name and the number of a step, as it is shown."""
    name, mark, number = step.rpartition("#")
    return (name, int(number) - 1) if mark and name and number.isdecimal() and int(number) > 1 else (step, 0)
