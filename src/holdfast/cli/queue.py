from __future__ import annotations

from typing import Any

import click

from ..app import Holdfast
from ..definitions import OnFailure
from ..model.limits import check_name
from ..queues import operating
from .common import json_option, plain, print_json, print_table, run, schema_option, yes_option

PAGES = 2000
"""The most pages of the inbox, 8 KiB each, that the report of keys reads."""


@click.group()
def command() -> None:
    """List, pause, resume and configure queues; list their keys."""


@command.command("list")
@json_option
@schema_option
def list_(as_json: bool, schema: str) -> None:
    """List queues: depth, and how long the oldest due job has waited."""

    async def work(app: Holdfast) -> list[dict[str, Any]]:
        return [plain(row) for row in await app._calls.run("views", "queues")]

    rows = run(schema, work)
    if as_json:
        print_json(rows)
    else:
        columns = [
            "queue", "mode", "pending", "scheduled", "retrying", "blocked", "processing", "dead_letters", "claim_age",
            "paused_at",
        ]  # fmt: skip
        print_table(rows, columns, "no queues yet")


@command.command("set")
@click.argument("queue")
@click.option("--ordered/--no-ordered", default=None, help="One job at a time and in order, per key.")
@click.option("--on-failure", type=click.Choice(["block", "skip"]), default=None,
              help="What the next jobs of an ordered key do while a failed job waits for its retry: wait, or "
              "run.")  # fmt: skip
@click.option("--owned/--no-owned", default=None, help="Each bucket of keys is claimed by one live worker.")
@schema_option
def set_(queue: str, ordered: bool | None, on_failure: OnFailure | None, owned: bool | None, schema: str) -> None:
    """Set the mode of QUEUE, for jobs enqueued from now on. Flags that you omit keep their value."""
    if ordered is None and on_failure is None and owned is None:
        raise click.UsageError("expected --ordered, --on-failure or --owned")

    async def work(app: Holdfast) -> str:
        await app.set_queue(queue, ordered=ordered, on_failure=on_failure, owned=owned)
        return str(next(row["mode"] for row in await app._calls.run("views", "queues") if row["queue"] == queue))

    click.echo(f"queue {queue}: {run(schema, work)}")


@command.command()
@click.argument("queue", required=False)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many keys to list.")
@json_option
@schema_option
def keys(queue: str | None, limit: int, as_json: bool, schema: str) -> None:
    """List the keys with the most live jobs, in QUEUE or in all queues; of each, the worker and the oldest job.

    Only a sample of a large inbox is read; the counts are then estimates.
    """

    async def work(app: Holdfast) -> list[dict[str, Any]]:
        return [plain(row) for row in await app._calls.run("views", "hot_keys", queue, limit, PAGES)]

    rows = run(schema, work)
    if as_json:
        print_json(rows)
        return
    columns = ["queue", "key", "bucket", "ordered", "live", "pending", "blocked", "processing", "age", "holder", "head"]
    print_table(rows, columns, "no key has more than one live job")
    if rows and rows[0]["share"] < 1:
        click.echo(f"estimated from {rows[0]['share']:.1%} of the inbox", err=True)


@command.command()
@click.argument("queue")
@yes_option
@schema_option
def pause(queue: str, yes: bool, schema: str) -> None:
    """Stop claiming from QUEUE. Running jobs finish."""
    if not yes:
        click.confirm(f"Pause queue {queue}? Its jobs wait until it is resumed.", abort=True)
    run(schema, lambda app: app.pause(queue))
    click.echo(f"queue {queue} is paused. To resume it: holdfast queue resume {queue}")


@command.command()
@click.argument("queue")
@schema_option
def resume(queue: str, schema: str) -> None:
    """Claim from QUEUE again."""
    paused = run(schema, lambda app: operating.resume(app._calls, check_name("queue", queue)))
    click.echo(f"queue {queue} is resumed" if paused else f"queue {queue} was not paused")
