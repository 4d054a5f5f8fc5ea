from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import click

from ..app import Holdfast
from ..errors import NotFound
from ..model.durations import seconds
from .common import (
    JOB_ID,
    all_option,
    chosen,
    json_option,
    plain,
    print_dry_run,
    print_json,
    print_table,
    run,
    schema_option,
    yes_option,
)


def _filters(function: Any) -> Any:
    for option in (
        click.option("-q", "--queue"),
        click.option("--kind"),
        click.option("--error", help="The last error contains this text."),
        click.option("--since", help="Became a dead letter within this time, such as 2h."),
    ):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """List, revive and discard dead letters."""


@command.command("list")
@_filters
@click.option("--limit", type=click.IntRange(1, 10000), default=50, show_default=True)
@json_option
@schema_option
def list_(
    queue: str | None, kind: str | None, error: str | None, since: str | None, limit: int, as_json: bool, schema: str
) -> None:
    """List dead letters, latest first."""
    within = seconds(since, "since") if since else None

    async def work(app: Holdfast) -> list[dict[str, Any]]:
        return [plain(row) for row in await app._calls.run("views", "dead", queue, kind, error, within, limit)]

    rows = run(schema, work)
    if as_json:
        print_json(rows)
    else:
        print_table(rows, ["id", "queue", "kind", "key", "attempts", "dead_at", "last_error"], "no dead letters")


def _verb(name: str) -> Callable[[Any], Any]:
    """Return a decorator for what `revive` and `discard` take."""

    def decorate(function: Any) -> Any:
        for option in (
            schema_option,
            json_option,
            yes_option,
            click.option("--dry-run", is_flag=True, help="Print which ones, and change nothing."),
            all_option(f"HOLDFAST_DEAD_{name}_ALL", "dead letter"),
            _filters,
            click.argument("ids", type=JOB_ID, nargs=-1),
        ):
            function = option(function)
        return function

    return decorate


@command.command()
@_verb("REVIVE")
def revive(**given: Any) -> None:
    """Make dead letters pending again, with a full set of attempts. Choose them by id or by filter."""
    _apply("revive", "revived", lambda app, ids: app.revive(ids), ask_for_ids=False, **given)


@command.command()
@_verb("DISCARD")
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
