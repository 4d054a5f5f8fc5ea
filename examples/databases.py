"""Two databases and a folder for the bus: for examples with two services."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import asyncpg

from holdfast.embedded import EmbeddedPostgres


@contextmanager
def two_databases(*variables: str) -> Iterator[None]:
    """Set these variables to the addresses of empty databases, unless they are set."""
    with ExitStack() as stack:
        os.environ.setdefault("BUS_FOLDER", stack.enter_context(tempfile.TemporaryDirectory()))
        if not all(variable in os.environ for variable in variables):
            server = stack.enter_context(EmbeddedPostgres())
            for variable in variables:
                name = variable.removesuffix("_DATABASE_URL").lower()
                asyncio.run(_create(server.url, name))
                os.environ[variable] = server.url_for(name)
        yield


async def _create(url: str, name: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"create database {name}")
    await connection.close()
