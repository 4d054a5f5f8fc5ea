"""Databases that others fill: the schema once, in a template, and a fresh copy of it for every repeat."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from .ground import Ground


class Databases:
    """Of one run. All that it has made is dropped at the end."""

    def __init__(self, url: str, admin: asyncpg.Connection) -> None:
        self._url = url
        self._admin = admin

    @classmethod
    @asynccontextmanager
    async def on(cls, ground: Ground) -> AsyncIterator[Databases]:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(ground.database())
            admin = await asyncpg.connect(url)
            stack.push_async_callback(admin.close)
            yield cls(url, admin)

    @asynccontextmanager
    async def fresh(self, template: str = "template0") -> AsyncIterator[str]:
        """The address of a copy of the template, which nobody may be connected to; dropped at the end."""
        name = f"holdfast_bench_copy_{secrets.token_hex(4)}"
        await self._admin.execute(f"create database {name} template {name_in(template)}")
        try:
            yield urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))
        finally:
            await self._admin.execute(f"drop database if exists {name} with (force)")


def name_in(address: str) -> str:
    """The database's name, of its address or as it is."""
    return urlsplit(address).path.lstrip("/")
