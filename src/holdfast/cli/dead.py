from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any
from uuid import UUID

import click

from ..app import Holdfast
from ..errors import NotFound
from ..model.durations import seconds
from .choosing import choosing_options, chosen, filter_options, print_dry_run
from .common import json_option, plain, print_json, print_table, run, schema_option

DIED = "Became a dead letter"


@click.group()
def command() -> None:
    """List, revive and discard dead letters."""


@command.command("list")
@filter_options(DIED)
@click.option("--limit", type=click.IntRange(1, 10000), default=50, show_default=True)
@json_option
@schema_option
def list_(
    queue: str | None,
    kind: str | None,
    error: str | None,
    group: str | None,
    since: str | None,
    limit: int,
    as_json: bool,
    schema: str,
) -> None:
    """List dead letters, latest first."""
    within = seconds(since, "since") if since else None

    async def work(app: Holdfast) -> list[dict[str, Any]]:
        return [plain(row) for row in await app._calls.run("views", "dead", queue, kind, error, within, limit, group)]

    rows = run(schema, work)
    if as_json:
        print_json(rows)
    else:
        print_table(rows, ["id", "queue", "kind", "key", "attempts", "dead_at", "last_error"], "no dead letters")


@command.command()
@click.option(
    "--limit", type=click.IntRange(1, 10000), default=200, show_default=True, help="How many groups to look at."
)
@json_option
@schema_option
def groups(limit: int, as_json: bool, schema: str) -> None:
    """List groups of similar dead letters: the same kind and exception, raised at the same place.

    To revive or discard a group, use --group. Each group is counted up to a thousand.
    """
    found = run(schema, lambda app: app.dead_groups(limit=limit))
    if as_json:
        print_json(found)
        return
    rows = [
        {**asdict(each), "count": f"{each.count}{'+' if each.more else ''}", "group": each.group or "(none)"}
        for each in found
    ]
    print_table(rows, ["group", "count", "newest", "queue", "kind", "place", "last_error"], "no dead letters")


@command.command()
@choosing_options("HOLDFAST_DEAD_REVIVE_ALL", "dead letter", DIED)
def revive(**given: Any) -> None:
    """Make dead letters pending again, with a full set of attempts. Choose them by id or by filter."""
    _apply("revive", "revived", lambda app, ids: app.revive(ids), ask_for_ids=False, **given)


@command.command()
@choosing_options("HOLDFAST_DEAD_DISCARD_ALL", "dead letter", DIED)
def discard(**given: Any) -> None:
    """Move dead letters to the archive, with their errors. Choose them by id or by filter.

    Their status is `discarded` then, and they cannot be revived. Their idempotency keys expire after dedupe_horizon.
    """
    _apply("discard", "discarded", lambda app, ids: app.discard(ids), ask_for_ids=True, **given)


def _apply(
    verb: str,
    done: str,
    act: Callable[[Holdfast, list[UUID]], Awaitable[list[UUID]]],
    *,
    ask_for_ids: bool,
    ids: tuple[UUID, ...],
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    schema: str,
    **filters: Any,
) -> None:
    filtered = everything or any(filters.values())
    these = chosen(schema, ids, filtered, "dead letters", {"status": "dead_letter", **filters})
    if dry_run:
        print_dry_run(verb, these, as_json)
        return
    if these and not yes and (filtered or ask_for_ids):
        click.confirm(f"{verb.capitalize()} {len(these)} dead letters?", abort=True)

    async def work(app: Holdfast) -> list[UUID]:
        return await act(app, these)

    found = run(schema, work) if these else []
    if as_json:
        print_json({done: found})
    else:
        click.echo(f"{done} {len(found)} of {len(these)}")
    if missed := sorted(set(ids) - set(found)):
        names = ", ".join(map(str, missed))
        raise NotFound(f"not dead letters, or locked by another operator: {names}; see holdfast job show ID")
