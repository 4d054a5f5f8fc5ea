from __future__ import annotations

from typing import Any

import click

from ..app import Holdfast
from .common import json_option, plain, print_json, print_table, run, schema_option, yes_option


@click.group()
def command() -> None:
    """Look at queues, pause and resume them."""


@command.command("list")
@json_option
@schema_option
def list_(as_json: bool, schema: str) -> None:
    """List queues: depth, and how long the oldest due job has waited."""

    async def work(app: Holdfast) -> list[dict[str, Any]]:
        return [plain(row) for row in await app.query("views", "queues")]

    rows = run(schema, work)
    if as_json:
        print_json(rows)
    else:
        columns = ["queue", "pending", "scheduled", "retrying", "processing", "dead_letters", "claim_age", "paused_at"]
        print_table(rows, columns, "no queues yet")


@command.command()
@click.argument("queue")
@yes_option
@schema_option
def pause(queue: str, yes: bool, schema: str) -> None:
    """Claim nothing more from QUEUE; what runs, finishes."""
    if not yes:
        click.confirm(f"Pause queue {queue}? Its jobs wait until it is resumed.", abort=True)
    run(schema, lambda app: app.pause(queue))
    click.echo(f"queue {queue} is paused; holdfast queue resume {queue} ends that")


@command.command()
@click.argument("queue")
@schema_option
def resume(queue: str, schema: str) -> None:
    """Claim from QUEUE again."""
    run(schema, lambda app: app.resume(queue))
    click.echo(f"queue {queue} is served")
