"""Replay the histories of live instances against this code: would a deploy of it break one?

Nothing is written and no step is called: a replay stops where the history ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from .definitions import Definition, Runs
from .errors import HistoryMismatch, InvalidPayload
from .flow.driving import run
from .flow.flow import Flow
from .flow.history import Past
from .flow.machine import Machine, Mode, StepCall
from .model.flow import History, Standing, StepRecord
from .model.job import Claim
from .workflow import recording

if TYPE_CHECKING:
    from .app import Holdfast

BATCH = 200
"""Instances whose histories are read in one trip."""
WITHIN = 10.0
"""Seconds that one replay may take."""
UNDECODABLE = "the recorded result of"
"""How the problem begins if a recorded result does not fit its type: see flow/steps.py."""


class Check(StrEnum):
    """What a replay has shown."""

    OK = "ok"
    DIFF = "diff"
    """The code asks for other steps than the recorded ones."""
    UNKNOWN_VERSION = "unknown version"
    """This code does not have the workflow, or its version."""
    UNDECODABLE = "undecodable"
    """The arguments, or a recorded result, do not fit their types."""
    RAISED = "raised"
    """The code raised, outside its steps."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """An instance that was replayed."""

    instance: str
    job_id: UUID
    workflow: str
    version: int
    check: Check
    problem: str = ""
    diff: str = ""


async def replay_all(app: Holdfast, workflow: str | None = None) -> AsyncIterator[Replayed]:
    """Replay every live instance of this application, in batches."""
    definitions = {kind: each for kind, each in app._surrounded().items() if each.runs is Runs.AS_FLOW}
    kinds = [kind for kind in definitions if workflow in (None, kind)]
    # Of a workflow that is no longer in the code, its package tells whose it was.
    apps = sorted({each._definition.app for each in app.tasks.values()}) if workflow is None else []
    last = UUID(int=0)
    while rows := await app._calls.run("views", "instances", kinds, apps, last, BATCH):
        histories = await recording.load(app._calls, [row["id"] for row in rows])
        for row in rows:
            yield await replay(definitions.get(row["kind"]), dict(row), histories.get(row["id"]) or History())
        last = rows[-1]["id"]


async def replay(definition: Definition | None, row: Mapping[str, Any], history: History) -> Replayed:
    """Replay one instance."""
    check, problem, diff = await _check(definition, row, history)
    instance = row["idempotency_key"] or str(row["id"])
    return Replayed(instance, row["id"], row["kind"], row["version"], check, problem, diff)


async def _check(definition: Definition | None, row: Mapping[str, Any], history: History) -> tuple[Check, str, str]:
    version = row["version"]
    if definition is None:
        return Check.UNKNOWN_VERSION, f"this code has no workflow {row['kind']!r}", ""
    if not definition.oldest <= version <= definition.version:
        problem = f"this code has version {_versions(definition)}; the instance began with {version}"
        return Check.UNKNOWN_VERSION, problem, ""
    code = definition.at(version)
    try:
        arguments = code.decode(row["payload"], version)
    except InvalidPayload as error:
        return Check.UNDECODABLE, str(error), ""
    claim = Claim(
        "check", row["id"], row["generation"], 0, 1, code.max_attempts, row["kind"], version, row["payload"],
        row["queue"], row["key"], None, row["idempotency_key"],
    )  # fmt: skip
    # In a task of its own: the branches of a machine belong to the task that made it.
    replaying = asyncio.create_task(_replay(code, claim, arguments, history))
    try:
        async with asyncio.timeout(WITHIN):
            mismatch = await replaying
    except _Called:
        return Check.OK, "", ""
    except TimeoutError:
        return Check.RAISED, f"the replay took longer than {WITHIN:g} s; does the code wait outside flow?", ""
    except Exception as error:
        return Check.RAISED, f"{type(error).__name__}: {error}", ""
    if mismatch is None:
        return Check.OK, "", ""
    check = Check.UNDECODABLE if mismatch.problem.startswith(UNDECODABLE) else Check.DIFF
    return check, mismatch.problem, mismatch.diff


async def _replay(
    code: Definition, claim: Claim, arguments: dict[str, Any], history: History
) -> HistoryMismatch | None:
    machine = Machine(code, Past(history), _Nothing(), Mode.CHECK)
    await run(machine, code.function(Flow(machine, claim), **arguments))
    return machine.problem if isinstance(machine.problem, HistoryMismatch) else None


def _versions(definition: Definition) -> str:
    oldest, newest = definition.oldest, definition.version
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


class _Called(BaseException):
    """The code wants to run something new: the history fits. Not an Exception, which would be a failed step."""


class _Nothing:
    """A `Journal` that does nothing."""

    draining = cancelled = False

    def record(self, records: Sequence[StepRecord], alone: bool) -> Awaitable[Standing]:
        return self._stop()

    async def call(self, call: StepCall) -> Any:
        raise _Called

    async def cancel_children(self) -> None:
        raise _Called

    async def commit(self, call: StepCall, earlier: Sequence[StepRecord], done: Callable[[Any], StepRecord]) -> Any:
        raise _Called

    async def _stop(self) -> NoReturn:
        raise _Called
