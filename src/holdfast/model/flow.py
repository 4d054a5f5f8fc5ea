"""What is stored of a workflow instance: its steps, its signals, and where it stands.

An instance is an inbox row. Its code is replayed from its `History`; what it does next becomes `StepRecord`s; and it
ends a run by completing (`FlowEnd`), or by waiting (`Parked`), which holds no worker.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

from .outcome import Completed, Ended, Outcome


class StepKind(StrEnum):
    STEP = "step"
    SLEEP = "sleep"
    WAIT = "wait"
    CHILD = "child"
    PATCH = "patch"
    VALUE = "value"
    UNDO = "undo"


class StepStatus(StrEnum):
    OPEN = "open"
    """It waits, or will be tried again."""
    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


UNDO_PREFIX = "undo:"
"""Of the names of steps that undo others, and of the mark that an instance is being undone."""


class NewChild(msgspec.Struct, frozen=True):
    """A job that is stored together with the step that waits for it."""

    id: UUID
    kind: str
    payload: str
    """JSON text, as in the inbox: with its type."""
    queue: str
    priority: int
    max_attempts: int
    version: int
    key: str | None = None
    ordered: bool | None = None
    skips: bool | None = None
    expires: float | None = None
    headers: dict[str, str] | None = None


class StepRecord(msgspec.Struct, omit_defaults=True, gc=False):
    """A step to be written: new, or an open one whose state has changed. The names are those of record_steps.sql."""

    name: str
    n: int
    ordinal: int
    kind: str
    """A `StepKind`."""
    status: str
    """A `StepStatus`."""
    result: str | None = None
    """JSON text."""
    error: str | None = None
    """Of the attempt that failed, a JSON object: appended to the errors of the step."""
    attempts: int = 0
    digest: int | None = None
    took: float = 0.0
    """Seconds from its beginning to its end; of a step, to that of this attempt."""
    delay: float | None = None
    """Of a new timer: seconds from `ended` until it is due, by the database's clock."""
    at: datetime | None = None
    """The same as a time."""
    child: NewChild | None = None
    signal: int | None = None
    """The number of the signal that it takes."""
    ended: float = msgspec.field(default=0.0, name="ago")
    """When it ended, by `perf_counter`, because it may be written later; of a timer, when it began. In JSON: how many
    seconds ago; 0: now."""


class RecordedStep(msgspec.Struct):
    """A step as it is stored. The names are those of the JSON that load.sql makes."""

    name: str
    n: int
    ordinal: int
    kind: str
    status: str
    attempts: int = 0
    result: msgspec.Raw = msgspec.Raw(b"null")
    digest: int | None = None
    wake_at: datetime | None = None
    due: bool = False
    """Of a timer: is it due, by the database's clock?"""
    child_id: UUID | None = None
    error: str | None = None
    """The last error, as one line."""
    age: float | None = None
    """Seconds from its beginning to the moment when it was loaded, if it had not ended."""


class Signal(msgspec.Struct):
    """A signal that no step has taken."""

    n: int
    name: str
    payload: msgspec.Raw = msgspec.Raw(b"null")


class History(msgspec.Struct):
    """What is stored of an instance when it is claimed."""

    steps: list[RecordedStep] = []
    signals: list[Signal] = []
    mail: int = 0
    paused: bool = False


class Standing(NamedTuple):
    """What a worker learns about an instance when it records steps."""

    cancelled: bool
    paused: bool


GOES_ON = Standing(cancelled=False, paused=False)
"""Nobody wants anything of it, as nearly always."""


class Parked(msgspec.Struct, frozen=True):
    """The instance waits, and holds no worker. An outcome."""

    mail: int
    """As it was when the code decided to wait: if it has changed, the instance is run again at once."""
    waits: tuple[str, ...]
    """'signal:NAME', 'timer:STEP', 'child:STEP', 'retry:STEP', 'pause'."""
    records: tuple[StepRecord, ...] = ()
    delay: float | None = None
    """Seconds until its earliest new timer or retry,"""
    since: float = 0.0
    """from this moment on, by `perf_counter`, because another branch may have gone on meanwhile; 0: from now on."""
    wake_at: datetime | None = None
    """Its earliest stored timer."""
    left: int | None = None
    """How many children must end before it is worth waking; None: it waits for none."""


class FlowEnd(msgspec.Struct, frozen=True):
    """The instance is over. An outcome."""

    end: Completed | Ended
    records: tuple[StepRecord, ...] = ()
    """Those that are not written yet."""
    stored: bool = True
    """May rows of its steps be stored?"""


FlowOutcome = Parked | FlowEnd

AnyOutcome = Outcome | FlowOutcome
"""How an attempt of a job or a run of an instance can end."""

PARENT = "holdfast.parent"
"""The header that a child carries: the id of the job that waits for it."""
