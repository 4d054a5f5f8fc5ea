"""What the commands share: how they find the installation, and how they print."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, ParamSpec, TypeVar
from uuid import UUID

import asyncpg
import click
import msgspec

from ..app import Holdfast
from ..db.acting import acting_as, actor
from ..db.link import translate
from ..errors import HoldfastError, InvalidInput, SchemaError, Unreachable
from ..model.durations import seconds
from ..model.moments import moment
from ..schema import migrate

P = ParamSpec("P")
T = TypeVar("T")


def _say_pooler(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Set the variable, which also reaches applications that are loaded by name, and worker processes."""
    if given:
        os.environ["HOLDFAST_POOLER"] = "1"


pooler_option = click.option(
    "--pooler",
    is_flag=True,
    envvar="HOLDFAST_POOLER",
    show_envvar=True,
    expose_value=False,
    callback=_say_pooler,
    help="Connect through a transaction pooler, such as PgBouncer.",
)
_schema_option = click.option(
    "--schema",
    default="holdfast",
    show_default=True,
    envvar="HOLDFAST_SCHEMA",
    show_envvar=True,
    help="The schema of the installation.",
)


def schema_option(command: Callable[P, T]) -> Callable[P, T]:
    """Add `--schema` and `--pooler`."""
    return _schema_option(pooler_option(command))


json_option = click.option("--json", "as_json", is_flag=True, envvar="HOLDFAST_JSON", help="Print JSON.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


class Refused(HoldfastError):
    """The server rejected a statement."""


def run(schema: str, work: Callable[[Holdfast], Coroutine[Any, Any, T]], loaded: Holdfast | None = None) -> T:
    """Run a command's work on the installation, or on that of a loaded application, then close its connections."""

    async def session() -> T:
        app = Holdfast(schema=schema) if loaded is None else loaded
        try:
            with acting_as(actor()):
                return await work(app)
        except (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError, asyncpg.InvalidSchemaNameError):
            raise SchemaError(
                f"There is no schema {app._database.schema!r} at {app._database.shown}. "
                f"Run: {migrate.command(app._database.schema)}"
            ) from None
        except asyncpg.PostgresError as error:
            raise _in_words(error, app) from None
        except (OSError, asyncpg.InterfaceError) as error:
            raise app._database.unreachable(error) from None
        finally:
            await app.close()

    return asyncio.run(session())


def _in_words(error: asyncpg.PostgresError, app: Holdfast) -> HoldfastError:
    if (refusal := app._database.refusal(error)) is not None:
        return refusal
    if isinstance(translated := translate(error), Unreachable):
        return app._database.unreachable(error)
    if isinstance(translated, HoldfastError):
        return translated
    more = " ".join(f"({text})" for text in (error.detail, error.hint) if text)
    return Refused(f"the server rejected it: {error.message} {more}".rstrip())


def plain(row: Mapping[str, Any] | asyncpg.Record) -> dict[str, Any]:
    """A row with its JSON columns decoded."""
    decoded = {name: _decoded(name, value) for name, value in dict(row).items()}
    if "metadata" in decoded and not isinstance(decoded["metadata"], dict):
        decoded["metadata"] = {}  # a heartbeat written by hand may hold anything
    return decoded


def _decoded(name: str, value: Any) -> Any:
    if isinstance(value, str) and name in {"payload", "headers", "errors", "result", "metadata", "progress", "data"}:
        return msgspec.json.decode(value)
    return value


def print_json(value: Any) -> None:
    encoded = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    click.echo(re.sub(r"[^\n -~]", _escaped, encoded))


def _escaped(found: re.Match[str]) -> str:
    """JSON escapes only some control characters; a terminal obeys others, too."""
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], empty: str) -> None:
    """Print columns of plain text, as wide as their content."""
    if not rows:
        click.echo(empty)
        return
    lines = [[safe(text(row[column])) for column in columns] for row in rows]
    widths = [max(len(line[n]) for line in [list(columns), *lines]) for n in range(len(columns))]
    for line in [[column.replace("_", " ") for column in columns], *lines]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return moment(value)
        case float():
            return f"{value:.1f}"
        case dict() | list():
            return msgspec.json.encode(value).decode()
        case _:
            return str(value)


def safe(value: str, width: int = 80) -> str:
    """One line without control characters, so that stored text cannot control a terminal."""
    line = printable(value.split("\n")[0])
    return line if len(line) <= width else f"{line[: width - 1]}…"


def printable(value: str) -> str:
    """Without control characters, except line ends."""
    return "".join(c if c.isprintable() or c == "\n" else "·" for c in value)


def complain(message: str, code: int = 1) -> NoReturn:
    """Exit with a message instead of a traceback."""
    click.echo(f"holdfast: {printable(message)}", err=True)
    sys.exit(code)


class IdType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on
    def __init__(self, name: str, hint: str = "") -> None:
        self.name = name
        self._hint = hint

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> UUID:
        try:
            return value if isinstance(value, UUID) else UUID(value)
        except ValueError:
            article = "an" if self.name[0] in "aeiou" else "a"
            self.fail(f"expected {article} {self.name} (a UUID), got {value!r}{self._hint}", param, context)


JOB_ID = IdType("job id")
EVENT_ID = IdType("event id", "; see holdfast outbox list")
ENDPOINT_ID = IdType("endpoint id", "; see holdfast endpoint list")


class DurationType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        try:
            return seconds(float(value) if str(value).replace(".", "", 1).isdigit() else value)
        except InvalidInput as error:
            self.fail(str(error), param, context)


DURATION = DurationType()


def time_or_ago(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    """A time in UTC, or a duration before now."""
    if value is None:
        return None
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds(value, "since"))
    except Exception:
        try:
            parsed = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise click.BadParameter(
                f"expected a time such as 2026-01-31T03:00Z, or how long ago, such as 2h; got {value!r}"
            ) from None
        return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
