"""The messages between a worker and its handler processes: small, in JSON, each in a frame."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import assert_never, get_args
from uuid import UUID

import msgspec
from msgspec.structs import replace

from ...model.job import Claim
from ...model.outcome import AttemptFailed, Completed, HandedBack, Lost, Outcome, Snoozed, trim
from ...model.outcome import Ended as JobEnded
from ...model.questions import Progress, Question
from ..logs import LogFormat

HEAD = 4
"""Bytes before a message that hold its length."""
WORDS = 64 * 1024
"""Most bytes of an error's message, and of its trace; far more than is stored."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""The worker decides what these mean. A handler process starts with them blocked."""


class Start(msgspec.Struct, frozen=True):
    """What a new process gets, in its environment."""

    app: str
    imports: list[str]
    """The worker's `imports`."""
    modules: list[str]
    """To import in addition to the application's module and the imports: those that register handlers."""
    path: list[str]
    """The worker's `sys.path`."""
    socket_fd: int
    pipe_fd: int
    parent: int
    log_level: int
    log_format: LogFormat


# From the worker


class Run(msgspec.Struct, tag=True, frozen=True):
    claim: Claim


class Answer(msgspec.Struct, tag=True, frozen=True):
    """To an `Ask`."""

    value: bool = False
    busy: bool = False
    """Another live attempt is inside the once() block."""
    lost: bool = False
    """The attempt no longer owns its job; `error` says why."""
    error: str = ""


class Leave(msgspec.Struct, tag=True, frozen=True):
    """No attempt follows: leave `lifespan_sync`."""


class Stop(msgspec.Struct, frozen=True):
    """This attempt should stop. Sent through the pipe, independently of the socket."""

    id: UUID
    generation: int
    error: str
    """LeaseLost, Cancelled or Timeout."""
    message: str


# From the process


class Ready(msgspec.Struct, tag=True, frozen=True):
    kinds: list[str]
    leaves: bool = False
    """Has it a `lifespan_sync` to leave?"""


class Refused(msgspec.Struct, tag=True, frozen=True):
    """The application cannot be loaded."""

    problem: str


class Ask(msgspec.Struct, tag=True, frozen=True):
    """The handler asks its worker."""

    question: Question


class Tell(msgspec.Struct, tag=True, frozen=True):
    """The handler tells its worker how far it is."""

    progress: Progress


class Ended(msgspec.Struct, tag=True, frozen=True):
    how: str
    outcome: msgspec.Raw


class GaveIn(msgspec.Struct, tag=True, frozen=True):
    """It was told to stop, and did."""


class Left(msgspec.Struct, tag=True, frozen=True):
    """It has left `lifespan_sync`, and can be killed."""


Down = Run | Answer | Leave
Up = Ready | Refused | Ask | Tell | Ended | GaveIn | Left

_OUTCOMES: dict[str, type[Outcome]] = {kind.__name__: kind for kind in get_args(Outcome)}


def ended(outcome: Outcome) -> Ended:
    return Ended(type(outcome).__name__, msgspec.Raw(msgspec.json.encode(_sayable(outcome))))


def outcome_of(message: Ended) -> Outcome:
    return msgspec.json.decode(message.outcome, type=_OUTCOMES[message.how])


def _sayable(outcome: Outcome) -> Outcome:
    """The outcome with its texts trimmed: exceptions may hold text of any length, and text that JSON cannot hold."""
    match outcome:
        case AttemptFailed():
            error, message, trace = (trim(words, WORDS) for words in (outcome.error, outcome.message, outcome.trace))
            return replace(outcome, error=error, message=message, trace=trace, cause=None)
        case JobEnded():
            return replace(outcome, reason=trim(outcome.reason, WORDS))
        case Completed() | Snoozed() | HandedBack() | Lost():
            return outcome
        case _:
            assert_never(outcome)


def frame(message: msgspec.Struct) -> bytes:
    data = msgspec.json.encode(message)
    return len(data).to_bytes(HEAD) + data


def take_frames(buffer: bytearray) -> Iterator[bytes]:
    """Take the complete messages off the front of the buffer."""
    while len(buffer) >= HEAD:
        end = HEAD + int.from_bytes(buffer[:HEAD])
        if len(buffer) < end:
            return
        message = bytes(buffer[HEAD:end])
        del buffer[:end]
        yield message
