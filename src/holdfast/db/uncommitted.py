"""Warn about jobs that are lost because nobody commits: on(session) or on(connection) of SQLAlchemy.

SQLAlchemy begins a transaction with the first statement, which may be the enqueue itself, and rolls it back when the
session or connection is closed. So `task.on(session).enqueue(…)` without a commit would lose the job in silence.

    commit()                                             the job is stored; nothing is said
    rollback(), also that of `with session.begin():`     somebody decided it; nothing is said
    close(), because an error leaves a `with` block      the same
    close(), otherwise                                   a warning; also `finally: await session.close()` after an
                                                         error, which is not visible there
    garbage collection, or the end of the program        a warning

A Session works on Connections, so one rule for a Connection serves all four: Session, AsyncSession, Connection and
AsyncConnection.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import msgspec

from ..errors import HoldfastWarning
from ..model.terms import NewJob

log = logging.getLogger("holdfast.db")

SHOWN = 3
"""Jobs that a warning names."""
_DEPTH = 20
"""Frames from the event of a rollback up to the call that caused it; it takes 6."""


class _Unraisable(msgspec.Struct, dict=True):
    """What `sys.unraisablehook` takes."""

    exc_type: type[BaseException]
    exc_value: BaseException | None
    exc_traceback: TracebackType | None
    err_msg: str | None
    object: Any


class _Watch:
    """The jobs that wait for the commit of one connection's transaction."""

    __slots__ = ("_count", "_error", "_first", "_savepoints", "_task")

    def __init__(self) -> None:
        self._count = 0
        self._first: list[NewJob] = []
        """Not all of them: there may be a million."""
        self._savepoints: list[int] = []
        """How many jobs there were when each open savepoint was set. Savepoints that are older than all jobs are not
        here."""
        self._error: int | None = None
        self._task: weakref.ref[asyncio.Task[Any]] | None = None

    def expect(self, jobs: Sequence[NewJob], awaited: bool) -> None:
        handled = sys.exception()
        self._error = id(handled) if handled is not None else None
        task = asyncio.current_task() if awaited else None
        self._task = weakref.ref(task) if task is not None else None
        self._first += jobs[: SHOWN - len(self._first)]
        self._count += len(jobs)

    # Events of SQLAlchemy; what follows the first argument differs between them.

    def settled(self, *_: Any) -> None:
        self._cut(0)
        self._savepoints.clear()

    def savepoint(self, *_: Any) -> None:
        self._savepoints.append(self._count)

    def released(self, *_: Any) -> None:
        self._innermost()

    def back_to_savepoint(self, *_: Any) -> None:
        self._cut(self._innermost())

    def rolled_back(self, connection: Any) -> None:
        said = self._said("was closed without a commit") if self._count and _closing() and not self._fails() else ""
        self.settled()
        try:
            _warn(said)
        except HoldfastWarning as raised:
            # Warnings are errors, as in many tests. SQLAlchemy rolls back after this event, so an error here would
            # leave the transaction open. It is reported as those of destructors are: pytest shows it.
            sys.unraisablehook(_Unraisable(type(raised), raised, raised.__traceback__, None, connection))

    def forgotten(self) -> None:
        """The connection is collected, or the program ends."""
        said = self._said("was neither closed nor committed") if self._count else ""
        self.settled()
        _warn(said)

    def _innermost(self) -> int:
        return self._savepoints.pop() if self._savepoints else 0

    def _cut(self, count: int) -> None:
        self._count = count
        del self._first[count:]

    def _fails(self) -> bool:
        """Is the connection closed because of an error, newer than one that was handled when the job was enqueued?"""
        error = sys.exception()
        if error is not None:
            return id(error) != self._error
        task = self._task() if self._task is not None else None
        return task is not None and _leaves_by_error(task)

    def _said(self, ended: str) -> str:
        shown = ", ".join(f"{job._terms.kind} {job.id}" for job in self._first)
        more = f" and {self._count - SHOWN} more" if self._count > SHOWN else ""
        return (
            f"{shown}{more}: enqueued on a SQLAlchemy session or connection that {ended}, so the "
            f"{'jobs are' if self._count > 1 else 'job is'} rolled back and will not run. Call commit(), or enqueue "
            "inside `with session.begin():`. If you want to drop such jobs, call rollback()"
        )


_watches: weakref.WeakKeyDictionary[Any, _Watch] = weakref.WeakKeyDictionary()


def expect_commit(connection: Any, jobs: Sequence[NewJob], awaited: bool = False) -> None:
    """Warn if the transaction of this (synchronous) Connection, which has these jobs, ends and nobody decided how."""
    if not jobs:
        return
    watch = _watches.get(connection)
    if watch is None:
        from sqlalchemy import event

        watch = _watches[connection] = _Watch()
        for name in ("commit", "commit_twophase", "rollback_twophase"):
            event.listen(connection, name, watch.settled)
        event.listen(connection, "rollback", watch.rolled_back)
        event.listen(connection, "savepoint", watch.savepoint)
        event.listen(connection, "release_savepoint", watch.released)
        event.listen(connection, "rollback_savepoint", watch.back_to_savepoint)
        weakref.finalize(connection, watch.forgotten)
    watch.expect(jobs, awaited)


def _closing() -> bool:
    """Does a close() cause this rollback? Its event is the same as that of a rollback()."""
    from sqlalchemy.engine.base import Transaction

    frame, code = sys._getframe(1), Transaction.close.__code__
    for _ in range(_DEPTH):
        if frame.f_code is code:
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _leaves_by_error(task: asyncio.Task[Any]) -> bool:
    """Does this task leave an `async with` block because of an error? It is closed in another task or greenlet, which
    does not see the error.
    """
    step: Any = task.get_coro()
    while step is not None:
        frame = getattr(step, "cr_frame", None)
        if frame is not None and frame.f_code.co_name == "__aexit__" and frame.f_code.co_argcount == 4:
            error_type = frame.f_locals.get(frame.f_code.co_varnames[1])
            if error_type is not None:
                return True
        step = getattr(step, "cr_await", None)
    return False


def _warn(text: str) -> None:
    if text:
        log.warning("%s", text)
        warnings.warn(text, HoldfastWarning, stacklevel=2)
