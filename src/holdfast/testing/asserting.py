"""Assertions about jobs that were enqueued and have not started."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..db import callers
from ..db.callers import Caller, Operation
from ..errors import InvalidInput, NotInTransaction
from .matching import Enqueued, Wanted

if TYPE_CHECKING:
    from ..app import Holdfast
    from ..tasks import Task


async def assert_enqueued(
    task: Task[Any, Any],
    /,
    *,
    on: Any = None,
    count: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **expected: Any,
) -> list[Enqueued]:
    """Assert that a job of this task waits, with these arguments: `await assert_enqueued(send, order_id=1)`.

    Other keywords: see `Expectations`. Every value may be a function that returns True for the right ones, or anything
    that is equal to them, such as `unittest.mock.ANY`. `count`: exactly this many; otherwise at least one. `on`: your
    connection, whose open transaction may have enqueued it. If the task has an argument with the name of another
    keyword, pass all arguments as `arguments={…}`. Returns the jobs, oldest first.

    ```python
    from holdfast.testing import assert_enqueued

    await send_receipt.options(key="order:21", delay="5m").enqueue(21)
    await assert_enqueued(send_receipt, order_id=21, key="order:21", delay="5m", count=1)
    ```
    """
    return await _check(Wanted(task, arguments, expected, count), on)


def assert_enqueued_sync(
    task: Task[Any, Any],
    /,
    *,
    on: Any = None,
    count: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **expected: Any,
) -> list[Enqueued]:
    """As `assert_enqueued`, for code that does not await."""
    return _check_sync(Wanted(task, arguments, expected, count), on)


async def assert_not_enqueued(
    task: Task[Any, Any], /, *, on: Any = None, arguments: Mapping[str, Any] | None = None, **expected: Any
) -> None:
    """Assert that no job of this task waits, with these arguments. Takes the keywords of `assert_enqueued`.

    ```python
    from holdfast.testing import assert_not_enqueued

    await assert_not_enqueued(send_receipt, order_id=22)
    ```
    """
    await _check(Wanted(task, arguments, expected).none(), on)


def assert_not_enqueued_sync(
    task: Task[Any, Any], /, *, on: Any = None, arguments: Mapping[str, Any] | None = None, **expected: Any
) -> None:
    """As `assert_not_enqueued`, for code that does not await."""
    _check_sync(Wanted(task, arguments, expected).none(), on)


# Asking


async def _check(wanted: Wanted, on: Any) -> list[Enqueued]:
    caller = _caller(on)
    found = wanted.look(await _ask(wanted.app, caller, "jobs", wanted.kind))
    if found.right:
        return found.matching
    raise AssertionError(found.message(await _ask(wanted.app, caller, "around", wanted.kind), on is None))


def _check_sync(wanted: Wanted, on: Any) -> list[Enqueued]:
    caller = _caller(on)
    found = wanted.look(_ask_sync(wanted.app, caller, "jobs", wanted.kind))
    if found.right:
        return found.matching
    raise AssertionError(found.message(_ask_sync(wanted.app, caller, "around", wanted.kind), on is None))


def _caller(connection: Any) -> Caller | None:
    return callers.caller(connection) if connection is not None else None


async def _ask(app: Holdfast, caller: Caller | None, name: str, kind: str) -> Sequence[Any]:
    if caller is None:
        return await app._calls.run("testing", name, kind)
    try:
        answer = caller.run(_operation(app, name, kind))
        return await cast(Awaitable[Sequence[Any]], answer) if caller.awaited else cast(Sequence[Any], answer)
    except NotInTransaction:
        raise _outside() from None


def _ask_sync(app: Holdfast, caller: Caller | None, name: str, kind: str) -> Sequence[Any]:
    if caller is None:
        return app._calls.wait_for(app._calls.run("testing", name, kind))
    if caller.awaited:
        raise InvalidInput("on", "expected a synchronous connection; for this one, write: await assert_enqueued(…)")
    try:
        return cast(Sequence[Any], caller.run(_operation(app, name, kind)))
    except NotInTransaction:
        raise _outside() from None


def _operation(app: Holdfast, name: str, kind: str) -> Operation[Sequence[Any]]:
    return Operation(app._database.sql("testing", name), (kind,), list)


def _outside() -> InvalidInput:
    return InvalidInput("on", "expected a connection in a transaction; leave it out to see what is committed")
