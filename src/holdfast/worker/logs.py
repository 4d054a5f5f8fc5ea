"""How our processes log, and which attempt a log record belongs to.

While a handler runs, every record that it logs has these attributes: `holdfast_job_id`, `holdfast_kind`,
`holdfast_queue`, `holdfast_attempt` and `holdfast_worker`. The prefix is needed: `logging` raises a KeyError if an
`extra=` of a log call names an attribute that the record has already, and handlers do pass `job_id` and `queue`.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from ..model.job import Claim

LogFormat = Literal["text", "json"]

current: ContextVar[Claim] = ContextVar("holdfast_attempt")
"""The attempt that this code belongs to. Each attempt runs in a context of its own, so it needs no reset."""

PREFIX = "holdfast_"
FIELDS = ("job_id", "kind", "queue", "attempt", "worker")
_ATTRIBUTES = tuple(PREFIX + name for name in FIELDS)
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", *_ATTRIBUTES}
"""Attributes of every record. Others were passed as `extra`."""

_format: LogFormat = "text"


def chosen_format() -> LogFormat:
    """The format of this process; those that it starts use the same one."""
    return _format


def log_to_stderr(level: str | int, format: LogFormat = "text") -> None:
    global _format
    _format = format
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler])


def print_by_line() -> None:
    """What handlers print is seen at once, also in a file, a pipe or a container; and a process that is killed loses
    none of it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def mark_records() -> None:
    """Let the records of handlers carry their attempt, from now on. Once is enough."""
    make = logging.getLogRecordFactory()
    if getattr(make, "marks_attempts", False):
        return

    def make_marked(*arguments: Any, **keywords: Any) -> logging.LogRecord:
        record = make(*arguments, **keywords)
        claim = current.get(None)
        if claim is not None:
            values = (str(claim.id), claim.kind, claim.queue, claim.attempt, claim.worker)
            record.__dict__.update(zip(_ATTRIBUTES, values, strict=True))
        return record

    make_marked.marks_attempts = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(make_marked)


@contextmanager
def about(claim: Claim) -> Iterator[None]:
    """What the worker itself logs here is about this attempt."""
    token = current.set(claim)
    try:
        yield
    finally:
        current.reset(token)


def job_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The attempt of this record; empty if it has none."""
    found = vars(record)
    return {name: found[PREFIX + name] for name in FIELDS if PREFIX + name in found}


class TextFormatter(logging.Formatter):
    """One line per record, then the traceback. A handler's line ends with its attempt; ours name it already."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        fields = job_fields(record) if record.name != "holdfast.worker" else {}
        return f"{line} [{' '.join(f'{name}={value}' for name, value in fields.items())}]" if fields else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the attempt, `extra` by its names, the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        shown = {
            **{name: value for name, value in vars(record).items() if name not in _USUAL},
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **job_fields(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            shown["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            shown["exception"] = record.exc_text
        if record.stack_info:
            shown["stack"] = self.formatStack(record.stack_info)
        try:
            return msgspec.json.encode(shown, enc_hook=repr).decode()
        except Exception:  # half a surrogate pair, or an `extra` that cannot be shown
            return msgspec.json.encode({name: _shown(value) for name, value in shown.items()}).decode()


def _shown(value: Any) -> str:
    try:
        return str(value).encode("utf-8", "backslashreplace").decode()
    except Exception:
        return f"(a {type(value).__name__} that cannot be shown)"
