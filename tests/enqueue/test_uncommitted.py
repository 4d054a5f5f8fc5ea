"""on(session) and on(connection) of SQLAlchemy without a commit: no job is lost in silence, no warning is needless."""

import contextlib
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa
import sqlalchemy.ext.asyncio as sa_async
import sqlalchemy.orm as sa_orm
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import dialect, settle

from holdfast import HoldfastWarning, IdempotencyConflict, Task

SYNC = ("Session", "Connection")
ASYNC = ("AsyncSession asyncpg", "AsyncSession psycopg", "AsyncConnection asyncpg", "AsyncConnection psycopg")


class Way:
    """One of the four, opened as most code does: without begin()."""

    def __init__(self, kind: str, url: str) -> None:
        name, _, driver = kind.partition(" ")
        self.is_async = bool(driver)
        self.new: Callable[[], Any]
        if driver:
            engine = sa_async.create_async_engine(dialect(url, driver))
            self.engine: Any = engine
            self.new = (lambda: sa_async.AsyncSession(engine)) if name == "AsyncSession" else engine.connect
        else:
            sync_engine = sa.create_engine(dialect(url, "psycopg"))
            self.engine = sync_engine
            self.new = (lambda: sa_orm.Session(sync_engine)) if name == "Session" else sync_engine.connect

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        if self.is_async:
            async with self.new() as opened:
                yield opened
        else:
            with self.new() as opened:
                yield opened


@pytest.fixture(params=[*SYNC, *ASYNC])
async def way(request: pytest.FixtureRequest, migrated_url: str) -> AsyncIterator[Way]:
    way = Way(request.param, migrated_url)
    yield way
    await settle(way.engine.dispose())


@pytest.fixture
def warned() -> Iterator[Any]:
    """The texts of the warnings so far."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lambda: [str(each.message) for each in caught if each.category is HoldfastWarning]


async def test_closed_without_a_commit(
    way: Way, send_receipt: Task[..., None], inbox: Inbox, warned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with way.open() as opened:
        job = await settle(send_receipt.on(opened).enqueue(1))
    (text,) = warned()
    assert text.startswith(f"send_receipt {job.id}: enqueued on a SQLAlchemy session or connection that was closed")
    assert "Call commit()" in text
    assert [record.getMessage() for record in caplog.records if record.name == "holdfast.db"] == [text]
    assert await inbox.count() == 0


async def test_a_select_first_changes_nothing(
    way: Way, send_receipt: Task[..., None], inbox: Inbox, warned: Any
) -> None:
    async with way.open() as opened:
        await settle(opened.execute(sa.text("select 1")))
        await settle(send_receipt.on(opened).enqueue_many([{"order_id": n} for n in range(5)]))
    (text,) = warned()
    assert " and 2 more: enqueued on" in text
    assert "the jobs are rolled back and will not run" in text


async def test_nothing_is_lost_that_was_there_before(
    way: Way, send_receipt: Task[..., None], inbox: Inbox, warned: Any
) -> None:
    first = await send_receipt.options(idempotency_key="a").enqueue(1)
    async with way.open() as opened:
        again = await settle(send_receipt.on(opened, idempotency_key="a").enqueue(1))
        with pytest.raises(IdempotencyConflict):
            await settle(send_receipt.on(opened, idempotency_key="a").enqueue(2))
    assert (again.id, again.existed) == (first.id, True)
    assert warned() == []


async def test_warnings_as_errors_leave_no_transaction_open(
    way: Way, send_receipt: Task[..., None], inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HoldfastWarning)
        async with way.open() as opened:
            await settle(send_receipt.on(opened).enqueue(1))
    assert [type(each.exc_value) for each in reported] == [HoldfastWarning]
    open_ones = "state like 'idle in transaction%' and datname = current_database()"
    assert await inbox.connection.fetchval(f"select count(*) from pg_stat_activity where {open_ones}") == 0


async def test_committed(way: Way, send_receipt: Task[..., None], inbox: Inbox, warned: Any) -> None:
    async with way.open() as opened:
        await settle(send_receipt.on(opened).enqueue(1))
        await settle(opened.commit())
        await settle(opened.execute(sa.text("select 1")))
    async with way.open() as opened, begun(opened):
        await settle(send_receipt.on(opened).enqueue(2))
    assert warned() == []
    assert await inbox.count() == 2


async def test_rolled_back_on_purpose(way: Way, send_receipt: Task[..., None], inbox: Inbox, warned: Any) -> None:
    async with way.open() as opened:
        await settle(send_receipt.on(opened).enqueue(1))
        await settle(opened.rollback())
    with contextlib.suppress(RuntimeError):
        async with way.open() as opened, begun(opened):
            await settle(send_receipt.on(opened).enqueue(2))
            raise RuntimeError
    assert warned() == []
    assert await inbox.count() == 0


async def test_an_error_ends_the_block(way: Way, send_receipt: Task[..., None], inbox: Inbox, warned: Any) -> None:
    with contextlib.suppress(RuntimeError):
        async with way.open() as opened:
            await settle(send_receipt.on(opened).enqueue(1))
            raise RuntimeError
    if way.is_async:
        with contextlib.suppress(RuntimeError):
            async with way.new() as opened:
                await send_receipt.on(opened).enqueue(1)
                raise RuntimeError
    assert warned() == []
    assert await inbox.count() == 0


async def test_an_error_that_was_there_before_does_not_hide_it(
    way: Way, send_receipt: Task[..., None], inbox: Inbox, warned: Any
) -> None:
    try:
        raise RuntimeError
    except RuntimeError:
        async with way.open() as opened:
            await settle(send_receipt.on(opened).enqueue(1))
    assert len(warned()) == 1


async def test_savepoints(way: Way, send_receipt: Task[..., None], inbox: Inbox, warned: Any) -> None:
    async with way.open() as opened:
        with contextlib.suppress(RuntimeError):
            async with nested(opened):
                await settle(send_receipt.on(opened).enqueue(1))
                raise RuntimeError
    assert warned() == [], "it was rolled back on purpose, and nothing else was in the transaction"
    async with way.open() as opened:
        async with nested(opened):
            kept = await settle(send_receipt.on(opened).enqueue(2))
        with contextlib.suppress(RuntimeError):
            async with nested(opened):
                await settle(send_receipt.on(opened).enqueue(3))
                raise RuntimeError
    (text,) = warned()
    assert text.startswith(f"send_receipt {kept.id}: enqueued")


async def test_used_again_after_close(way: Way, send_receipt: Task[..., None], inbox: Inbox, warned: Any) -> None:
    opened = way.new()
    if way.is_async:
        opened = await opened if not isinstance(opened, sa_async.AsyncSession) else opened
    await settle(opened.close())
    try:
        await settle(send_receipt.on(opened).enqueue(1))
    except sa.exc.ResourceClosedError:
        return  # a Connection cannot be used again; a Session begins a new transaction
    await settle(opened.close())
    assert len(warned()) == 1


def test_forgotten(migrated_url: str, send_receipt: Task[..., None], warned: Any) -> None:
    engine = sa.create_engine(dialect(migrated_url, "psycopg"))
    session = sa_orm.Session(engine)
    job = send_receipt.on(session).enqueue(1)
    del session
    gc.collect()
    (text,) = warned()
    assert text.startswith(f"send_receipt {job.id}: enqueued")
    assert "was never closed without a commit" not in text
    assert "was neither closed nor committed" in text
    engine.dispose()


def test_a_session_that_lives_on_is_watched_again(
    migrated_url: str, send_receipt: Task[..., None], warned: Any
) -> None:
    engine = sa.create_engine(dialect(migrated_url, "psycopg"))
    session = sa_orm.Session(engine)
    for _ in range(3):
        send_receipt.on(session).enqueue(1)
        session.commit()
    send_receipt.on(session).enqueue(1)
    session.close()
    assert len(warned()) == 1
    engine.dispose()


@asynccontextmanager
async def begun(opened: Any) -> AsyncIterator[None]:
    async with entered(opened.begin()):
        yield


@asynccontextmanager
async def nested(opened: Any) -> AsyncIterator[None]:
    async with entered(opened.begin_nested()):
        yield


@asynccontextmanager
async def entered(manager: Any) -> AsyncIterator[None]:
    if hasattr(manager, "__aenter__"):
        async with manager:
            yield
    else:
        with manager:
            yield
