from __future__ import annotations

from typing import Any

import click
import msgspec

from ..app import Holdfast
from ..errors import InvalidPayload
from ..model.durations import seconds
from ..model.limits import check_key, check_name
from ..model.payload import encode
from .common import json_option, print_json, run, schema_option

EXAMPLE = """'{"name": "Ada"}'"""
"""As it is typed: the shell removes the outer quotes."""


@click.command()
@click.argument("kind")
@click.argument("arguments", default="{}")
@click.option("-q", "--queue", default="default", show_default=True)
@click.option("--key", help="What the job belongs to; order holds within a key.")
@click.option("--delay", help="Run it after this long, such as 5m.")
@click.option("--priority", type=click.IntRange(0, 3), default=1, show_default=True, help="0 runs first.")
@click.option("--idempotency-key", help="Enqueue one job under this key, however often you run this.")
@click.option("--max-attempts", type=click.IntRange(1), default=5, show_default=True)
@click.option("--version", type=click.IntRange(1), default=1, show_default=True, help="Version of the payload.")
@json_option
@schema_option
def command(
    kind: str,
    arguments: str,
    queue: str,
    key: str | None,
    delay: str | None,
    priority: int,
    idempotency_key: str | None,
    max_attempts: int,
    version: int,
    as_json: bool,
    schema: str,
) -> None:
    """Enqueue a job of KIND with ARGUMENTS, a JSON object.

    This does not load your application, so it does not know the task: the job goes to the queue `default` unless you
    pass -q, and the arguments are checked only when the job runs.
    """
    parse_arguments(kind, arguments)
    wait = seconds(delay, "delay") if delay else None
    for name, value in (("key", key), ("idempotency_key", idempotency_key)):
        if value is not None:
            check_key(name, value)

    async def work(app: Holdfast) -> str:
        rows = await app._calls.run(
            "inbox", "enqueue_call", kind, arguments, check_name("queue", queue), key, wait, priority, idempotency_key,
            max_attempts, version,
        )  # fmt: skip
        return str(rows[0][0])

    id = run(schema, work)
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
        raise InvalidPayload("type", "cannot be an argument; that name carries the kind")
    encode(kind, decoded)
    return decoded
