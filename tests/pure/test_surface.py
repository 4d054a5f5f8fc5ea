"""The public names, which change only on purpose."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import testing

NAMES = {
    "Backoff", "CallNext", "CallNextSync", "Cancelled", "ChildFailed", "ConfigurationError", "Contended", "Context",
    "DeadGroup", "Incident",
    "EmbeddedWorker", "EndpointAttempt", "EndpointState", "EnqueueOptions", "Event", "EventOptions", "EventTask",
    "Explanation", "Fail", "Finding", "Flow", "HistoryMismatch", "Holdfast", "HoldfastError", "HoldfastWarning",
    "IdempotencyConflict", "Instance", "InstanceState", "InvalidInput", "InvalidPayload", "Job", "JobFailed",
    "JobFilter", "JobState", "LeaseLost", "Limits", "NewEndpoint", "NewJob", "NotFound", "NotInTransaction",
    "OutcomeUnknown", "PublishOptions", "Published", "Reason", "Received", "Receiver", "Recovered", "Rejected",
    "Retry", "ScheduleOptions", "ScheduleState", "SchemaError", "SignalState", "Signalled", "Sleep", "Snooze",
    "StartOptions", "Step", "StepContext", "StepFailed", "StepState", "Task", "TaskOptions", "Timeout", "TxContext",
    "Unreachable", "UnsafeServer", "Wait", "WorkerOptions", "Workflow", "WorkflowOptions", "__version__",
    "acting_as", "substream",
}  # fmt: skip


TESTING = {
    "ContextOptions", "DrainLimit", "Drained", "Enqueued", "Expectations", "Fired", "FrozenClock", "MadeContext",
    "MadeTxContext", "Ran", "assert_enqueued", "assert_enqueued_sync", "assert_not_enqueued",
    "assert_not_enqueued_sync", "clean", "clean_sync", "die_at", "drain", "drain_sync", "fire_schedules",
    "fire_schedules_sync", "frozen_clock", "make_context", "run_until_parked", "run_until_parked_sync", "use_database",
}  # fmt: skip


def test_the_public_names_for_tests() -> None:
    assert set(testing.__all__) == TESTING
    assert testing.__all__ == sorted(testing.__all__)
    assert not any(name.lower().startswith("test") for name in TESTING), "pytest would collect it"
    for name in TESTING:
        value = getattr(testing, name)
        assert inspect.getdoc(value), name
        for member, function in inspect.getmembers(value, inspect.isfunction):
            if not member.startswith("_") and function.__module__.startswith("holdfast"):
                assert inspect.getdoc(function), f"{name}.{member}"


def test_the_public_names() -> None:
    assert set(holdfast.__all__) == NAMES
    assert holdfast.__all__ == sorted(holdfast.__all__)


def test_each_says_what_it_is() -> None:
    for name in NAMES - {"__version__"}:
        value = getattr(holdfast, name)
        assert inspect.getdoc(value), name
        for member, function in inspect.getmembers(value, inspect.isfunction):
            if not member.startswith("_") and function.__module__.startswith("holdfast"):
                assert inspect.getdoc(function), f"{name}.{member}"


ASYNC_ALONE = {
    "Holdfast.worker": "a context manager, whose handlers run on the loop; in synchronous programs: holdfast worker"
}
"""Async verbs without a twin, and why."""


@pytest.mark.parametrize("door", ["Holdfast", "Task", "EventTask", "Workflow", "Job", "Instance"])
def test_every_async_verb_has_a_twin_with_the_same_arguments(door: str) -> None:
    cls = getattr(holdfast, door)
    for name, function in inspect.getmembers(cls, inspect.isfunction):
        inner = inspect.unwrap(function)
        waits = inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
        if name.startswith("_") or not waits or f"{door}.{name}" in ASYNC_ALONE:
            continue
        twin = getattr(cls, f"{name}_sync", None)
        assert twin is not None, f"{door}.{name}: add {name}_sync, or say in ASYNC_ALONE why it has none"
        assert not inspect.iscoroutinefunction(twin), f"{door}.{name}_sync"
        wanted, found = (inspect.signature(each).parameters for each in (function, twin))
        assert list(found.values()) == list(wanted.values()), f"{door}.{name}"


def test_errors_are_one_tree() -> None:
    raised = [value for value in vars(holdfast).values() if isinstance(value, type) and issubclass(value, Exception)]
    errors = [
        value
        for value in raised
        if value not in (holdfast.Fail, holdfast.Retry, holdfast.Snooze, holdfast.HoldfastWarning)
    ]  # endings and a warning, no errors
    assert all(issubclass(error, holdfast.HoldfastError) for error in errors)
    assert issubclass(holdfast.InvalidInput, ValueError)
    drawn = sys.modules["holdfast.errors"].__doc__ or ""
    assert all(error.__name__ in drawn for error in errors)
    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    assert all(page.count(error.__name__) >= 2 for error in errors), "in the tree and in the table"


def test_nobody_has_to_have_the_other_libraries() -> None:
    """Importing the package brings in none of the connections that it accepts."""
    found = subprocess.run(
        [sys.executable, "-c", "import sys, holdfast; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert "holdfast.testing" not in found.stdout.split()
    modules = {name.partition(".")[0] for name in found.stdout.split()}
    assert not modules & {"psycopg", "sqlalchemy", "django", "uvloop", "click", "opentelemetry"}
