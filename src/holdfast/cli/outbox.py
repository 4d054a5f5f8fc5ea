from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import click

from ..app import Holdfast
from ..model.words import plural
from ..outbox import operating
from .common import (
    EVENT_ID,
    json_option,
    plain,
    print_json,
    print_table,
    run,
    safe,
    schema_option,
    text,
    time_or_ago,
    yes_option,
)  # fmt: skip


@click.group()
def command() -> None:
    """Look at events and their deliveries; replay them; list and remove routes."""


@command.command()
@json_option
@schema_option
def routes(as_json: bool, schema: str) -> None:
    """List routes: what goes where, how much waits, and the lag."""
    rows = run(schema, lambda app: operating.routes(app._calls))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        row["state"] = "removed" if row["removed_at"] else "paused" if row["paused_at"] else "active"
        row["types"] = " ".join(row["types"])
    columns = [
        "name", "types", "destination", "ordered", "waiting", "oldest", "dead_letters", "delivered", "lag_p50",
        "lag_p99", "state",
    ]  # fmt: skip
    print_table(rows, columns, "no routes; hf.relay(…) declares them, and a worker or a producer stores them")


@command.command()
@json_option
@schema_option
def lag(as_json: bool, schema: str) -> None:
    """Show how long deliveries take, by route.

    Seconds from the call that published or replayed an event until its confirmation is stored, in the last 5
    minutes. A transaction that stays open after the call adds to the lag. OLDEST is how long the oldest delivery
    that is due has waited.
    """
    names = ("name", "waiting", "oldest", "delivered", "lag_p50", "lag_p99")
    rows = [{name: row[name] for name in names} for row in run(schema, lambda app: operating.routes(app._calls))]
    if as_json:
        print_json(rows)
    else:
        shown = [
            {name: f"{value:.3f}" if isinstance(value, float) else value for name, value in row.items()} for row in rows
        ]
        print_table(shown, names, "no routes")


@command.command("list")
@click.option("--type", "types", multiple=True, help="Only these types, such as 'order.*'; may be repeated.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@json_option
@schema_option
def list_(types: tuple[str, ...], limit: int, as_json: bool, schema: str) -> None:
    """List the newest events, and what became of their deliveries.

    'no route': no route matched it when it was published, or its deliveries are older than archive_days.
    """
    rows = run(schema, lambda app: operating.recent(app._calls, types, limit))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        row["deliveries"] = ", ".join(row["deliveries"]) or "no route"
    print_table(rows, ["published_at", "id", "type", "version", "key", "tenant", "deliveries"], "no events")


@command.command()
@click.argument("event", type=EVENT_ID)
@json_option
@schema_option
def show(event: UUID, as_json: bool, schema: str) -> None:
    """Show the event EVENT and its deliveries."""
    found, deliveries = run(schema, lambda app: operating.event(app._calls, event))
    found, deliveries = plain(found), [plain(row) for row in deliveries]
    if as_json:
        print_json({**found, "deliveries": deliveries})
        return
    for name in ("id", "type", "version", "source", "key", "tenant", "published_at", "headers", "data"):
        click.echo(f"{name.replace('_', ' '):<14} {safe(text(found[name]), 400)}")
    for row in deliveries:
        again = f" (replay {row['replay']})" if row["replay"] else ""
        click.echo(f"{'delivery':<14} {row['id']}  {row['destination']}{again}: {_state(row)}")


def _state(row: dict[str, Any]) -> str:
    attempts = f"{row['attempts']} of {row['max_attempts']} attempts"
    match row["status"]:
        case "completed":
            return f"delivered {text(row['finished_at'])} {safe(text(row['result']))}"
        case "processing":
            return f"being sent by {row['claimed_by']}"
        case "pending" if row["attempts"]:
            return f"{attempts}, next at {text(row['available_at'])}; {safe(text(row['last_error']), 200)}"
        case "dead_letter":
            return (
                f"dead letter after {attempts}: {safe(text(row['last_error']), 200)}; holdfast dead revive {row['id']}"
            )
        case status:
            return str(status)


@command.command()
@click.option("--route", required=True, help="The route to deliver along.")
@click.option("--since", callback=time_or_ago, help="Published since: a time in UTC, or how long ago, such as 2h.")
@click.option("--until", callback=time_or_ago, help="Published before; default: now.")
@click.option("--type", "types", multiple=True, help="Only these types; default: those of the route.")
@click.option("--event", type=EVENT_ID, help="Only this event.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@yes_option
@json_option
@schema_option
def replay(
    route: str, since: datetime | None, until: datetime | None, types: tuple[str, ...], event: UUID | None,
    dry_run: bool, yes: bool, as_json: bool, schema: str,
) -> None:  # fmt: skip
    """Deliver events once more along a route.

    One event, or all events of a period. They keep their ids. A destination that drops duplicates accepts
    them anyway: each replay has its own number.
    """
    if since is None and event is None:
        raise click.UsageError("expected --since, such as --since 2h, or --event")

    async def count(app: Holdfast, dry: bool) -> int:
        total = 0
        first, last = since or datetime.min.replace(tzinfo=UTC), until or datetime.now(UTC) + timedelta(hours=1)
        async for total in operating.replay(app._calls, route, first, last, types, event, dry):
            if not dry and total % 100_000 == 0:
                click.echo(f"{plural(total, 'event')} so far", err=True)
        return total

    if not yes and not dry_run:
        found = run(schema, lambda app: count(app, True))
        click.confirm(f"Deliver {plural(found, 'event')} once more along {route}?", abort=True)
    done = run(schema, lambda app: count(app, dry_run))
    if as_json:
        print_json({"route": route, "events": done, "dry_run": dry_run})
    else:
        are = "would be" if dry_run else "is" if done == 1 else "are"
        click.echo(f"{plural(done, 'event')} {are} delivered once more along {route}")


@command.command()
@click.argument("name")
@yes_option
@schema_option
def remove(name: str, yes: bool, schema: str) -> None:
    """Remove the route NAME: it gets no new events. What waits is still delivered.

    A worker whose code still declares it adds it again when it starts, so remove it from the code first.
    """
    if not yes:
        click.confirm(f"Remove route {name}? It gets no new events.", abort=True)
    queue = run(schema, lambda app: operating.remove_route(app._calls, name))
    click.echo(f"route {name} gets no new events; what waits is in queue {queue}")
