"""Holdfast: durable work in Postgres, for Python."""

from typing import TYPE_CHECKING, Any

from .app import Holdfast
from .context import Context, StepContext, TxContext
from .db.acting import acting_as
from .definitions import TaskOptions
from .errors import (
    Cancelled,
    ChildFailed,
    ConfigurationError,
    Contended,
    HistoryMismatch,
    HoldfastError,
    HoldfastWarning,
    IdempotencyConflict,
    InvalidInput,
    InvalidPayload,
    JobFailed,
    LeaseLost,
    NotFound,
    NotInTransaction,
    OutcomeUnknown,
    Rejected,
    SchemaError,
    StepFailed,
    Timeout,
    Unreachable,
    UnsafeServer,
)
from .flow.flow import Flow
from .instances import InstanceState, Signalled, SignalState, StepState
from .job import Job
from .journal.story import Incident
from .making import EnqueueOptions
from .middleware import CallNext, CallNextSync
from .model.backoff import Backoff
from .model.event import Event
from .model.explanation import Explanation, Reason
from .model.finding import Finding
from .model.keys import substream
from .model.limits import Limits
from .model.outcome import Fail, Retry, Snooze
from .model.terms import NewJob
from .outbox.publish import Published
from .publishing import PublishOptions
from .receiving.asgi import Receiver
from .receiving.storing import Received
from .reception import EventOptions, EventTask
from .schedules.operating import ScheduleState
from .scheduling import ScheduleOptions
from .tables import Sleep, Step, Wait
from .tasks import Task
from .version import __version__
from .views.questions import DeadGroup, JobFilter, JobState
from .webhooks.operating import EndpointAttempt, EndpointState, NewEndpoint, Recovered
from .worker.settings import WorkerOptions
from .workflows import Instance, StartOptions, Workflow, WorkflowOptions

if TYPE_CHECKING:
    from .worker.embedded import EmbeddedWorker

__all__ = [
    "Backoff",
    "CallNext",
    "CallNextSync",
    "Cancelled",
    "ChildFailed",
    "ConfigurationError",
    "Contended",
    "Context",
    "DeadGroup",
    "EmbeddedWorker",
    "EndpointAttempt",
    "EndpointState",
    "EnqueueOptions",
    "Event",
    "EventOptions",
    "EventTask",
    "Explanation",
    "Fail",
    "Finding",
    "Flow",
    "HistoryMismatch",
    "Holdfast",
    "HoldfastError",
    "HoldfastWarning",
    "IdempotencyConflict",
    "Incident",
    "Instance",
    "InstanceState",
    "InvalidInput",
    "InvalidPayload",
    "Job",
    "JobFailed",
    "JobFilter",
    "JobState",
    "LeaseLost",
    "Limits",
    "NewEndpoint",
    "NewJob",
    "NotFound",
    "NotInTransaction",
    "OutcomeUnknown",
    "PublishOptions",
    "Published",
    "Reason",
    "Received",
    "Receiver",
    "Recovered",
    "Rejected",
    "Retry",
    "ScheduleOptions",
    "ScheduleState",
    "SchemaError",
    "SignalState",
    "Signalled",
    "Sleep",
    "Snooze",
    "StartOptions",
    "Step",
    "StepContext",
    "StepFailed",
    "StepState",
    "Task",
    "TaskOptions",
    "Timeout",
    "TxContext",
    "Unreachable",
    "UnsafeServer",
    "Wait",
    "WorkerOptions",
    "Workflow",
    "WorkflowOptions",
    "__version__",
    "acting_as",
    "substream",
]


def __getattr__(name: str) -> Any:
    """Load the worker's engine only where it is named: producers do not need it."""
    if name == "EmbeddedWorker":
        from .worker.embedded import EmbeddedWorker

        return EmbeddedWorker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
