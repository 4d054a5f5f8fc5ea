"""Every way into the inbox under one face, so that one suite can hold all of them to the same promises.

A door opens a transaction as its library does and hands over a seat in it. Calls that are not awaitable are answered
at once; `settle` makes both kinds look alike.
"""

import inspect
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import django
import django.conf
import django.db
import psycopg
import sqlalchemy as sa
import sqlalchemy.ext.asyncio as sa_async
import sqlalchemy.orm as sa_orm
from tests.support.pooler import direct

from holdfast import Holdfast, Job, Task

OPTIONS = Mapping[str, Any]


async def settle(value: Any) -> Any:
    """The value, awaited if it has to be."""
    return await value if inspect.isawaitable(value) else value


@dataclass
class Seat:
    """A place inside an open transaction of one library."""

    connection: Any
    execute: Callable[[str], Any]
    savepoint: Callable[[], Any]
    """A context manager, synchronous or not."""

    async def run(self, statement: str) -> None:
        await settle(self.execute(statement))

    async def enqueue(self, task: Task[..., Any], arguments: Mapping[str, Any], **options: Any) -> Job:
        job = await settle(task.on(self.connection, **options).enqueue(**arguments))
        assert isinstance(job, Job)
        return job

    async def enqueue_many(
        self, task: Task[..., Any], rows: Sequence[Mapping[str, Any]], keys: Sequence[str] | None = None, **options: Any
    ) -> list[Job]:
        jobs: list[Job] = await settle(task.on(self.connection, **options).enqueue_many(rows, idempotency_keys=keys))
        return jobs

    @asynccontextmanager
    async def nested(self) -> AsyncIterator[None]:
        manager = self.savepoint()
        if hasattr(manager, "__aenter__"):
            async with manager:
                yield
        else:
            with manager:
                yield


class Own(Seat):
    """No transaction of the caller's: each call commits by itself."""

    def __init__(self, sync: bool) -> None:
        self.sync = sync

    async def enqueue(self, task: Task[..., Any], arguments: Mapping[str, Any], **options: Any) -> Job:
        chosen = task.options(**options)
        return chosen.enqueue_sync(**arguments) if self.sync else await chosen.enqueue(**arguments)

    async def enqueue_many(
        self, task: Task[..., Any], rows: Sequence[Mapping[str, Any]], keys: Sequence[str] | None = None, **options: Any
    ) -> list[Job]:
        chosen = task.options(**options)
        if self.sync:
            return chosen.enqueue_many_sync(rows, idempotency_keys=keys)
        return await chosen.enqueue_many(rows, idempotency_keys=keys)


Door = Callable[[str], AbstractAsyncContextManager[Seat]]


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Seat]:
    connection = await asyncpg.connect(direct(url))
    try:
        async with connection.transaction():
            yield Seat(connection, connection.execute, connection.transaction)
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Seat]:
    async with (
        asyncpg.create_pool(direct(url), min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield Seat(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def psycopg_sync(url: str) -> AsyncIterator[Seat]:
    with psycopg.connect(direct(url)) as connection:
        yield Seat(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def psycopg_dict_rows(url: str) -> AsyncIterator[Seat]:
    """An autocommit connection inside `transaction()`, whose rows are not sequences."""
    with (
        psycopg.connect(direct(url), autocommit=True, row_factory=psycopg.rows.dict_row) as connection,
        connection.transaction(),
    ):
        yield Seat(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Seat]:
    async with await psycopg.AsyncConnection.connect(direct(url)) as connection:
        yield Seat(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def sqlalchemy_session(url: str) -> AsyncIterator[Seat]:
    engine = sa.create_engine(dialect(url, "psycopg"))
    try:
        with sa_orm.Session(engine) as session, session.begin():
            yield Seat(session, lambda statement: session.execute(sa.text(statement)), session.begin_nested)
    finally:
        engine.dispose()


@asynccontextmanager
async def sqlalchemy_scoped_session(url: str) -> AsyncIterator[Seat]:
    engine = sa.create_engine(dialect(url, "psycopg"))
    session = sa_orm.scoped_session(sa_orm.sessionmaker(engine))
    try:
        with session.begin():
            yield Seat(session, lambda statement: session.execute(sa.text(statement)), session.begin_nested)
    finally:
        session.remove()
        engine.dispose()


@asynccontextmanager
async def sqlalchemy_connection(url: str) -> AsyncIterator[Seat]:
    engine = sa.create_engine(dialect(url, "psycopg"))
    try:
        with engine.begin() as connection:
            yield Seat(connection, lambda statement: connection.execute(sa.text(statement)), connection.begin_nested)
    finally:
        engine.dispose()


def sqlalchemy_async_session(driver: str) -> Door:
    @asynccontextmanager
    async def door(url: str) -> AsyncIterator[Seat]:
        engine = sa_async.create_async_engine(dialect(url, driver))
        try:
            async with sa_async.AsyncSession(engine) as session, session.begin():
                yield Seat(session, lambda statement: session.execute(sa.text(statement)), session.begin_nested)
        finally:
            await engine.dispose()

    return door


def sqlalchemy_async_connection(driver: str) -> Door:
    @asynccontextmanager
    async def door(url: str) -> AsyncIterator[Seat]:
        engine = sa_async.create_async_engine(dialect(url, driver))
        try:
            async with engine.begin() as connection:
                yield Seat(connection, lambda text: connection.execute(sa.text(text)), connection.begin_nested)
        finally:
            await engine.dispose()

    return door


@asynccontextmanager
async def django_atomic(url: str) -> AsyncIterator[Seat]:
    with django_at(url) as connection, django.db.transaction.atomic():
        yield Seat(connection, lambda statement: connection.cursor().execute(statement), django.db.transaction.atomic)


@asynccontextmanager
async def django_proxy(url: str) -> AsyncIterator[Seat]:
    """`from django.db import connection`, as most code has it."""
    proxy = django.db.connection
    with django_at(url), django.db.transaction.atomic():
        yield Seat(proxy, lambda statement: proxy.cursor().execute(statement), django.db.transaction.atomic)


class django_at:
    """Django's default connection, pointed at this database for the length of the block."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> Any:
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # the suite's own loop is no concern of this connection
        if not django.conf.settings.configured:
            django.conf.settings.configure(USE_TZ=True)
            django.setup()
        parts = urlsplit(direct(self._url))
        address = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.lstrip("/"),
            "USER": parts.username or "",
            "PASSWORD": parts.password or "",
            "HOST": parts.hostname or "",
            "PORT": str(parts.port or ""),
        }
        connections = django.db.connections
        connections.settings["default"] = connections.configure_settings({"default": address})["default"]
        return connections["default"]

    def __exit__(self, *_: object) -> None:
        django.db.connections["default"].close()
        del django.db.connections["default"]
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@asynccontextmanager
async def own_async(url: str) -> AsyncIterator[Seat]:
    yield Own(sync=False)


@asynccontextmanager
async def own_sync(url: str) -> AsyncIterator[Seat]:
    yield Own(sync=True)


def dialect(url: str, driver: str) -> str:
    return direct(url).replace("postgresql://", f"postgresql+{driver}://", 1)


CALLERS: dict[str, Door] = {
    "asyncpg": asyncpg_connection,
    "asyncpg pool": asyncpg_pool,
    "psycopg": psycopg_sync,
    "psycopg, rows as dicts": psycopg_dict_rows,
    "psycopg async": psycopg_async,
    "SQLAlchemy Session": sqlalchemy_session,
    "SQLAlchemy scoped_session": sqlalchemy_scoped_session,
    "SQLAlchemy Connection": sqlalchemy_connection,
    "SQLAlchemy AsyncSession, asyncpg": sqlalchemy_async_session("asyncpg"),
    "SQLAlchemy AsyncSession, psycopg": sqlalchemy_async_session("psycopg"),
    "SQLAlchemy AsyncConnection, asyncpg": sqlalchemy_async_connection("asyncpg"),
    "SQLAlchemy AsyncConnection, psycopg": sqlalchemy_async_connection("psycopg"),
    "Django": django_atomic,
    "Django's connection proxy": django_proxy,
}
"""Callers' connections: the job commits with their work."""

OWN: dict[str, Door] = {"our own": own_async, "our own, sync": own_sync}


@asynccontextmanager
async def installation(url: str) -> AsyncIterator[Holdfast]:
    """An application on this database; its connections are closed at the end."""
    app = Holdfast(url)
    try:
        yield app
    finally:
        await app.close()
