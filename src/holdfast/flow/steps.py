"""Run one step: its function is called, and what became of it is recorded."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any, NamedTuple, NoReturn

import msgspec
from msgspec.structs import replace

from ..definitions import Runs
from ..errors import InvalidPayload, LeaseLost, StepFailed
from ..model.backoff import Backoff
from ..model.durations import seconds
from ..model.flow import RecordedStep, Standing, StepKind, StepRecord, StepStatus
from ..model.outcome import AttemptFailed, Fail, Final, Retry, Snooze, failure, trim
from .branches import IN_STEP, OVER, stand_still
from .functions import Decode, StepFunction, digest, encoded
from .history import Branch, shown
from .machine import Halt, JournalFailed, Machine, Mode, NotCommitted, StepCall, Undo, log

MAX_ATTEMPTS = 5
TIMEOUT = 3600.0
_DEFAULT = Backoff()
_FAIL = "Fail: "
REASON_BYTES = 4096
_STEP, _OPEN, _DONE, _FAILED = (
    StepKind.STEP.value,
    StepStatus.OPEN.value,
    StepStatus.DONE.value,
    StepStatus.FAILED.value,
)
_NOT_RESULTS = (Snooze, Fail, Retry)
_NOT_OURS = (LeaseLost, JournalFailed)


class How(NamedTuple):
    """How a step is run, and what happens when it fails."""

    max_attempts: int
    timeout: float
    retry: Backoff
    catch: bool = False


def how(
    function: StepFunction, max_attempts: int | None, timeout: float | None, retry: Backoff | None, catch: bool
) -> How:
    """What the call says, or the task, or the defaults."""
    task = function.definition
    return How(
        max_attempts or (task.max_attempts if task is not None else MAX_ATTEMPTS),
        timeout or (task.timeout if task is not None else TIMEOUT),
        retry or (task.retry if task is not None else None) or _DEFAULT,
        catch,
    )


_USUAL = How(MAX_ATTEMPTS, TIMEOUT, _DEFAULT)


def usual(function: StepFunction) -> How:
    """As `how`, if the call says nothing."""
    return _USUAL if function.definition is None else how(function, None, None, None, False)


async def step(
    machine: Machine,
    branch: Branch,
    name: str,
    function: StepFunction,
    arguments: tuple[Any, ...],
    how: How,
    undo: StepFunction | None = None,
) -> Any:
    """The result of the step, recorded or fresh."""
    n = machine.number(branch, name)
    found = machine.find(branch, name, n, _STEP)
    if found is None:
        begun = machine.begin_now(branch)
        ordinal, attempts = await machine.begin(branch) if begun is None else begun, 0
    elif found.status == _OPEN:
        ordinal, attempts = found.ordinal, found.attempts
        await until_retry(machine, branch, found)
    elif found.status == _DONE:
        value = replayed(machine, found, function.decode)
        if value is UNREADABLE:
            await stand_still()
        if found.digest is not None and found.digest != (now := digest(arguments)) and now is not None:
            log.warning(
                "the arguments of step %s have changed since it was recorded; it is not run again", shown(name, n)
            )
        if undo is not None:
            machine.undos.append(Undo(found.ordinal, name, n, undo, arguments, value))
        return value
    else:
        await _failed_before(machine, found, how)
    call = StepCall(function, arguments, name, n, attempts + 1, how.timeout)
    value = await attempt(machine, branch, _STEP, ordinal, call, how)
    if undo is not None:
        machine.undos.append(Undo(ordinal, name, n, undo, arguments, value))
    return value


async def until_retry(machine: Machine, branch: Branch, found: RecordedStep) -> None:
    """It failed or snoozed before: the instance may have been woken by something else."""
    machine.tried.add((found.name, found.n))
    if found.wake_at is not None and not found.due:
        await machine.park([f"retry:{shown(found.name, found.n)}"], wake_at=found.wake_at)
    await machine.go_on(branch)


async def _failed_before(machine: Machine, found: RecordedStep, how: How) -> NoReturn:
    """What happened when the step failed."""
    message = found.error or ""
    if message.startswith(_FAIL):
        raise Fail(message.removeprefix(_FAIL))
    if machine.definition.undo_on_failure and not how.catch:
        await _undo(machine, _exhausted(shown(found.name, found.n), found.attempts, message))
    raise StepFailed(found.name, message)


UNREADABLE = object()
"""In place of a recorded value that does not fit the code."""


def replayed(machine: Machine, found: RecordedStep, decode: Decode) -> Any:
    """The recorded value; UNREADABLE if it does not fit the code: then the run stops."""
    raw = bytes(found.result)
    if raw == b"null":
        return None
    try:
        return decode(raw)
    except (msgspec.DecodeError, NotImplementedError) as error:
        why = f"the recorded result of {shown(found.name, found.n)} does not fit this code: {error}"
        machine.halts(machine.past.mismatch(why))
        return UNREADABLE


async def attempt(machine: Machine, branch: Branch, kind: str, ordinal: int, call: StepCall, how: How) -> Any:
    """Call the function, and return its result, which is recorded; or stand still until it is retried."""
    record = StepRecord(call.name, call.n, ordinal, kind, _DONE, attempts=call.attempt)
    if call.arguments:
        record.digest = digest(call.arguments)  # now: the function may change them
    else:
        record.digest = 0
    began = perf_counter()
    try:
        if call.function.runs is Runs.IN_TRANSACTION:
            return await _in_transaction(machine, branch, call, record)
        if not machine.clear:
            await machine.barrier(branch)
            began = perf_counter()
        branch.refuses = IN_STEP
        try:
            value = await machine.journal.call(call)
        finally:
            branch.refuses = None
        record.ended = perf_counter()
        record.took = record.ended - began
        if value is not None:
            value = _returned(call, record, value)
        machine.unwritten.append(record)
        return value
    except _NOT_OURS as error:
        await machine.break_off(error)
    except asyncio.CancelledError as error:
        if _is_cancelled():
            machine.interrupt(branch)
            raise
        # The step's own, such as that of a task that it awaited.
        await _failed(machine, kind, ordinal, call, how, error, perf_counter() - began)
    except (Exception, SystemExit) as error:
        await _failed(machine, kind, ordinal, call, how, error, perf_counter() - began)
    except GeneratorExit:  # it stands still, or is closed
        branch.refuses = OVER
        raise
    except BaseException:
        machine.interrupt(branch)
        raise


def _is_cancelled() -> bool:
    """Was this task cancelled, by whoever runs it?"""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _returned(call: StepCall, record: StepRecord, value: Any) -> Any:
    """The value as a replay will see it; it is in the record now. Raises what is not a result."""
    if isinstance(value, _NOT_RESULTS):
        raise value
    try:
        record.result = encoded(call.name, value)
        return None if record.result is None else call.function.decode(record.result)
    except (msgspec.DecodeError, NotImplementedError, InvalidPayload) as error:
        raise _Unstorable(error) from error


class _Unstorable(Exception):
    """The function returned something that JSON cannot represent, or that is not what its annotation says."""

    def __init__(self, why: Exception) -> None:
        self.why = why


async def _in_transaction(machine: Machine, branch: Branch, call: StepCall, record: StepRecord) -> Any:
    """The earlier records commit with this one, so nothing waits for them: unless others may go on meanwhile, or one is
    of a step that has run. If the process died in this transaction, which may be long, that would be called again; and
    if the instance was cancelled, it would not be undone."""
    ran = any(each.status == _DONE and each.kind in (_STEP, StepKind.UNDO) for each in machine.unwritten)
    journal = machine.journal
    if (
        ran
        or machine.active > 1
        or machine.writing
        or machine.halt is not None
        or journal.draining
        or journal.cancelled
    ):
        await machine.barrier(branch)
    made: list[Any] = []
    began = perf_counter()

    def done(value: Any) -> StepRecord:
        if isinstance(value, _NOT_RESULTS):
            raise NotCommitted(value)
        made.append(None if value is None else _returned(call, record, value))
        record.took = perf_counter() - began
        return record

    earlier, machine.unwritten = machine.unwritten, []
    branch.refuses = IN_STEP
    try:
        machine.stored = True
        standing = await journal.commit(call, earlier, done)
    except BaseException as error:
        machine.unwritten = earlier + machine.unwritten
        if isinstance(error, NotCommitted):
            raise error.value from None
        if made and isinstance(error, Exception):  # the function has returned: perhaps this is committed
            await machine.break_off(error)
        raise
    finally:
        branch.refuses = None
    if isinstance(standing, Standing):
        machine.note(standing)
    return made[0]


async def _failed(
    machine: Machine, kind: str, ordinal: int, call: StepCall, how: How, error: BaseException, took: float
) -> NoReturn:
    """The attempt has failed: wait for the next one, or decide what a step without attempts means."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    record = StepRecord(call.name, call.n, ordinal, kind, _OPEN, attempts=call.attempt, took=took, ended=perf_counter())
    machine.unwritten.append(record)
    if isinstance(error, Snooze):
        record.attempts -= 1
        record.delay = seconds(error.delay)
        await machine.park([f"retry:{call.shown}"], delay=record.delay)
    if isinstance(error, Fail) and kind == _STEP:
        record.status, record.error = _FAILED, AttemptFailed("Fail", reason(error)).record()
        raise Fail(reason(error)) from error
    failed = failure_of(call, error)
    record.error = failed.record()
    delay, give_up = _decision(error, call.attempt, how, failed)
    if not give_up and call.attempt % how.max_attempts:
        record.delay = delay
        log.warning(
            "step %s failed (attempt %s of %s): %s; it will be retried in %.1f s", call.shown,
            call.attempt % how.max_attempts, how.max_attempts, failed.last_error(), delay,
        )  # fmt: skip
        await machine.park([f"retry:{call.shown}"], delay=delay)
    if how.catch:
        record.status = _FAILED
        raise StepFailed(call.name, _line(record.error)) from error
    if machine.definition.undo_on_failure and kind == _STEP:
        record.status = _FAILED
        await _undo(machine, _exhausted(call.shown, call.attempt, _line(record.error)))
    await machine.stop(replace(failed, message=f"step {call.shown}: {failed.message}", give_up=True))


def failure_of(call: StepCall, error: BaseException) -> AttemptFailed:
    """What a step raised, as it is recorded."""
    if isinstance(error, _Unstorable):
        why = failure(error.why)
        return AttemptFailed(
            "UnstorableResult", f"step {call.shown}: {why.message}", why.trace, give_up=True, cause=error
        )
    if isinstance(error, Fail):  # of a step that undoes another: only an operator can help
        return AttemptFailed("Fail", reason(error), give_up=True, cause=error)
    failed = failure(error)
    if failed.error == "Fail":  # not ours: the record tells them apart by name
        return replace(failed, error=f"{type(error).__module__}.Fail")
    return failed


async def _undo(machine: Machine, why: str) -> NoReturn:
    machine.undo_as = machine.undo_as or (Final.FAILED, why)
    await machine.stop(Halt.UNDO if machine.mode is Mode.RUN else Halt.FRONTIER)


def _exhausted(step: str, attempts: int, message: str) -> str:
    return f"step {step} failed {attempts} time{'s' * (attempts != 1)}: {message}"


def _line(record: str) -> str:
    """The error of a record in one line, as it is loaded."""
    kept = msgspec.json.decode(record)
    return f"{kept['error']}: {kept['message']}" if kept["message"] else str(kept["error"])


def reason(fail: Fail) -> str:
    """Why it failed, as text that can be stored."""
    try:
        return trim(str(fail.reason), REASON_BYTES)
    except Exception:
        return "(its reason could not be read)"


def _decision(error: BaseException, attempt: int, how: How, failed: AttemptFailed) -> tuple[float, bool]:
    if failed.give_up:
        return 0.0, True
    if isinstance(error, Retry):
        return seconds(error.delay), False
    try:
        delay, give_up = how.retry.judge(attempt, error)
    except Exception:
        log.exception("the retry policy failed for attempt %s; using the delay that base, factor and cap give", attempt)
        delay, give_up = None, False
    return how.retry.delay(attempt) if delay is None else delay, give_up
