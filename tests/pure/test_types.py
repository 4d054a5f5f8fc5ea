"""What a type checker sees: mypy --strict on a user's file, every line of it with its expectation.

`#> text` expects the revealed type to be, or the error to contain, that text; a line without it must be clean.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SNIPPET = """
from typing import Any

import asyncpg
import psycopg
from django.db import connection as django_connection
from psycopg.rows import TupleRow
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from holdfast import Context, Fail, Flow, Holdfast, Sleep, Step, TxContext

hf = Holdfast()


@hf.task
def plain(order_id: int, note: str = "") -> int:
    return order_id


@hf.task(queue="mail", max_attempts=5, timeout="30s")
async def told(ctx: Context, order_id: int) -> str:
    return ""


@hf.task
async def writes(ctx: TxContext, order_id: int) -> None: ...


@hf.task
async def nothing(ctx: Context) -> None: ...


# Called as written
reveal_type(plain(1))  #> int
plain("1")  #> incompatible type "str"; expected "int"
plain()  #> Missing positional argument "order_id"
plain.options(key="a")(1)


async def direct(ctx: Context, tx: TxContext) -> None:
    reveal_type(await told(ctx, 1))  #> str
    await told(tx, order_id=1)
    await told(1)  #> incompatible type "int"; expected "Context"
    await told(ctx, "1")  #> incompatible type "str"; expected "int"
    await writes(tx, 1)
    await writes(ctx, 1)  #> incompatible type "Context"; expected "TxContext"
    await nothing(ctx)


reveal_type(told)  #> holdfast.tasks.ContextTask[[order_id: int], typing.Coroutine[Any, Any, str]]
reveal_type(writes)  #> holdfast.tasks.TxTask[[order_id: int], typing.Coroutine[Any, Any, None]]


# Enqueue's signature is the function's without ctx
async def own() -> None:
    reveal_type(await plain.enqueue(1, note="x"))  #> holdfast.job.Job
    reveal_type(await told.enqueue(order_id=1))  #> holdfast.job.Job
    reveal_type(plain.enqueue_sync(1))  #> holdfast.job.Job
    reveal_type(await plain.enqueue_many([{"order_id": 1}]))  #> list[holdfast.job.Job]
    await nothing.enqueue()
    reveal_type(await hf.enqueue_many([plain.job(1), told.options(key="a").job(order_id=1)]))  #> list[holdfast.job.Job]
    plain.job("1")  #> incompatible type "str"; expected "int"
    reveal_type(await (await plain.enqueue(1)).status())  #> str
    reveal_type(plain.enqueue_sync(1).status_sync())  #> str
    await told.options(key="order:1", delay="5m").enqueue(order_id=1)
    await plain.enqueue("1")  #> incompatible type "str"; expected "int"
    await plain.enqueue()  #> Missing positional argument "order_id"
    await plain.enqueue(1, colour="red")  #> Unexpected keyword argument "colour"
    await told.enqueue(1, 2)  #> Too many arguments
    await writes.enqueue(order_id="1")  #> incompatible type "str"; expected "int"
    await told.options(prio=1).enqueue(order_id=1)  #> Unexpected keyword argument "prio"
    await told.options(priority="high").enqueue(order_id=1)  #> incompatible type "str"; expected "int | None"


# Awaitable exactly when the connection is
async def awaited(
    pg: "asyncpg.Connection[asyncpg.Record]",
    pool: "asyncpg.Pool[asyncpg.Record]",
    apg: psycopg.AsyncConnection[TupleRow],
    session: AsyncSession,
    connection: AsyncConnection,
) -> None:
    reveal_type(await told.on(pg, key="a").enqueue(order_id=1))  #> holdfast.job.Job
    w1 = reveal_type(told.on(apg).enqueue(order_id=1))  #> typing.Coroutine[Any, Any, holdfast.job.Job]
    w2 = reveal_type(told.on(session).enqueue(order_id=1))  #> typing.Coroutine[Any, Any, holdfast.job.Job]
    w3 = reveal_type(told.on(connection).enqueue(order_id=1))  #> typing.Coroutine[Any, Any, holdfast.job.Job]
    async with pool.acquire() as proxy:
        w4 = reveal_type(told.on(proxy).enqueue(order_id=1))  #> typing.Coroutine[Any, Any, holdfast.job.Job]
    reveal_type(await hf.on(pg).enqueue_many([plain.job(1)]))  #> list[holdfast.job.Job]
    told.on(pg).enqueue(order_id=1)  #> Are you missing an await?
    await told.on(pg).enqueue(order_id="1")  #> incompatible type "str"; expected "int"
    reveal_type(await told.on(pg).enqueue_many([{"order_id": 1}]))  #> list[holdfast.job.Job]


def at_once(pg: psycopg.Connection[TupleRow], session: Session, connection: Connection) -> None:
    reveal_type(told.on(pg, key="a").enqueue(order_id=1))  #> holdfast.job.Job
    reveal_type(told.on(session).enqueue(order_id=1))  #> holdfast.job.Job
    reveal_type(told.on(connection).enqueue(order_id=1))  #> holdfast.job.Job
    reveal_type(told.on(session).enqueue_many([{"order_id": 1}]))  #> list[holdfast.job.Job]
    reveal_type(hf.on(session).enqueue_many([plain.job(1)]))  #> list[holdfast.job.Job]
    told.on(session).enqueue()  #> Missing positional argument "order_id"


# Workflows: started with what follows the flow, and results of their type
@hf.workflow(version=2, queue="orders")
async def checkout(flow: Flow, order_id: int) -> str:
    return ""


@hf.workflow
async def refused(flow: Flow) -> int | Fail:
    return Fail("no")


@checkout.version(1)
async def checkout_1(flow: Flow, order: str) -> str:
    return order


async def starting(pg: "asyncpg.Connection[asyncpg.Record]") -> None:
    reveal_type(await checkout.options(id="a").start(order_id=1))  #> holdfast.workflows.Instance[str]
    reveal_type(await (await checkout.start(1)).result(timeout="1s"))  #> str
    reveal_type(await (await refused.start()).result())  #> int
    reveal_type(checkout.start_sync(1).id)  #> str
    reveal_type(await checkout.start_many([{"order_id": 1}], ids=["a"]))  #> list[holdfast.workflows.Instance[str]]
    reveal_type(await checkout.on(pg, id="a").start(order_id=1))  #> holdfast.workflows.Instance[str]
    await checkout.start("1")  #> incompatible type "str"; expected "int"
    await checkout.start()  #> Missing positional argument "order_id"
    await checkout.options(idempotency_key="a").start(1)  #> Unexpected keyword argument "idempotency_key"
    await hf.enqueue_many([checkout.job(1)])
    reveal_type(await hf.on(pg).signal("a", "shipped", {"carrier": "DHL"}))  #> holdfast.instances.Signalled
    table = hf.table("t", 1, [Step("plain", plain, "nap"), Sleep("nap", "1d")])
    reveal_type(table)  #> holdfast.workflows.Workflow[..., Any]


def starting_at_once(pg: psycopg.Connection[TupleRow]) -> None:
    reveal_type(checkout.on(pg, id="a").start(1))  #> holdfast.workflows.Instance[str]
    reveal_type(hf.on(pg).signal("a", "shipped"))  #> holdfast.instances.Signalled


@told.upcast(from_version=1)
def more(payload: dict[str, Any]) -> dict[str, Any]:
    return payload
"""


@pytest.mark.timeout(300)
def test_a_type_checker_sees_what_the_documentation_says(tmp_path: Path) -> None:
    file = tmp_path / "user.py"
    file.write_text(SNIPPET)
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\n[mypy-django.*]\nignore_missing_imports = True\n")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", tmp_path / "cache", "--no-pretty", file],
        capture_output=True,
        text=True,
    )
    said: dict[int, str] = {}
    for line in ran.stdout.splitlines():
        if found := re.match(r".*user\.py:(\d+): (?:error|note): (.*)", line):
            said[int(found[1])] = said.get(int(found[1]), "") + found[2].replace("builtins.", "") + " "
    for number, line in enumerate(SNIPPET.splitlines(), 1):
        code, expects, expected = line.partition("  #> ")
        found_here = said.pop(number, "")
        if expects:
            shown = re.sub(r'^Revealed type is "(.*)" $', r"\1", found_here)
            exact = "reveal_type(" in code
            assert shown == expected if exact else expected in shown, f"line {number}: {code}\n{found_here}"
        else:
            assert not found_here, f"line {number}: {code}\n{found_here}"
    assert not said, ran.stdout + ran.stderr
    assert "Found" in ran.stdout, ran.stdout + ran.stderr
