"""Which databases may be changed, what `clean` leaves, and that no session keeps a database from being dropped."""

import asyncio
import gc
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from tests.conftest import migrated
from tests.support.databases import Server
from tests.support.pooler import direct
from tests.support.workers import Inbox

from holdfast import ConfigurationError, Context, Holdfast, TxContext
from holdfast.db.link import Link
from holdfast.testing import (
    assert_enqueued_sync,
    clean,
    clean_sync,
    drain,
    drain_sync,
    fire_schedules,
    frozen_clock,
    use_database,
)
from holdfast.testing.databases import TEST_NAME
from holdfast.testing.sessions import HandlerTransactions


@pytest.mark.parametrize(
    "name", ["test", "shop_test", "test_shop", "shop-tests-1", "TestShop_test", "test1", "a.testing"]
)
def test_names_of_test_databases(name: str) -> None:
    assert TEST_NAME.search(name)


@pytest.mark.parametrize("name", ["shop", "contest", "latest", "attested_shop", "protests", "shop_production"])
def test_other_names(name: str) -> None:
    assert TEST_NAME.search(name) is None


def admin(server: Server, statement: str, name: str) -> None:
    with psycopg.connect(direct(server.url), autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name), sql.Identifier(migrated(server))))


def at(server: Server, name: str) -> str:
    return urlunsplit(urlsplit(server.url)._replace(path=f"/{name}"))


@pytest.fixture
def production_url(postgres: Server) -> Iterator[str]:
    """A database with an ordinary name."""
    name = f"shop_{secrets.token_hex(6)}"
    admin(postgres, "create database {} template {}", name)
    yield at(postgres, name)
    admin(postgres, "drop database {0} with (force)", name)


async def test_other_databases_are_left_alone(production_url: str) -> None:
    hf = Holdfast(production_url)

    @hf.task
    async def job() -> None: ...

    await job.enqueue()
    for change in (
        lambda: drain(hf),
        lambda: clean(hf),
        lambda: frozen_clock(hf).__aenter__(),
        lambda: fire_schedules(hf),
    ):
        with pytest.raises(
            ConfigurationError, match=r"changes only databases for tests, and 'shop_\w+' \(at .*\) does"
        ):
            await change()
    with psycopg.connect(direct(production_url)) as connection:
        assert connection.execute("select count(*) from holdfast.inbox where status = 'pending'").fetchone() == (1,)
        connection.execute("insert into holdfast.settings (name, value) values ('testing', 'true')")
    assert len(await drain(hf)) == 1
    await clean(hf)
    await hf.close()


async def test_not_below_the_feet_of_workers(hf: Holdfast, inbox: Inbox) -> None:
    inbox.rows(
        "insert into holdfast.workers (id, status, metadata) values ('ours', 'alive', "
        f'\'{{"host": "{socket.gethostname()}", "pid": {os.getpid()}}}\')'
    )
    await clean(hf)
    async with frozen_clock(hf):
        pass
    inbox.rows(
        "insert into holdfast.workers (id, status, metadata) values ('another', 'alive', "
        f'\'{{"host": "{socket.gethostname()}", "pid": {os.getpid() + 1}}}\')'
    )
    for change in (lambda: clean(hf), lambda: frozen_clock(hf).__aenter__()):
        with pytest.raises(ConfigurationError, match=r"1 live worker of other processes use .*: another"):
            await change()


async def test_clean(hf: Holdfast, inbox: Inbox) -> None:
    @hf.every("1h")
    @hf.task
    async def job(ctx: Context) -> None:
        async with ctx.once("effect"):
            pass

    await hf.set_queue("q", ordered=True)
    await hf.pause("q")
    await job.options(idempotency_key="k").enqueue()
    await job.options(unique_key="u", delay="1h").enqueue()
    await fire_schedules(hf)
    await drain(hf)
    tables = ("inbox", "archive", "dedupe", "once", "kinds", "schedules")
    assert all(inbox.one(f"select count(*) from holdfast.{table}") > 0 for table in tables)
    await clean(hf)
    assert {table: inbox.one(f"select count(*) from holdfast.{table}") for table in tables} == dict.fromkeys(tables, 0)
    assert inbox.rows("select ordered, paused_at from holdfast.queues where name = 'q'") == [
        {"ordered": True, "paused_at": None}
    ]
    again = await job.options(idempotency_key="k").enqueue()
    assert not again.existed


async def test_clean_says_who_is_in_the_way(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def job() -> None: ...

    await job.enqueue()
    with psycopg.connect(direct(inbox.url)) as other:
        other.execute("select from holdfast.inbox for update")
        with pytest.raises(ConfigurationError, match="another session has kept jobs locked for 5 s"):
            await clean(hf)


async def test_clean_puts_the_real_clock_back(hf: Holdfast, inbox: Inbox) -> None:
    before = inbox.one("select pg_get_functiondef('holdfast.clock'::regproc)")
    await frozen_clock(hf).__aenter__()
    assert inbox.one("select pg_get_functiondef('holdfast.clock'::regproc)") != before
    other = Holdfast(inbox.url)
    await clean(other)
    await other.close()
    assert inbox.one("select pg_get_functiondef('holdfast.clock'::regproc)") == before


# No session is left behind


@pytest.fixture
def own_database(postgres: Server) -> str:
    """The name of a database that the test drops itself, without force."""
    name = f"holdfast_test_{secrets.token_hex(6)}"
    admin(postgres, "create database {} template {}", name)
    return name


@pytest.mark.direct
async def test_after_close_the_database_can_be_dropped(postgres: Server, own_database: str) -> None:
    hf = Holdfast(at(postgres, own_database))

    @hf.task
    async def job(ctx: TxContext) -> None:
        await ctx.tx.execute("select 1")

    @hf.task
    def plain(ctx: Context) -> None:
        with ctx.once("effect"):
            pass

    async with frozen_clock(hf):
        await asyncio.gather(*(job.enqueue() for _ in range(5)))
        await plain.enqueue()
        assert len(await drain(hf)) == 6
    await asyncio.to_thread(plain.enqueue_sync)
    assert len(await asyncio.to_thread(drain_sync, hf)) == 1
    async with hf.worker():
        await (await plain.enqueue()).result(timeout="60s")
    await hf.close()
    admin(postgres, "drop database {0}", own_database)


@pytest.mark.direct
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_after_event_loops_were_closed_first(postgres: Server, own_database: str) -> None:
    """As under plugins that give each test an event loop, with an application that is closed at the very end."""
    hf = Holdfast(at(postgres, own_database))

    @hf.task
    async def job(ctx: TxContext) -> None: ...

    kept: list[object] = []

    async def use() -> None:
        await job.enqueue()
        await drain(hf)
        # So that no garbage collection helps.
        kept.extend(connection for each in hf._calls._connections.values() for connection, _ in each._idle)
        for sessions in hf._calls._kept.values():
            link: Any = sessions[Link]
            transactions: Any = sessions[HandlerTransactions]
            kept.append(link._connection)
            kept.extend(holder._con for holder in transactions._pool._holders if holder._con is not None)

    for _ in range(3):
        asyncio.run(use())
    hf.close_sync()
    assert len(kept) >= 9
    admin(postgres, "drop database {0}", own_database)
    kept.clear()
    gc.collect()  # here, where its warnings are expected


@pytest.mark.direct
def test_with_sessions_of_sqlalchemy(postgres: Server, own_database: str) -> None:
    url = at(postgres, own_database)
    hf = Holdfast()

    @hf.task
    def job() -> None:
        with Session(engine) as session:
            session.connection()

    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with use_database(hf, url):
        with Session(engine) as session, session.begin():
            job.on(session).enqueue()
            assert_enqueued_sync(job, on=session)
        assert len(drain_sync(hf)) == 1
        clean_sync(hf)
    engine.dispose()
    admin(postgres, "drop database {0}", own_database)


DJANGO = """
import sys, threading
import django
from django.conf import settings
from urllib.parse import urlsplit, unquote

url = sys.argv[1]
parts = urlsplit(url)
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], "USER": parts.username,
    "PASSWORD": unquote(parts.password or ""), "HOST": parts.hostname, "PORT": parts.port}})
django.setup()
from django.db import connection, connections, transaction
from holdfast import Holdfast
from holdfast.testing import assert_enqueued_sync, drain_sync

hf = Holdfast(url)
seen = []

@hf.task
def job() -> None:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        seen.append(cursor.fetchone()[0])

with transaction.atomic():
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        mine = cursor.fetchone()[0]
    job.on(connection).enqueue()
    assert_enqueued_sync(job, on=connection, count=1)
assert len(drain_sync(hf)) == 1
assert seen == [mine], "the handler has used the connection of the test"
hf.close_sync()
connections.close_all()
import psycopg
with psycopg.connect(sys.argv[2], autocommit=True) as admin:
    admin.execute("drop database " + parts.path[1:])
print("dropped")
"""


@pytest.mark.direct
def test_with_connections_of_django(postgres: Server, own_database: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DJANGO, at(postgres, own_database), postgres.url],
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.stdout == "dropped\n", done.stderr


async def test_use_database(inbox: Inbox, postgres: Server) -> None:
    hf = Holdfast(inbox.url)

    @hf.task
    async def job() -> None: ...

    await job.enqueue()
    with postgres.database(migrated(postgres)) as url:
        async with use_database(hf, url):
            assert len(await drain(hf)) == 0
            await job.enqueue()
            assert len(await drain(hf)) == 1
    assert len(await drain(hf)) == 1
    await hf.close()
