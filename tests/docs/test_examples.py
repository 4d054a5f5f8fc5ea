"""The examples, run as their pages say."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from examples import frameworks
from examples.fence import store
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from tests.support.pages import ROOT
from tests.support.pooler import direct

from holdfast import LeaseLost

pytestmark = pytest.mark.timeout(300)  # each starts Python, some of them many times


def run(module: str, url: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=ROOT, env={**os.environ, "HOLDFAST_DATABASE_URL": url, **more}, capture_output=True, text=True, timeout=290,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_checkout(database_url: str) -> None:
    # A producer's connection of its own, which keeps prepared statements.
    assert run("examples.checkout", direct(database_url)).splitlines()[-3:] == [
        "orders  [9181, 9182, 9183]",
        "mail    [9181, 9182, 9183]",
        "ledger  [9181, 9182, 9183]",
    ]


def test_django(database_url: str) -> None:
    assert run("examples.django", direct(database_url)).splitlines()[-3:] == [
        "ada@example.org  paid=True   receipts=1",
        "bob@example.org  paid=True   receipts=1",
        "eve@example.org  paid=False  receipts=0",
    ]


def test_workflows(database_url: str) -> None:
    assert run("examples.workflows", direct(database_url)).splitlines() == [
        "checkout:9182  shipped with DHL",
        "checkout:9183  cancelled and undone: 9 of 10 lamps are free, 1 order is paid",
        "purchase:1     approved by Ada",
        "album:1        1000 pages, 1499500 bytes",
        "invoice:7      paid after 0 days",
    ]


def test_projection(migrated_url: str, second_url: str) -> None:
    said = run(
        "examples.projection", "",
        SHOP_DATABASE_URL=direct(migrated_url), REPORTS_DATABASE_URL=direct(second_url),
    )  # fmt: skip
    assert said.splitlines() == [
        "sales       [('a', 5, 2800), ('b', 5, 3100), ('c', 5, 1600), ('d', 5, 3700)]",
        "redelivered the same",
        "rebuilt     the same (38 events)",
        "sales       [('a', 7, 5600), ('b', 8, 6000), ('c', 8, 6400), ('d', 7, 6000)]",
        "rebuilt     the same",
    ]


@pytest.mark.faults
def test_saga(migrated_url: str, second_url: str) -> None:
    said = run(
        "examples.saga", "",
        ORDERS_DATABASE_URL=direct(migrated_url), PAYMENTS_DATABASE_URL=direct(second_url),
    )  # fmt: skip
    assert said.splitlines()[-3:] == [
        "orders  20 paid + 10 cancelled = 30",
        "items   80 free + 20 sold = 100",
        "money   9000 in accounts + 31000 taken = 40000; orders of 31000 are paid",
    ]


@pytest.mark.faults
def test_fence(database_url: str) -> None:
    said = run("examples.fence", database_url)
    assert "the first worker continued: old: terms was written under a later fence than 1" in said
    assert "the document is ('new', " in said


def test_the_guard(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    store.create(file)
    store.write(file, "a", "one", 7)
    store.write(file, "a", "one again", 7)
    store.write(file, "a", "two", 9)
    with pytest.raises(LeaseLost):
        store.write(file, "a", "stale", 8)
    store.write(file, "b", "another document", 8)
    assert store.read(file, "a") == ("two", 9)


async def test_sqlalchemy(migrated_url: str) -> None:
    with psycopg.connect(direct(migrated_url), autocommit=True) as connection:
        connection.execute("create table orders (id int primary key)")
    for driver in ("psycopg", "asyncpg"):
        address = direct(migrated_url).replace("postgresql://", f"postgresql+{driver}://")
        engine = create_async_engine(address)
        async with AsyncSession(engine) as asynchronous, asynchronous.begin():
            await frameworks.pay_async(asynchronous, {"psycopg": 3, "asyncpg": 4}[driver])
        await engine.dispose()
    sync_engine = create_engine(direct(migrated_url).replace("postgresql://", "postgresql+psycopg://"))
    with Session(sync_engine) as session, session.begin():
        frameworks.pay(session, 1)
    with Session(sync_engine) as session:
        frameworks.pay(session, 2)
        session.rollback()
    sync_engine.dispose()
    with psycopg.connect(direct(migrated_url)) as connection:
        rows = connection.execute("select payload ->> 'order_id' from holdfast.inbox order by seq").fetchall()
        assert [row[0] for row in rows] == ["3", "4", "1"]
