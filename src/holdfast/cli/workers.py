from __future__ import annotations

from typing import Any

import click

from ..app import Holdfast
from ..model.keys import bucket
from ..model.ring import Ring
from .common import json_option, plain, print_json, print_table, run, schema_option, yes_option

Row = dict[str, Any]


@click.group()
def command() -> None:
    """List and drain workers; find the owner of a key."""


async def _workers(app: Holdfast) -> list[Row]:
    return [plain(row) for row in await app._calls.run("views", "workers")]


def _queues(row: Row) -> list[str]:
    queues = row["metadata"].get("queues", [])
    return queues if isinstance(queues, list) else []


def _ring(rows: list[Row], queue: str) -> Ring:
    """The ring, as the workers compute it from this registry."""
    return Ring(row["id"] for row in rows if row["live"] and queue in _queues(row))


@command.command("list")
@json_option
@schema_option
def list_(as_json: bool, schema: str) -> None:
    """List workers: what they serve, own and have done.

    Shares are of 1024 buckets, for queues with owned buckets. (isolation): a process that runs only jobs whose last
    process died, one at a time, and ends when none is left. --json also has the time zone rules of each.
    """

    async def work(app: Holdfast) -> list[Row]:
        rows = await _workers(app)
        shares = {name: _ring(rows, name).shares() for (name,) in await app._calls.run("views", "owned")}
        for row in rows:
            row["shares"] = {name: share[row["id"]] for name, share in shares.items() if row["id"] in share}
        return rows

    rows = run(schema, work)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        counters = row["metadata"].get("counters", {})
        row |= {
            "queues": "(isolation)" if row["metadata"].get("isolation") else ",".join(map(str, _queues(row))),
            "shares": ",".join(f"{name}:{share}" for name, share in row["shares"].items()) or None,
            "listening": counters.get("listening"),
            "running": counters.get("running"),
            "completed": counters.get("completed"),
            "lease_lost": counters.get("lease_lost"),
        }
    columns = [
        "id", "status", "live", "silent", "queues", "shares", "listening", "running", "completed", "lease_lost",
        "started_at",
    ]  # fmt: skip
    print_table(rows, columns, "no workers")
    releases = {row["metadata"].get("time_zones") for row in rows if row["live"]} - {None}
    if len(releases) > 1:
        click.echo(
            f"\ntime zone rules differ: {'; '.join(sorted(releases))}; hosts may disagree about slots of schedules"
        )


@command.command()
@click.argument("key")
@click.option("-q", "--queue", default="default", show_default=True, help="The queue of the key's jobs.")
@json_option
@schema_option
def owner(key: str, queue: str, as_json: bool, schema: str) -> None:
    """Show who owns KEY: its bucket, and the live worker that claims its jobs if the queue is owned."""
    number = bucket(key)

    async def work(app: Holdfast) -> Row:
        ring = _ring(await _workers(app), queue)
        owned = queue in {name for (name,) in await app._calls.run("views", "owned")}
        return {"key": key, "queue": queue, "bucket": number, "owner": ring.owner(number), "owned": owned}

    found = run(schema, work)
    if as_json:
        print_json(found)
        return
    print_table([found], ["bucket", "owner", "queue", "owned"], "")
    if not found["owned"]:
        click.echo(f"any live worker may claim it: the buckets of queue {queue} are not owned", err=True)


@command.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--host", help="Every live worker of this host.")
@click.option("--all", "everyone", is_flag=True, help="Every live worker.")
@yes_option
@schema_option
def drain(ids: tuple[str, ...], host: str | None, everyone: bool, yes: bool, schema: str) -> None:
    """Ask workers to finish running jobs, hand back the rest without losing an attempt, and stop.

    They notice within their heartbeat interval. `holdfast worker` ends when all its processes have.
    """
    if bool(ids) + (host is not None) + everyone != 1:
        raise click.UsageError("expected worker ids, or --host NAME, or --all")

    async def find(app: Holdfast) -> list[str]:
        rows = await _workers(app)
        return [r["id"] for r in rows if r["status"] == "alive" and (everyone or r["metadata"].get("host") == host)]

    wanted = list(ids) or run(schema, find)
    if not wanted:
        click.echo("no worker to drain")
        return
    if not yes:
        click.confirm(f"Drain {len(wanted)} worker{'s' * (len(wanted) > 1)}? They are not replaced.", abort=True)
    drained = run(schema, lambda app: app.drain_workers(wanted))
    for name in sorted(set(wanted)):
        click.echo(f"{name} {'is draining' if name in drained else 'was draining already, or has ended'}")
