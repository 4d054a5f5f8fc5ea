"""Where the server is, and how to connect to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

import asyncpg

from ..errors import ConfigurationError, Unreachable
from ..model.limits import check_schema
from . import pooler, urls
from .statements import statement

NAMES = {
    # Nothing is looked up by name where others can put something: asyncpg's own statements rely on it. Ours do not, for
    # the sake of poolers and of callers' connections.
    "search_path": "pg_catalog, pg_temp",
    # A statement of a function sees what was committed a moment ago, whatever the role's default is.
    "default_transaction_isolation": "read committed",
}
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
LONGEST_IDLE = 2**31 - 1
"""Milliseconds: more is not to be had, and 0 is no limit."""

SESSION = {
    # A host that vanished says nothing. After half a minute of that the server drops the session, and with it its
    # locks. On a Unix-domain socket these are ignored.
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30000",
    # A process that was stopped keeps its sockets alive. Nothing of ours pauses for so long in a transaction.
    "idle_in_transaction_session_timeout": str(int(COMMAND_TIMEOUT * 1000)),
}


def end_if_idle(seconds: float) -> str:
    """For the rest of a transaction, too: who falls silent in the middle of it loses the session, and keeps no lock."""
    milliseconds = seconds * 1000
    return f"set local idle_in_transaction_session_timeout = {int(milliseconds) if milliseconds < LONGEST_IDLE else 0}"


def words(error: BaseException) -> str:
    """What an error says, in one line. The server's DETAIL and HINT come in lines of their own."""
    return " ".join(str(error).split())


def in_one_line(error: BaseException) -> str:
    """An error for the log."""
    return f"{type(error).__name__}: {words(error)}"


def name_session(name: str) -> str:
    """For the rest of a transaction: how others find this session. The name is one of ours, and needs no quoting."""
    return f"set local application_name = '{name}'"


Connection = asyncpg.Connection

BAD_SETTING = (asyncpg.UndefinedObjectError, asyncpg.CantChangeRuntimeParamError, asyncpg.InvalidParameterValueError)
"""Said to a login, these are about the settings that came with it."""

REMEDY = "Connect as the role that migrated, or grant what is missing; see docs/sql.md#roles"
"""For a right that is missing."""


@dataclass(frozen=True, slots=True)
class Database:
    """One installation: a database URL and a schema in it."""

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
        name = {"application_name": f"holdfast {purpose}"}
        try:
            try:
                connection = await self._log_in({**name, **SESSION, **NAMES, **(PLANNER if planner else {})}, timeout)
            except asyncpg.ProtocolViolationError as error:
                if self.pooler or planner or not pooler.takes_no_settings(error):
                    raise
                # One that we were not told of; in session mode it does for producers, who can go without them.
                connection = await self._log_in(name, timeout)
        except BAD_SETTING as error:
            raise ConfigurationError(f"The server at {self.shown} refused the URL's options: {error.message}") from None
        except Exception as error:
            if (refusal := self.refusal(error)) is not None:
                raise refusal from None
            if isinstance(error, OSError):  # a TimeoutError, too
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
        """A pool of connections that grows from none; `arguments` are asyncpg's."""
        if self.pooler:
            arguments |= {**pooler.arguments(), "init": pooler.tame, "reset": pooler.keep}
        else:
            arguments |= {"server_settings": {"application_name": f"holdfast {purpose}", **SESSION}}
        return asyncpg.create_pool(self.url, min_size=0, timeout=CONNECT_TIMEOUT, **arguments)

    def refusal(self, error: BaseException) -> ConfigurationError | None:
        """What to tell of an answer that asking again does not change; None for every other."""
        match error:
            case asyncpg.InvalidCatalogNameError():
                return self._wrong(words(error), "Create it with createdb, or correct the URL")
            case asyncpg.InsufficientPrivilegeError():
                return self._wrong(f"{error.message}", REMEDY)
            case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
                return ConfigurationError(
                    f"The server at {self.shown} refused to log us in: {words(error)}{urls.advice(self.url)}"
                )
            case asyncpg.ClientConfigurationError():
                return self._wrong(words(error), "Correct the URL")
            case ssl.SSLCertVerificationError():
                return self._wrong(
                    f"the server's certificate: {error.verify_message}", "Correct the URL's sslrootcert or sslmode"
                )
            case ConnectionError() if "rejected SSL upgrade" in str(error):
                return self._wrong(
                    "the server has no SSL, and sslmode asks for it", "Turn SSL on there, or correct the URL"
                )
        return self._refusal_of_pooler(error) if pooler.refuses(error) else None

    def _refusal_of_pooler(self, error: BaseException) -> ConfigurationError:
        if pooler.takes_no_settings(error):
            remedy = (
                "Leave options out of the URL"
                if self.pooler
                else "Say that it is one: Holdfast(pooler=True), HOLDFAST_POOLER=1 or --pooler"
            )
            return ConfigurationError(
                f"There is a pooler at {self.shown}, which passes no settings on ({words(error)}). {remedy}."
            )
        if "permission denied" in str(error):
            return self._wrong(words(error), REMEDY)
        if pooler.knows_no_database(error):
            return self._wrong(words(error), "Create it with createdb, or correct the URL")
        return ConfigurationError(f"The server at {self.shown} refused to log us in: {words(error)}")

    def _wrong(self, what: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(f"{what} (at {self.shown}). {remedy}{urls.advice(self.url)}.")

    def unreachable(self, error: BaseException) -> Unreachable:
        """The error of a server that did not answer, with its URL."""
        silent = isinstance(error, TimeoutError)
        why = "no answer within the deadline" if silent else in_one_line(error)
        return Unreachable(f"cannot reach the server at {self.shown}: {why}{urls.advice(self.url)}", silent=silent)

    @property
    def shown(self) -> str:
        """The URL without its secrets."""
        return urls.shown(self.url)
