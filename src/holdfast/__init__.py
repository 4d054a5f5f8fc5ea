"""Holdfast: durable work in Postgres, for Python."""

from typing import TYPE_CHECKING, Any

from .app import Holdfast
from .context import Context, TxContext
from .definitions import TaskOptions
from .errors import (
    Cancelled,
    ConfigurationError,
    Contended,
    HoldfastError,
    IdempotencyConflict,
    InvalidInput,
    InvalidPayload,
    JobFailed,
    LeaseLost,
    NotFound,
    NotInTransaction,
    SchemaError,
    Timeout,
    Unreachable,
    UnsafeServer,
)
from .job import Job
from .making import EnqueueOptions
from .middleware import CallNext, CallNextSync
from .model.backoff import Backoff
from .model.keys import substream
from .model.limits import Limits
from .model.outcome import Fail, Retry, Snooze
from .model.terms import NewJob
from .schedules.operating import ScheduleState
from .scheduling import ScheduleOptions
from .tasks import Task
from .version import __version__
from .views.questions import JobFilter, JobState
from .worker.settings import WorkerOptions

if TYPE_CHECKING:
    from .worker.embedded import EmbeddedWorker

__all__ = [
    "Backoff",
    "CallNext",
    "CallNextSync",
    "Cancelled",
    "ConfigurationError",
    "Contended",
    "Context",
    "EmbeddedWorker",
    "EnqueueOptions",
    "Fail",
    "Holdfast",
    "HoldfastError",
    "IdempotencyConflict",
    "InvalidInput",
    "InvalidPayload",
    "Job",
    "JobFailed",
    "JobFilter",
    "JobState",
    "LeaseLost",
    "Limits",
    "NewJob",
    "NotFound",
    "NotInTransaction",
    "Retry",
    "ScheduleOptions",
    "ScheduleState",
    "SchemaError",
    "Snooze",
    "Task",
    "TaskOptions",
    "Timeout",
    "TxContext",
    "Unreachable",
    "UnsafeServer",
    "WorkerOptions",
    "__version__",
    "substream",
]


def __getattr__(name: str) -> Any:
    """Load the worker's engine only where it is named: producers do not need it."""
    if name == "EmbeddedWorker":
        from .worker.embedded import EmbeddedWorker

        return EmbeddedWorker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
