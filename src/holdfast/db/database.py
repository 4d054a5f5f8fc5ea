"""Where the server is, and how to connect to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from ..errors import ConfigurationError
from ..model.limits import check_schema
from . import pooler
from .statements import statement

PLANNER = {
    # A queue's table is empty when it is analysed and huge ten minutes later. These keep the index plans.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "enable_material": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}
PIN_PLANS = "; ".join(f"set local {name} = {value}" for name, value in PLANNER.items())
"""The same for the rest of a transaction."""

CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 60.0

Connection = asyncpg.Connection

REFUSALS = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)
"""Answers to a login that asking again does not change."""


@dataclass(frozen=True, slots=True)
class Database:
    """One installation: a server's address and a schema in it."""

    url: str | None
    """None: libpq's PG* variables."""
    schema: str = "holdfast"
    pooler: bool = False
    """Behind a transaction pooler: see `pooler`."""

    def __post_init__(self) -> None:
        check_schema(self.schema)

    def sql(self, room: str, name: str) -> str:
        return statement(room, name, self.schema)

    async def connect(self, purpose: str, planner: bool = False, timeout: float = CONNECT_TIMEOUT) -> Connection:
        """A new connection; `planner` pins the plans of a worker's statements."""
        settings = {"application_name": f"holdfast {purpose}", **(PLANNER if planner else {})}
        try:
            connection: Connection = await asyncpg.connect(
                self.url,
                timeout=min(timeout, CONNECT_TIMEOUT),
                command_timeout=COMMAND_TIMEOUT,
                **(pooler.arguments() if self.pooler else {"server_settings": settings}),
            )
        except asyncpg.PostgresError as error:
            if refused := self.refusal(error):
                raise refused from None
            raise
        if self.pooler:
            await pooler.tame(connection)
        return connection

    def pool(self, **arguments: Any) -> asyncpg.Pool[asyncpg.Record]:
        """A pool of connections that grows from none; `arguments` are asyncpg's."""
        if self.pooler:
            arguments |= {**pooler.arguments(), "init": pooler.tame, "reset": pooler.keep}
        return asyncpg.create_pool(self.url, min_size=0, timeout=CONNECT_TIMEOUT, **arguments)

    def refusal(self, error: BaseException) -> ConfigurationError | None:
        """What to tell of an answer to a login that asking again does not change; None: it is another error."""
        if not isinstance(error, REFUSALS) and not pooler.refuses(error):
            return None
        if "unsupported startup parameter" in str(error):
            return ConfigurationError(
                f"There is a pooler at {self.shown}, which passes no settings on ({error}). "
                "Say that it is one: Holdfast(pooler=True), HOLDFAST_POOLER=1 or --pooler."
            )
        if isinstance(error, asyncpg.InvalidCatalogNameError) or pooler.knows_no_database(error):
            return ConfigurationError(f"{error} (at {self.shown}). Create it with createdb, or correct the URL.")
        return ConfigurationError(f"The server at {self.shown} refused to log us in: {error}")

    @property
    def shown(self) -> str:
        """The address without its secrets."""
        return hide_password(self.url) if self.url else "the address in PGHOST, PGPORT, PGDATABASE"


def resolve_url(url: str | None = None) -> str | None:
    """The address given, else HOLDFAST_DATABASE_URL, else DATABASE_URL, else None for libpq's PG* variables."""
    found = url or os.environ.get("HOLDFAST_DATABASE_URL") or os.environ.get("DATABASE_URL")
    if found is None:
        return None
    scheme, separator, rest = found.partition("://")
    if not separator or scheme.split("+")[0] not in {"postgresql", "postgres"}:
        # What came is not quoted: it may hold a password.
        raise ConfigurationError("the database URL: expected postgresql://user@host/name, got something else")
    address = f"postgresql://{rest}"
    _check_address(address)
    return address


def resolve_pooler(pooler: bool | None = None) -> bool:
    """Whether there is a transaction pooler in between: what was said, else HOLDFAST_POOLER, else no."""
    if pooler is not None:
        return pooler
    word = os.environ.get("HOLDFAST_POOLER", "")
    if word.lower() not in _YES | _NO:
        raise ConfigurationError(f"HOLDFAST_POOLER: expected 1 or 0, got {word!r}")
    return word.lower() in _YES


_YES, _NO = {"1", "true", "yes", "on"}, {"", "0", "false", "no", "off"}


def _check_address(address: str) -> None:
    """Refuse what could only be misread; in words that quote nothing of it."""
    try:
        parts = urlsplit(address)
        _ = parts.port if "," not in parts.netloc else None
    except ValueError:
        misread = True
    else:
        misread = bool(parts.fragment) or "@" in parts.path
    if misread:
        raise ConfigurationError(
            "the database URL: expected postgresql://user:password@host:port/name, got one that cannot be read so; "
            "write / # ? @ : in a password as %2F %23 %3F %40 %3A"
        )


def hide_password(url: str) -> str:
    """For messages and logs."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return urlunsplit(parts._replace(query=""))
    login, _, place = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    return urlunsplit(parts._replace(netloc=f"{user}{':***' if colon else ''}@{place}", query=""))
