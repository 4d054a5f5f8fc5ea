"""Holdfast: durable work in Postgres, for Python.

Most names are imported when they are used: a command that needs no database starts without a driver for one, and
a producer without what only operators need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from .version import __version__

if TYPE_CHECKING:
    from .app import Holdfast
    from .context import Context, StepContext, TxContext
    from .db.acting import acting_as
    from .definitions import OnFailure, TaskOptions
    from .flow.calls import StepOptions
    from .flow.flow import Flow
    from .instance_states import InstanceState, SignalState, StepState
    from .instances import Signalled
    from .job import Job
    from .journal.story import Incident
    from .making import EnqueueOptions, Replace
    from .middleware import CallNext, CallNextSync
    from .model.backoff import Backoff, RetryFunction
    from .model.durations import Duration
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
    from .tasks import AllOnAsync, AllOnSync, OnAsync, OnSync, Task
    from .views.questions import DeadGroup, JobFilter, JobProgress, JobState, LiveStatus
    from .webhooks.operating import EndpointAttempt, EndpointState, NewEndpoint, Recovered
    from .worker.embedded import EmbeddedWorker
    from .worker.settings import WorkerOptions
    from .workflows import Instance, StartOnAsync, StartOnSync, StartOptions, Workflow, WorkflowOptions

__all__ = [
    "AllOnAsync",
    "AllOnSync",
    "Backoff",
    "CallNext",
    "CallNextSync",
    "Cancelled",
    "ChildFailed",
    "ConfigurationError",
    "Contended",
    "Context",
    "DeadGroup",
    "Duration",
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
    "JobProgress",
    "JobState",
    "LeaseLost",
    "Limits",
    "LiveStatus",
    "NewEndpoint",
    "NewJob",
    "NotFound",
    "NotInTransaction",
    "OnAsync",
    "OnFailure",
    "OnSync",
    "OutcomeUnknown",
    "PublishOptions",
    "Published",
    "Reason",
    "Received",
    "Receiver",
    "Recovered",
    "Rejected",
    "Replace",
    "Retry",
    "RetryFunction",
    "ScheduleOptions",
    "ScheduleState",
    "SchemaError",
    "SignalState",
    "Signalled",
    "Sleep",
    "Snooze",
    "StartOnAsync",
    "StartOnSync",
    "StartOptions",
    "Step",
    "StepContext",
    "StepFailed",
    "StepOptions",
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


_LATER = {
    "AllOnAsync": ".tasks",
    "AllOnSync": ".tasks",
    "Backoff": ".model.backoff",
    "CallNext": ".middleware",
    "CallNextSync": ".middleware",
    "Context": ".context",
    "DeadGroup": ".views.questions",
    "Duration": ".model.durations",
    "EmbeddedWorker": ".worker.embedded",
    "EndpointAttempt": ".webhooks.operating",
    "EndpointState": ".webhooks.operating",
    "EnqueueOptions": ".making",
    "Event": ".model.event",
    "EventOptions": ".reception",
    "EventTask": ".reception",
    "Explanation": ".model.explanation",
    "Fail": ".model.outcome",
    "Finding": ".model.finding",
    "Flow": ".flow.flow",
    "Holdfast": ".app",
    "Incident": ".journal.story",
    "Instance": ".workflows",
    "InstanceState": ".instance_states",
    "Job": ".job",
    "JobFilter": ".views.questions",
    "JobProgress": ".views.questions",
    "JobState": ".views.questions",
    "Limits": ".model.limits",
    "LiveStatus": ".views.questions",
    "NewEndpoint": ".webhooks.operating",
    "NewJob": ".model.terms",
    "OnAsync": ".tasks",
    "OnFailure": ".definitions",
    "OnSync": ".tasks",
    "PublishOptions": ".publishing",
    "Published": ".outbox.publish",
    "Reason": ".model.explanation",
    "Received": ".receiving.storing",
    "Receiver": ".receiving.asgi",
    "Recovered": ".webhooks.operating",
    "Replace": ".making",
    "Retry": ".model.outcome",
    "RetryFunction": ".model.backoff",
    "ScheduleOptions": ".scheduling",
    "ScheduleState": ".schedules.operating",
    "SignalState": ".instance_states",
    "Signalled": ".instances",
    "Sleep": ".tables",
    "Snooze": ".model.outcome",
    "StartOnAsync": ".workflows",
    "StartOnSync": ".workflows",
    "StartOptions": ".workflows",
    "Step": ".tables",
    "StepContext": ".context",
    "StepOptions": ".flow.calls",
    "StepState": ".instance_states",
    "Task": ".tasks",
    "TaskOptions": ".definitions",
    "TxContext": ".context",
    "Wait": ".tables",
    "WorkerOptions": ".worker.settings",
    "Workflow": ".workflows",
    "WorkflowOptions": ".workflows",
    "acting_as": ".db.acting",
    "substream": ".model.keys",
}
"""Where names are that are imported when they are used."""

if not TYPE_CHECKING:  # a type checker is to find names that do not exist

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            found = globals()[name] = getattr(import_module(_LATER[name], __name__), name)
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
