"""All errors of Holdfast, in one small tree.

    HoldfastError
    ├── InvalidInput            bad input, rejected before anything was stored; names the field
    │   ├── InvalidPayload      arguments that are not strict JSON, too large, too deep, or of the wrong type
    │   └── IdempotencyConflict an idempotency key that already belongs to other work
    ├── ConfigurationError      a task, setting or server that cannot work as asked
    │   ├── SchemaError         the database's schema is missing, older or newer than this release
    │   └── UnsafeServer        a standby, or a server that may lose a commit
    ├── NotInTransaction        on(connection) outside a transaction
    ├── LeaseLost               this attempt no longer owns its job; nothing that it writes counts
    ├── Cancelled               this job was cancelled while it ran
    ├── Timeout                 this attempt ran longer than its task allows
    ├── Unreachable             the server did not answer; whether the call took effect is unknown
    ├── OutcomeUnknown          an enqueue whose answer was lost, and which cannot be retried safely (keep=None)
    ├── Contended               a deadlock or a lock that could not be acquired; nothing was done
    ├── NotFound                no such job, queue or worker
    ├── Rejected                a webhook that is not signed, too old, too large or not JSON; nothing was stored
    ├── JobFailed               result() of a job that did not complete
    ├── StepFailed              a step of a workflow that is out of attempts (catch=True)
    │   └── ChildFailed         a child of a workflow that did not complete
    └── HistoryMismatch         the code of a workflow does not fit what an instance has recorded

Each message says what was expected, what was found, and what to do.

One warning: `HoldfastWarning`, about code that works and does something else than it seems to.
"""

from __future__ import annotations

from uuid import UUID


class HoldfastError(Exception):
    """The base class of all errors of Holdfast."""


class HoldfastWarning(UserWarning):
    """Code that works, but loses a job: enqueued on a SQLAlchemy session that is closed without a commit."""


class InvalidInput(HoldfastError, ValueError):
    """Bad input. Nothing was stored."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.problem = message


class InvalidPayload(InvalidInput):
    """Arguments that cannot be stored, or that the task does not take."""


class IdempotencyConflict(InvalidInput):
    """The key belongs to other work. The caller's transaction is intact."""


class ConfigurationError(HoldfastError):
    """A task, a setting or a server that cannot work as configured."""


class SchemaError(ConfigurationError):
    """The schema in the database does not fit this release."""


class UnsafeServer(ConfigurationError):
    """This server may lose an acknowledged commit, or accepts no writes."""


class NotInTransaction(HoldfastError):
    """The connection given to on() has no open transaction."""


class LeaseLost(HoldfastError):
    """Another worker may own the job now. Stop: whatever this attempt writes is rejected."""


class Cancelled(HoldfastError):
    """The job was cancelled by an operator while this attempt ran."""


class Timeout(HoldfastError):
    """The attempt ran longer than its task allows."""


class Unreachable(HoldfastError):
    """The server did not answer. Whether the call took effect is unknown.

    Retrying an enqueue is safe under the same idempotency key, and under the same id, unless its task has keep=None.
    """

    def __init__(self, message: str, *, silent: bool = False, cut_off: bool = False) -> None:
        super().__init__(message)
        self.silent = silent
        """Whether nothing arrived at all, not even an error."""
        self.cut_off = silent or cut_off
        """Whether perhaps only we are cut off or rejected, while the server works for others."""


class OutcomeUnknown(HoldfastError):
    """The answer to an enqueue was lost, and a retry could add a second job.

    Its task has keep=None, and there is no row of the job: it was never stored, or it has completed since.
    """


class Contended(HoldfastError):
    """A deadlock, or a lock that could not be acquired. Nothing was done; the call can be retried."""


class NotFound(HoldfastError):
    """There is no such job, worker or schedule."""


class Rejected(HoldfastError):
    """A webhook that was not received: not signed, too old, too large, or in another form. Nothing was stored.

    Answer it with `status`. `reason` is for your logs: a sender whose signature is wrong is not told why.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        """Of the answer: 400, 401, 413 or 415."""
        self.reason = reason
        """What is wrong with it."""


class JobFailed(HoldfastError):
    """The job whose result was awaited is a dead letter, or ended as failed, cancelled, expired or discarded."""

    def __init__(self, id: UUID, status: str, error: str | None, message: str, attempts: int) -> None:
        super().__init__(id, status, error, message, attempts)
        self.id = id
        self.status = status
        """dead_letter, failed, cancelled, expired or discarded."""
        self.error = error
        """The class of the last attempt's exception, such as 'SMTPError'; None if no exception ended the job."""
        self.message = message
        """The message of that exception; or why the job ended, such as the reason of `Fail` or of the cancellation."""
        self.attempts = attempts

    def __str__(self) -> str:
        what = "is a dead letter" if self.status == "dead_letter" else f"ended as {self.status}"
        why = ": ".join(part for part in (self.error, self.message) if part)
        return f"job {self.id} {what} after {self.attempts} attempt{'s' * (self.attempts != 1)}: {why}"


class StepFailed(HoldfastError):
    """A step of a workflow is out of attempts. Raised in the workflow for a step with `catch=True`."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(step, message)
        self.step = step
        """Its name."""
        self.message = message
        """The error of its last attempt."""

    def __str__(self) -> str:
        return f"step {self.step}: {self.message}"


class ChildFailed(StepFailed):
    """A child of a workflow ended as failed, cancelled, expired or discarded."""


class HistoryMismatch(HoldfastError):
    """The code of a workflow does not fit the steps that an instance has recorded. Nothing of it was run."""

    def __init__(self, problem: str, diff: str = "") -> None:
        super().__init__(problem, diff)
        self.problem = problem
        """What does not fit."""
        self.diff = diff
        """The recorded steps, and those that the code asked for."""

    def __str__(self) -> str:
        return self.problem
