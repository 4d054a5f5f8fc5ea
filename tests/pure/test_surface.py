"""The public names, which change only on purpose."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import griffe
import pytest
from tools import api_reference

import holdfast
from holdfast import testing
from holdfast.definitions import define
from holdfast.model.durations import seconds
from holdfast.worker.settings import WorkerSettings

NAMES = {
    "AllOnAsync", "AllOnSync", "Backoff", "CallNext", "CallNextSync", "Cancelled", "ChildFailed", "ConfigurationError",
    "Contended", "Context", "DeadGroup", "Duration", "EmbeddedWorker", "EndpointAttempt", "EndpointState",
    "EnqueueOptions", "Event", "EventOptions", "EventTask", "Explanation", "Fail", "Finding", "Flow", "HistoryMismatch",
    "Holdfast", "HoldfastError", "HoldfastWarning", "IdempotencyConflict", "Incident", "Instance", "InstanceState",
    "InvalidInput", "InvalidPayload", "Job", "JobFailed", "JobFilter", "JobProgress", "JobState", "LeaseLost", "Limits",
    "LiveStatus", "NewEndpoint", "NewJob", "NotFound", "NotInTransaction", "OnAsync", "OnFailure", "OnSync",
    "OutcomeUnknown", "PublishOptions", "Published", "Reason", "Received", "Receiver", "Recovered", "Rejected",
    "Replace", "Retry", "RetryFunction", "ScheduleOptions", "ScheduleState", "SchemaError", "SignalState", "Signalled",
    "Sleep", "Snooze", "StartOnAsync", "StartOnSync", "StartOptions", "Step", "StepContext", "StepFailed",
    "StepOptions", "StepState", "Task", "TaskOptions", "Timeout", "TxContext", "Unreachable", "UnsafeServer", "Wait",
    "WorkerOptions", "Workflow", "WorkflowOptions", "__version__", "acting_as", "substream",
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
    for name in NAMES - {"__version__", *api_reference.ALIASES}:
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


# Whatever a signature names, users can name, too.

PUBLIC = (
    "holdfast", "holdfast.testing", "holdfast.webhooks", "holdfast.transports", "holdfast.dashboard",
    "holdfast.contrib.django", "holdfast.contrib.otel",
)  # fmt: skip
"""Where users import from: what these have in `__all__`."""

NOT_NAMED = {
    "holdfast.transports.consuming.Consumer": "users import it from there, to write their own: docs/transports.md",
    "holdfast.tasks.TaskDecorator": "`hf.task(…)` is called at once, with @",
    "holdfast.workflows.WorkflowDecorator": "as TaskDecorator",
    "holdfast.declaring_events.EventDecorator": "as TaskDecorator",
    "holdfast.scheduling.Scheduled": "as TaskDecorator",
    "holdfast.tasks.PlainTask": "a Task, for type checkers",
    "holdfast.tasks.TxTask": "a Task, for type checkers",
    "holdfast.tasks.ContextTask": "a Task, for type checkers",
    "holdfast.db.callers.AsyncConnection": "the connection of any driver",
    "holdfast.context.Once": "`ctx.once(…)` is entered at once",
    "holdfast.testing.databases.UseDatabase": "`use_database(…)` is entered at once",
}
"""Types in public signatures that nobody needs to import, and why."""


@cache
def library() -> griffe.Object:
    found = griffe.load("holdfast", search_paths=[api_reference.ROOT / "src"])
    assert isinstance(found, griffe.Object)
    return found


def of_path(path: str) -> griffe.Object:
    """What is there, or where it comes from."""
    name = path.removeprefix("holdfast").removeprefix(".")
    return api_reference._target(library()[name]) if name else library()


def public() -> dict[str, griffe.Object]:
    """Everything that users import, by where it comes from."""
    names = [f"{module}.{name}" for module in PUBLIC for name in map(str, of_path(module).exports or ())]
    found = [of_path(name) for name in names if name != "holdfast.__version__"]
    return {each.path: each for each in found}


def annotations(item: griffe.Object) -> Iterator[tuple[str, object]]:
    """Where users see a type, and the type."""
    if isinstance(item, griffe.Function):
        yield from ((item.path, each.annotation) for each in item.parameters)
        yield item.path, item.returns
        for overload in item.overloads or ():
            yield from ((item.path, each.annotation) for each in overload.parameters)
            yield item.path, overload.returns
    elif isinstance(item, griffe.Attribute):
        yield item.path, item.annotation
    elif isinstance(item, griffe.Class):
        if item.name in api_reference.MADE_BY_USERS:
            yield from ((item.path, each.annotation) for each in item.parameters)
        shown = item.name in (*api_reference.VARIABLES, *api_reference.INSIDE, *api_reference.BOUND)
        for _, member in api_reference._members(item):
            target = api_reference._target(member)
            if shown or target.is_attribute:  # methods of other classes are not for users
                yield from annotations(target)


def unknown(annotation: object, known: Iterable[str]) -> set[str]:
    """Types of ours that it names, and users cannot. A short name for what users can write is none."""
    if isinstance(annotation, griffe.ExprName):
        names = [annotation]
    elif isinstance(annotation, griffe.Expr):
        names = [each for each in annotation.iterate(flat=True) if isinstance(each, griffe.ExprName)]
    else:
        return set()
    found: set[str] = set()
    for path in {name.canonical_path.removesuffix(".args").removesuffix(".kwargs") for name in names}:
        if path.startswith("holdfast."):
            target = of_path(path)
            if isinstance(target, griffe.Attribute):  # a short name, or a type variable
                found |= unknown(target.value, known) if target.path not in known else set()
            elif target.path not in known:
                found.add(target.path)
    return found


def test_every_type_in_a_signature_can_be_imported() -> None:
    exported = public()
    seen = [
        (where, path)
        for item in exported.values()
        for where, annotation in annotations(item)
        for path in unknown(annotation, exported)
    ]
    assert len(exported) > 100
    assert sorted({path for _, path in seen}) == sorted(NOT_NAMED), [each for each in seen if each[1] not in NOT_NAMED]


def test_the_dashboard_is_imported_when_it_is_used() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import sys, holdfast.dashboard; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "holdfast.dashboard" in found.stdout.split()
    assert "starlette" not in found.stdout.split()


# What is written twice is the same.


def options_named(function: object) -> tuple[str, list[str]]:
    """The options that a docstring lists, and the class that has them."""
    text = " ".join((inspect.getdoc(function) or "").split())
    listed, _, rest = text.partition("Options: ")[2].partition("; see `")
    return rest.partition("`")[0], listed.replace("`", "").split(", ")


@pytest.mark.parametrize("method", ["task", "workflow", "worker", "on_event", "every"])
def test_docstrings_list_every_option(method: str) -> None:
    name, listed = options_named(getattr(holdfast.Holdfast, method))
    assert listed == list(getattr(holdfast, name).__annotations__)


def defaults_named(options: str) -> dict[str, str]:
    """The defaults in the docstrings of these options: `…; 5.`, `…; 'default'.`, `…; 1 h.`"""
    found = {}
    for name, option in of_path(f"holdfast.{options}").members.items():
        text = " ".join((option.docstring.value if option.docstring is not None else "").split())
        if (match := re.search(r"; ('\w+'|\d+(?: [a-z]+)?)\.(?: |$)", text)) is not None:
            found[name] = match[1]
    return found


def same(written: str, default: object) -> bool:
    if written.startswith("'"):
        return written == repr(default)
    return seconds(written.replace(" ", "") if " " in written else float(written)) == seconds(default)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", ["TaskOptions", "WorkflowOptions", "EventOptions"])
def test_docstrings_of_options_have_the_defaults_of_tasks(options: str) -> None:
    written = defaults_named(options)
    kept = {name: each.default for name, each in inspect.signature(define).parameters.items()}
    simple = [name for name in getattr(holdfast, options).__annotations__ if isinstance(kept[name], int | str)]
    ours = {"queue"} if options == "EventOptions" else set()  # it depends on the source
    assert written.keys() == {name for name in simple if not isinstance(kept[name], bool)} - {"keep"} - ours
    assert [name for name, text in written.items() if not same(text, kept[name])] == []


def test_docstrings_of_options_have_the_defaults_of_workers() -> None:
    written, kept = defaults_named("WorkerOptions"), WorkerSettings()
    durations = {"lease", "drain", "grace", "housekeeping", "heartbeat", "poll"}
    assert written.keys() == {"concurrency", *durations}
    fields = {name: "poll_max" if name == "poll" else name for name in written}
    assert [name for name, text in written.items() if not same(text, getattr(kept, fields[name]))] == []
