"""Holdfast: durable work in Postgres, for Python."""

from .app import Holdfast
from .context import Context, TxContext
from .errors import (
    Cancelled,
    ConfigurationError,
    Contended,
    HoldfastError,
    IdempotencyConflict,
    InvalidInput,
    InvalidPayload,
    LeaseLost,
    NotFound,
    NotInTransaction,
    SchemaError,
    Timeout,
    Unreachable,
    UnsafeServer,
)
from .model.job import Job
from .model.keys import substream
from .model.limits import Limits
from .model.outcome import Fail, Snooze
from .tasks import Task
from .version import __version__
from .views.questions import JobState

__all__ = [
    "Cancelled",
    "ConfigurationError",
    "Contended",
    "Context",
    "Fail",
    "Holdfast",
    "HoldfastError",
    "IdempotencyConflict",
    "InvalidInput",
    "InvalidPayload",
    "Job",
    "JobState",
    "LeaseLost",
    "Limits",
    "NotFound",
    "NotInTransaction",
    "SchemaError",
    "Snooze",
    "Task",
    "Timeout",
    "TxContext",
    "Unreachable",
    "UnsafeServer",
    "__version__",
    "substream",
]
