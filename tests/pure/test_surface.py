"""The public names, which change only on purpose."""

import inspect
import subprocess
import sys
from pathlib import Path

import holdfast

NAMES = {
    "Backoff", "CallNext", "CallNextSync", "Cancelled", "ConfigurationError", "Contended", "Context",
    "EmbeddedWorker", "EnqueueOptions", "Fail", "Holdfast", "HoldfastError", "IdempotencyConflict", "InvalidInput",
    "InvalidPayload", "Job", "JobFailed", "JobFilter", "JobState", "LeaseLost", "Limits", "NewJob", "NotFound",
    "NotInTransaction", "Retry", "ScheduleOptions", "ScheduleState", "SchemaError", "Snooze", "Task", "TaskOptions",
    "Timeout", "TxContext", "Unreachable", "UnsafeServer", "WorkerOptions", "__version__", "substream",
}  # fmt: skip


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


def test_errors_are_one_tree() -> None:
    raised = [value for value in vars(holdfast).values() if isinstance(value, type) and issubclass(value, Exception)]
    errors = [
        value for value in raised if value not in (holdfast.Fail, holdfast.Retry, holdfast.Snooze)
    ]  # endings, no errors
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
    modules = {name.partition(".")[0] for name in found.stdout.split()}
    assert not modules & {"psycopg", "sqlalchemy", "django", "uvloop", "click"}
