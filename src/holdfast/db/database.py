"""One installation, and how to connect to it."""

from __future__ import annotations

import socket
import ssl
from asyncio.trsock import TransportSocket
from contextlib import suppress
from typing import Any

import asyncpg
import msgspec

from ..errors import ConfigurationError, Unreachable
from ..model.limits import check_schema
from . import pooler, urls
from .statements import statement

NAMES = {
    # No name is looked up in a schema that others can write to: asyncpg's own statements rely on this setting. Ours do
    # not, because of poolers and of callers' connections.
    "search_path": "pg_catalog, pg_temp",
    # So that each statement in a function sees what was just committed, whatever the role's default is.
    "default_transaction_isolation": "read committed",
}
PLANNER = {
    # A queue's table can be empty when it is analysed and huge ten minutes later. These keep the index plans.
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
"""The same, for the rest of a transaction."""

CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 60.0
LONGEST_IDLE = 2**31 - 1
"""Milliseconds: the maximum of the setting. 0 means no limit."""

SESSION = {
    # If our host vanishes, the server drops the session, and its locks, after half a minute. Ignored on a Unix-domain
    # socket.
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30000",
    # The kernel keeps the sockets of a stopped process alive. We never pause for this long in a transaction.
    "idle_in_transaction_session_timeout": str(int(COMMAND_TIMEOUT * 1000)),
}


def end_if_idle(seconds: float) -> str:
    """Return a setting for the rest of a transaction: a client that goes silent in it loses its session and locks."""
    milliseconds = seconds * 1000
    return f"set local idle_in_transaction_session_timeout = {int(milliseconds) if milliseconds < LONGEST_IDLE else 0}"


def words(error: BaseException) -> str:
    """Return the text of an error in one line. The server's DETAIL and HINT come in separate lines."""
    return " ".join(str(error).split())


def in_one_line(error: BaseException) -> str:
    """Return an error for the log."""
    return f"{type(error).__name__}: {words(error)}"


def name_session(name: str) -> str:
    """Return a setting for the rest of a transaction: the session's name. The name is ours, and needs no quoting."""
    return f"set local application_name = '{name}'"


Connection = asyncpg.Connection


def cut_off(connection: Connection) -> None:
    """End the session of a connection whose event loop is closed, and which can therefore not be closed any more.

    The server sees the end of the stream. The descriptor is freed with the connection. (uvloop has closed it already.)
    """
    transport = getattr(connection, "_transport", None)
    stream = transport.get_extra_info("socket") if transport is not None else None
    if isinstance(stream, TransportSocket):
        with suppress(OSError):  # the server has closed it
            stream.shutdown(socket.SHUT_RDWR)


BAD_SETTING = (asyncpg.UndefinedObjectError, asyncpg.CantChangeRuntimeParamError, asyncpg.InvalidParameterValueError)
"""At a login, these errors are about the settings that were sent with it."""

REMEDY = "Connect as the role that migrated, or grant what is missing; see docs/sql.md#roles"
"""For a missing privilege."""


class Database(msgspec.Struct, frozen=True):
    """One installation: a database URL and a schema in it."""

    url: str | None
    """None means libpq's PG* variables."""
    schema: str = "holdfast"
    pooler: bool = False
    """Behind a transaction pooler: see `pooler`."""

    def __post_init__(self) -> None:
        check_schema(self.schema)

    def sql(self, room: str, name: str) -> str:
        return statement(room, name, self.schema)

    async def connect(self, purpose: str, planner: bool = False, timeout: float = CONNECT_TIMEOUT) -> Connection:
        """Open a connection; `planner` pins the plans of a worker's statements."""
        name = {"application_name": f"holdfast {purpose}"}
        try:
            try:
                connection = await self._log_in({**name, **SESSION, **NAMES, **(PLANNER if planner else {})}, timeout)
            except asyncpg.ProtocolViolationError as error:
                if self.pooler or planner or not pooler.takes_no_settings(error):
                    raise
                # A pooler that was not configured. In session mode, producers can work without the settings.
                connection = await self._log_in(name, timeout)
        except BAD_SETTING as error:
            raise ConfigurationError(
                f"The server at {self.shown} rejected the URL's options: {error.message}"
            ) from None
        except Exception as error:
            if (refusal := self.refusal(error)) is not None:
                raise refusal from None
            if isinstance(error, OSError):  # including TimeoutError
                raise self.unreachable(error) from error
            raise
        if self.pooler:
            await pooler.tame(connection)
        return connection

    async def _log_in(self, settings: dict[str, str], timeout: float) -> Connection:
        connection: Connection = await asyncpg.connect(
            self.url,
            timeout=min(timeout, CONNECT_TIMEOUT),
            command_timeout=COMMAND_TIMEOUT,
            **(pooler.arguments() if self.pooler else {"server_settings": settings}),
        )
        return connection

    def pool(self, purpose: str, **arguments: Any) -> asyncpg.Pool[asyncpg.Record]:
        """Return a pool that starts empty; `arguments` are asyncpg's."""
        if self.pooler:
            arguments |= {**pooler.arguments(), "init": pooler.tame, "reset": pooler.keep}
        else:
            arguments |= {"server_settings": {"application_name": f"holdfast {purpose}", **SESSION}}
        return asyncpg.create_pool(self.url, min_size=0, timeout=CONNECT_TIMEOUT, **arguments)

    def refusal(self, error: BaseException) -> ConfigurationError | None:
        """Return the error for an answer that a retry does not change; None for all other errors."""
        match error:
            case asyncpg.InvalidCatalogNameError():
                return self._wrong(words(error), "Create it with createdb, or correct the URL")
            case asyncpg.InsufficientPrivilegeError():
                return self._wrong(f"{error.message}", REMEDY)
            case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
                return ConfigurationError(
                    f"The server at {self.shown} rejected the login: {words(error)}{urls.advice(self.url)}"
                )
            case asyncpg.ClientConfigurationError():
                return self._wrong(words(error), "Correct the URL")
            case ssl.SSLCertVerificationError():
                return self._wrong(
                    f"the server's certificate: {error.verify_message}", "Correct the URL's sslrootcert or sslmode"
                )
            case ConnectionError() if "rejected SSL upgrade" in str(error):
                return self._wrong(
                    "the server has no SSL, but sslmode requires it", "Turn SSL on there, or correct the URL"
                )
        return self._refusal_of_pooler(error) if pooler.refuses(error) else None

    def _refusal_of_pooler(self, error: BaseException) -> ConfigurationError:
        if pooler.takes_no_settings(error):
            remedy = (
                "Remove options from the URL"
                if self.pooler
                else "Set Holdfast(pooler=True), HOLDFAST_POOLER=1 or --pooler"
            )
            return ConfigurationError(
                f"There is a pooler at {self.shown}, which does not pass settings on ({words(error)}). {remedy}."
            )
        if "permission denied" in str(error):
            return self._wrong(words(error), REMEDY)
        if pooler.knows_no_database(error):
            return self._wrong(words(error), "Create it with createdb, or correct the URL")
        return ConfigurationError(f"The server at {self.shown} rejected the login: {words(error)}")

    def _wrong(self, what: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(f"{what} (at {self.shown}). {remedy}{urls.advice(self.url)}.")

    def unreachable(self, error: BaseException) -> Unreachable:
        """Return the error for a server that did not answer, with its URL."""
        silent = isinstance(error, TimeoutError)
        why = "no answer within the deadline" if silent else in_one_line(error)
        return Unreachable(f"cannot reach the server at {self.shown}: {why}{urls.advice(self.url)}", silent=silent)

    @property
    def shown(self) -> str:
        """The URL without its secrets."""
        return urls.shown(self.url)
