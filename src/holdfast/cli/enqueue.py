from __future__ import annotations

from typing import Any

import click
import msgspec

from ..app import Holdfast
from ..definitions import check_expires
from ..errors import ConfigurationError, InvalidPayload
from ..loading import load_app
from ..making import EnqueueOptions
from ..model.durations import seconds
from ..model.limits import check_key, check_modules, check_name
from ..model.payload import encode
from .common import json_option, print_json, run, schema_option

EXAMPLE = """'{"name": "Ada"}'"""
"""As it is typed: the shell removes the outer quotes."""


@click.command()
@click.argument("kind")
@click.argument("arguments", default="{}")
@click.option("--app", "path", envvar="HOLDFAST_ENQUEUE_APP", metavar="MODULE:ATTRIBUTE",
              help="Load the application: the task's settings apply, and its arguments are checked.")  # fmt: skip
@click.option("--import", "imports", multiple=True, envvar="HOLDFAST_ENQUEUE_IMPORT", metavar="MODULE",
              help="Import this module, which has tasks; repeat it for more. Only with --app.")  # fmt: skip
@click.option("-q", "--queue", help="Default: the task's with --app, else `default`.")
@click.option("--key", help="What the job belongs to; order holds within a key.")
@click.option("--delay", help="Run it after this long, such as 5m.")
@click.option("--expires", help="End it as expired if it has not started after this long, such as 1h.")
@click.option("--priority", type=click.IntRange(0, 3), help="0 runs first. Default: the task's with --app, else 1.")
@click.option("--idempotency-key", help="Enqueue one job under this key, however often you run this.")
@click.option("--max-attempts", type=click.IntRange(1), help="Default: the task's with --app, else 5.")
@click.option("--version", type=click.IntRange(1), help="Version of the payload; default 1. Not with --app.")
@json_option
@schema_option
def command(
    kind: str,
    arguments: str,
    path: str | None,
    imports: tuple[str, ...],
    queue: str | None,
    key: str | None,
    delay: str | None,
    expires: str | None,
    priority: int | None,
    idempotency_key: str | None,
    max_attempts: int | None,
    version: int | None,
    as_json: bool,
    schema: str,
) -> None:
    """Enqueue a job of KIND with ARGUMENTS, a JSON object.

    With --app shop.jobs:hf, the job gets the queue, attempts, priority, version and order of the task, and its
    arguments are checked before anything is stored. The schema also comes from the application.

    Without --app, the task is not known: the job goes to the queue `default` unless you pass -q, and the arguments are
    checked only when the job runs.
    """
    decoded = parse_arguments(kind, arguments)
    options: EnqueueOptions = {
        "queue": queue,
        "key": key,
        "delay": delay,
        "expires": expires,
        "priority": priority,
        "idempotency_key": idempotency_key,
        "max_attempts": max_attempts,
    }
    if path is None:
        if imports:
            raise click.UsageError("--import: its tasks belong to an application; name it with --app")
        id = _by_kind(schema, kind, arguments, options, version or 1)
    else:
        if version is not None:
            raise click.UsageError("--version: with --app, the task says which version its arguments have")
        id = _by_task(schema, path, check_modules("--import", imports), kind, decoded, options)
    if as_json:
        print_json({"id": id})
    else:
        click.echo(id)


def parse_arguments(kind: str, arguments: str) -> dict[str, Any]:
    """The arguments of a job of this kind, checked as far as that is possible without its task."""
    check_name("kind", kind)
    try:
        decoded = msgspec.json.decode(arguments)
    except msgspec.DecodeError as error:
        raise InvalidPayload("arguments", f"are not JSON: {error}; write an object, such as {EXAMPLE}") from None
    if not isinstance(decoded, dict):
        raise InvalidPayload("arguments", f"expected a JSON object, such as {EXAMPLE}; got {type(decoded).__name__}")
    if "type" in decoded:
        raise InvalidPayload("type", "cannot be the name of an argument: it is reserved for the kind")
    encode(kind, decoded)
    return decoded


def _by_task(
    schema: str, path: str, imports: tuple[str, ...], kind: str, arguments: dict[str, Any], options: EnqueueOptions
) -> str:
    """Enqueue as the application does."""
    source = click.get_current_context().get_parameter_source("schema")
    if source is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--schema: with --app, the schema also comes from the application")
    app = load_app(path, imports)
    task = app.tasks.get(kind)
    if task is None:
        raise ConfigurationError(f"{path} has no task {kind!r}; it has {', '.join(sorted(app.tasks)) or 'none'}")
    if "self" in arguments:  # it would be taken for the task
        raise InvalidPayload("self", f"is not an argument of {kind}")

    async def work(app: Holdfast) -> str:
        return str((await task.options(**options).enqueue(**arguments)).id)

    return run(schema, work, app)


def _by_kind(schema: str, kind: str, text: str, options: EnqueueOptions, version: int) -> str:
    """Enqueue without knowing the task."""
    queue, delay = options["queue"] or "default", options["delay"]
    priority, attempts = options["priority"], options["max_attempts"]
    wait = seconds(delay, "delay") if delay else None
    expires = check_expires(options["expires"]) if options["expires"] else None
    for name, value in (("key", options["key"]), ("idempotency_key", options["idempotency_key"])):
        if value is not None:
            check_key(name, value)

    async def work(app: Holdfast) -> str:
        rows = await app._calls.run(
            "inbox", "enqueue_call", kind, text, check_name("queue", queue), options["key"], wait,
            1 if priority is None else priority, options["idempotency_key"], attempts or 5, version,
            expires,
        )  # fmt: skip
        return str(rows[0][0])

    return run(schema, work)
