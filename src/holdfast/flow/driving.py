"""Run the code of an instance until it ends or nothing in it can move, and say what that means."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_never

import msgspec

from ..errors import ConfigurationError, HistoryMismatch, InvalidPayload
from ..model import payload
from ..model.durations import seconds
from ..model.flow import UNDO_PREFIX, FlowEnd, Parked, Standing, StepKind, StepRecord, StepStatus
from ..model.outcome import DONE, AttemptFailed, Completed, Ended, Fail, Final, HandedBack, Snooze, failure, unstorable
from .branches import INTERRUPTED, SUSPENDED, Blocked
from .machine import Halt, Machine, Mode, StepCall
from .steps import attempt, reason, until_retry, usual

RunEnd = FlowEnd | Parked | AttemptFailed | HandedBack
"""How a run of an instance can end, beside an exception of its code."""


async def run(
    machine: Machine, coroutine: Coroutine[Any, Any, Any], blocked: Blocked = lambda took: None, undo_as: str = ""
) -> RunEnd:
    """Run an instance. Raises what its code raises, when all that it has done before is durable.

    `undo_as`: why it is undone, if it was cancelled before this run.
    """
    machine.blocked = blocked
    if machine.mode is Mode.UNDO:
        machine.undo_as = _marked(machine) or (Final.CANCELLED, undo_as)
    elif machine.mode is Mode.RUN and machine.past.paused:
        coroutine.close()
        return Parked(machine.past.mail, ("pause",))
    try:
        value = await machine.drive(coroutine)
    except Fail as fail:
        value = fail
    except Exception as error:
        if machine.interrupted:
            raise ConfigurationError(INTERRUPTED) from error
        if machine.mode is not Mode.UNDO and not machine.journal.cancelled:
            await machine.flush()
            raise
        value = None  # its code goes no further: what it has done is undone
    if machine.interrupted:
        raise ConfigurationError(INTERRUPTED)
    return await _ended(machine, value)


async def _ended(machine: Machine, value: Any) -> RunEnd:
    past = machine.past
    if machine.broken is not None:
        raise machine.broken
    if machine.journal.cancelled and isinstance(machine.problem, AttemptFailed):
        machine.problem, machine.halt = None, Halt.UNDO  # a step is out of attempts: it would not run again anyway
    if machine.problem is None and past.unvisited and machine.halt is not Halt.DRAINING:
        machine.problem = past.left_over()
    if machine.problem is not None:
        await machine.flush()
        return _stopped(machine.problem)
    if machine.journal.cancelled:  # since the last barrier, such as in its last step: that is undone, too
        machine.note(Standing(cancelled=True, paused=False))
    if machine.mode is Mode.UNDO or machine.halt is Halt.UNDO:
        return await _undo(machine)
    match machine.halt:
        case Halt.DRAINING:
            await machine.flush()
            return HandedBack()
        case Halt.PAUSED:
            return Parked(past.mail, ("pause",), tuple(machine.unwritten))
        case None | Halt.FRONTIER | Halt.STOPPED:
            pass
        case _:
            assert_never(machine.halt)
    if value is SUSPENDED:
        return machine.parked(list(dict.fromkeys(machine.waits)))
    if isinstance(value, Snooze):
        return Parked(past.mail, ("snooze",), tuple(machine.unwritten), seconds(value.delay))
    if isinstance(value, Fail):
        machine.undo_as = (Final.FAILED, reason(value))
        return await _undo(machine)
    try:
        result = payload.encode_value("result", value)
    except InvalidPayload as refused:
        await machine.flush()
        return unstorable("workflow", refused)
    return await _over(machine, DONE if result is None else Completed(result))


async def _over(machine: Machine, end: Completed | Ended) -> FlowEnd:
    """What is not written yet is written with the end; but not what must be added to errors that are stored."""
    if machine.tried and any((record.name, record.n) in machine.tried for record in machine.unwritten):
        await machine.flush()
    return FlowEnd(end, tuple(machine.unwritten), stored=machine.stored)


def _stopped(problem: HistoryMismatch | AttemptFailed) -> AttemptFailed:
    if isinstance(problem, AttemptFailed):
        return problem
    found = failure(problem)
    return AttemptFailed(found.error, found.message, give_up=True, details={"diff": problem.diff}, cause=problem)


# Undoing


def _marked(machine: Machine) -> tuple[Final, str] | None:
    """As what an instance ends that is being undone, and why."""
    mark = machine.past.undone.get((UNDO_PREFIX, 0))
    if mark is None:
        return None
    told = msgspec.json.decode(mark.result)
    return Final(told["status"]), str(told["reason"])


async def _undo(machine: Machine) -> RunEnd:
    """Undo the finished steps, the last one first, and end. Each is recorded, and retried, as a step."""
    assert machine.undo_as is not None
    status, why = machine.undo_as
    end = Ended(status, why)
    if machine.undos and (UNDO_PREFIX, 0) not in machine.past.undone:
        told = msgspec.json.encode({"status": status.value, "reason": why}).decode()
        machine.unwritten.append(
            StepRecord(UNDO_PREFIX, 0, machine.past.begin(machine.main), StepKind.UNDO, StepStatus.OPEN, told)
        )
    if status is Final.FAILED and (machine.starts or machine.past.waits_for_children):
        await machine.flush()  # that it has failed: in every later run, too
        await machine.journal.cancel_children()
    if not machine.undos:
        return await _over(machine, end)
    machine.reopen()
    value = await machine.drive(_unwind(machine))
    if machine.broken is not None:
        raise machine.broken
    if machine.problem is not None:
        await machine.flush()
        return _stopped(machine.problem)
    if machine.halt is Halt.DRAINING:
        await machine.flush()
        return HandedBack()
    if value is SUSPENDED:
        return machine.parked(machine.waits)
    return await _over(machine, end)


async def _unwind(machine: Machine) -> None:
    branch = machine.enter()
    for undo in sorted(machine.undos, key=lambda each: each.ordinal, reverse=True):
        name = UNDO_PREFIX + undo.name
        found = machine.past.undone.get((name, undo.n))
        if found is None:
            ordinal, attempts = machine.past.begin(branch), 0
        elif found.status == StepStatus.DONE:
            continue
        else:
            ordinal, attempts = found.ordinal, found.attempts
            await until_retry(machine, branch, found)
        call = StepCall(
            undo.function, undo.arguments, name, undo.n, attempts + 1, usual(undo.function).timeout, undo.result
        )
        await attempt(machine, branch, StepKind.UNDO, ordinal, call, usual(undo.function))
