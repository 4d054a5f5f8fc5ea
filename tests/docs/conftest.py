"""Run the code of a page: its own database, its own namespace, from top to bottom."""

import ast
import asyncio
import inspect
from typing import Any

import psycopg
from psycopg import sql as composed
from tests.support.pages import Block
from tests.support.pooler import direct

from holdfast import Holdfast


async def run_jobs(app: Holdfast) -> None:
    """Work off everything that is due, as a worker would."""
    async with app.worker(concurrency=4, poll=0.02):
        async with asyncio.timeout(90):
            while await _open_jobs(app):
                await asyncio.sleep(0.01)


async def _open_jobs(app: Holdfast) -> int:
    return sum(row["due"] + row["processing"] for row in await app._calls.run("views", "queues"))


async def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a block that may await at its top level."""
    code = compile(block.placed, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    # Async code at the top level makes the whole block a coroutine.
    result = eval(code, names)
    if inspect.iscoroutine(result):
        await result


def run_sql(block: Block, url: str) -> None:
    """Run a block of statements; those with parameters are prepared, which checks all but their values."""
    with psycopg.connect(direct(url), autocommit=True) as connection:
        if "$1" not in block.text:
            connection.execute(composed.SQL(block.text), prepare=False)
            return
        for number, statement in enumerate(filter(None, (part.strip() for part in block.text.split(";")))):
            connection.execute(composed.SQL(f"prepare s{number} as {statement}"))
