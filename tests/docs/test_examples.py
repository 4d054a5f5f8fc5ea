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


def run(module: str, url: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=ROOT, env={**os.environ, "HOLDFAST_DATABASE_URL": url}, capture_output=True, text=True, timeout=100,
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
