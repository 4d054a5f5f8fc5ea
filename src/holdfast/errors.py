"""Every error of Holdfast, one small tree.

    HoldfastError
    ├── InvalidInput            bad input, refused before anything was stored; names the field
    │   ├── InvalidPayload      arguments that are not strict JSON, too large, too deep, or of the wrong type
    │   └── IdempotencyConflict an idempotency key that already stands for other work
    ├── ConfigurationError      a task, setting or server that cannot work as asked
    │   ├── SchemaError         the database's schema is missing, older or newer than this release
    │   └── UnsafeServer        a standby, or a server that may forget a commit
    ├── NotInTransaction        on(connection) outside a transaction
    ├── LeaseLost               this attempt no longer owns its job; nothing it writes counts
    ├── Cancelled               this job was cancelled while it ran
    ├── Timeout                 this attempt ran longer than its task allows
    ├── Unreachable             the server did not answer; whether the call took effect is unknown
    ├── Contended               the server refused this time; nothing was done
    └── NotFound                no such job, queue or worker

Each message says what was expected, what came, and what to do.
"""

from __future__ import annotations


class HoldfastError(Exception):
    """The root of the tree."""


class InvalidInput(HoldfastError, ValueError):
    """Bad input. Nothing was stored."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.problem = message


class InvalidPayload(InvalidInput):
    """Arguments that cannot be stored, or that the task does not take."""


class IdempotencyConflict(InvalidInput):
    """The key stands for other work. The caller's transaction is intact."""


class ConfigurationError(HoldfastError):
    """Something was declared or set in a way that cannot work."""


class SchemaError(ConfigurationError):
    """The schema in the database does not fit this release."""


class UnsafeServer(ConfigurationError):
    """This server may lose an acknowledged commit, or takes no writes."""


class NotInTransaction(HoldfastError):
    """A caller's connection was handed over outside a transaction."""


class LeaseLost(HoldfastError):
    """Another owner may hold the job. Stop; whatever this attempt would write is refused."""


class Cancelled(HoldfastError):
    """The job was cancelled by an operator while this attempt ran."""


class Timeout(HoldfastError):
    """The attempt ran longer than its task allows."""


class Unreachable(HoldfastError):
    """The server did not answer. Whether the call took effect is unknown; repeating it under the same id is safe."""

    def __init__(self, message: str, *, silent: bool = False, alone: bool = False) -> None:
        super().__init__(message)
        self.silent = silent
        """Did nothing come at all, not even a refusal?"""
        self.alone = silent or alone
        """Is it perhaps only we who are cut off or refused, while the server works for others?"""


class Contended(HoldfastError):
    """The server refused this time (a deadlock, a lock not to be had). Nothing was done; it may be repeated."""


class NotFound(HoldfastError):
    """There is no such thing."""
