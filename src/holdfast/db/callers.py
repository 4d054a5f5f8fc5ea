"""Run operations on a caller's open connection, so that a job commits with the caller's work or not at all.

An operation is a value: a statement, its parameters (text, numbers and lists of them, which every driver can send) and
a decoder for its rows. `caller()` recognises a connection by its class, without importing the library it is from.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ..errors import InvalidInput, NotInTransaction
from ..model.terms import NewJob
from .uncommitted import expect_commit

T = TypeVar("T")
Row = Any
"""Whatever the driver's rows are: sequences of columns."""

TAKEN = (
    "an asyncpg connection, a psycopg 3 Connection or AsyncConnection, a SQLAlchemy Session, AsyncSession, "
    "Connection or AsyncConnection, or a Django connection"
)
_ADVICE = "Begin one, so that the job commits with your work; or leave the connection out to commit the job by itself."


class Operation(msgspec.Struct, Generic[T], frozen=True):
    """One statement to run somewhere, and what its rows mean."""

    sql: str
    parameters: tuple[Any, ...]
    decode: Callable[[Sequence[Row]], T]
    jobs: Sequence[NewJob] = ()
    """The jobs that it enqueues."""


class AsyncConnection(Protocol):
    """A connection whose `execute` is awaited."""

    def execute(self, *arguments: Any, **keywords: Any) -> Awaitable[Any]: ...


class Caller(Protocol):
    """Someone's connection. `run` gives the result, or an awaitable of it when `awaited`."""

    awaited: bool

    def run(self, operation: Operation[T]) -> T | Awaitable[T]: ...


def caller(connection: Any) -> Caller:
    """The way to run operations on this connection."""
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(connection).__mro__}
    for known, adapter in _ADAPTERS.items():
        if known in names:
            return adapter(connection)
    if "asyncpg.pool.Pool" in names or any("Pool" in name.rpartition(".")[2] for name in names):
        raise InvalidInput("on", "expected a connection inside a transaction, got a pool; acquire a connection from it")
    raise InvalidInput("on", f"expected {TAKEN}; got {type(connection).__module__}.{type(connection).__qualname__}")


@cache
def _for_psycopg(sql: str) -> str:
    """The statement with `$1` written as `%(p1)s`."""
    return re.sub(r"\$(\d+)", r"%(p\1)s", sql.replace("%", "%%"))


@cache
def _for_sqlalchemy(sql: str) -> str:
    """The statement with `$1` written as `:p1`, and the colons of its casts marked as no part of a name."""
    return re.sub(r"\$(\d+)", r":p\1", sql.replace(":", r"\:"))


def _by_name(operation: Operation[Any]) -> dict[str, Any]:
    return {f"p{n}": value for n, value in enumerate(operation.parameters, 1)}


class _Asyncpg:
    awaited = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def run(self, operation: Operation[T]) -> T:
        if not self._connection.is_in_transaction():
            raise NotInTransaction(f"This asyncpg connection is not in a transaction. {_ADVICE}")
        return operation.decode(await self._connection.fetch(operation.sql, *operation.parameters))


def _check_psycopg(connection: Any) -> None:
    if connection.autocommit and connection.info.transaction_status.name == "IDLE":
        raise NotInTransaction(f"This psycopg connection is in autocommit mode, outside a transaction. {_ADVICE}")


class _Psycopg:
    awaited = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, operation: Operation[T]) -> T:
        from psycopg.rows import tuple_row

        _check_psycopg(self._connection)
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(_for_psycopg(operation.sql), _by_name(operation))
            return operation.decode(cursor.fetchall())


class _AsyncPsycopg:
    awaited = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def run(self, operation: Operation[T]) -> T:
        from psycopg.rows import tuple_row

        _check_psycopg(self._connection)
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_for_psycopg(operation.sql), _by_name(operation))
            return operation.decode(await cursor.fetchall())


def _check_sqlalchemy(connection: Any) -> None:
    """`connection` is the synchronous Connection behind whatever was passed."""
    asked = connection.get_execution_options().get("isolation_level") or getattr(
        connection.dialect, "_on_connect_isolation_level", None
    )
    if asked == "AUTOCOMMIT":
        raise NotInTransaction(f"This SQLAlchemy connection runs in AUTOCOMMIT, outside any transaction. {_ADVICE}")


def _changed(operation: Operation[Any], answer: Any) -> list[NewJob]:
    """The jobs that were added, or that have replaced one. Others were there before, and stay."""
    stored = answer if isinstance(answer, list) else [answer]
    return [job for job, each in zip(operation.jobs, stored, strict=False) if not each.existed or each.replaced]


def _sqlalchemy_text(operation: Operation[Any]) -> Any:
    from sqlalchemy import text

    return text(_for_sqlalchemy(operation.sql))


class _Session:
    awaited = False

    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, operation: Operation[T]) -> T:
        connection = self._session.connection()
        _check_sqlalchemy(connection)
        answer = operation.decode(self._session.execute(_sqlalchemy_text(operation), _by_name(operation)).all())
        expect_commit(connection, _changed(operation, answer))
        return answer


class _Connection:
    awaited = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, operation: Operation[T]) -> T:
        _check_sqlalchemy(self._connection)
        answer = operation.decode(self._connection.execute(_sqlalchemy_text(operation), _by_name(operation)).all())
        expect_commit(self._connection, _changed(operation, answer))
        return answer


class _AsyncSession:
    awaited = True

    def __init__(self, session: Any) -> None:
        self._session = session

    async def run(self, operation: Operation[T]) -> T:
        connection = (await self._session.connection()).sync_connection
        _check_sqlalchemy(connection)
        result = await self._session.execute(_sqlalchemy_text(operation), _by_name(operation))
        answer = operation.decode(result.all())
        expect_commit(connection, _changed(operation, answer), awaited=True)
        return answer


class _AsyncSQLAlchemy:
    awaited = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def run(self, operation: Operation[T]) -> T:
        _check_sqlalchemy(self._connection.sync_connection)
        result = await self._connection.execute(_sqlalchemy_text(operation), _by_name(operation))
        answer = operation.decode(result.all())
        expect_commit(self._connection.sync_connection, _changed(operation, answer), awaited=True)
        return answer


class _Django:
    awaited = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, operation: Operation[T]) -> T:
        if self._connection.vendor != "postgresql":
            raise InvalidInput("on", f"expected a Django connection to PostgreSQL, got {self._connection.vendor}")
        if not self._connection.in_atomic_block and self._connection.get_autocommit():
            raise NotInTransaction(f"This Django connection is not inside transaction.atomic(). {_ADVICE}")
        with self._connection.cursor() as cursor:
            cursor.execute(_for_psycopg(operation.sql), _by_name(operation))
            return operation.decode(cursor.fetchall())


_ADAPTERS: dict[str, Callable[[Any], Caller]] = {
    "asyncpg.connection.Connection": _Asyncpg,
    "asyncpg.pool.PoolConnectionProxy": _Asyncpg,
    "psycopg.Connection": _Psycopg,
    "psycopg.connection.Connection": _Psycopg,
    "psycopg.AsyncConnection": _AsyncPsycopg,
    "psycopg.connection_async.AsyncConnection": _AsyncPsycopg,
    "sqlalchemy.orm.session.Session": _Session,
    "sqlalchemy.orm.scoping.scoped_session": _Session,
    "sqlalchemy.engine.base.Connection": _Connection,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _AsyncSession,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _AsyncSession,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _AsyncSQLAlchemy,
    "django.db.backends.base.base.BaseDatabaseWrapper": _Django,
    "django.utils.connection.ConnectionProxy": _Django,
}
