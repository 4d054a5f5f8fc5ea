from __future__ import annotations

from typing import Any
from uuid import UUID

import click

from ..app import Holdfast
from ..errors import NotFound
from ..model.durations import seconds
from .common import JOB_ID, json_option, plain, print_json, print_table, run, schema_option, yes_option

_ALL = 1_000_000
_CHUNK = 500


def _filters(function: Any) -> Any:
    for option in (
        click.option("-q", "--queue"),
        click.option("--kind"),
        click.option("--error", help="The last error contains this text."),
        click.option("--since", help="Became a dead letter within this time, such as 2h."),
    ):
        function = option(function)
    return function


async def _find(
    app: Holdfast, queue: str | None, kind: str | None, error: str | None, since: str | None, limit: int
) -> list[dict[str, Any]]:
    within = seconds(since, "since") if since else None
    return [plain(row) for row in await app._calls.run("views", "dead", queue, kind, error, within, limit)]


@click.group()
def command() -> None:
    """List and revive dead letters."""


@command.command("list")
@_filters
@click.option("--limit", type=click.IntRange(1, 10000), default=50, show_default=True)
@json_option
@schema_option
def list_(
    queue: str | None, kind: str | None, error: str | None, since: str | None, limit: int, as_json: bool, schema: str
) -> None:
    """List dead letters, latest first."""
    rows = run(schema, lambda app: _find(app, queue, kind, error, since, limit))
    if as_json:
        print_json(rows)
    else:
        print_table(rows, ["id", "queue", "kind", "key", "attempts", "dead_at", "last_error"], "no dead letters")


@command.command()
@click.argument("ids", type=JOB_ID, nargs=-1)
@_filters
@click.option(
    "--all",
    "everything",
    is_flag=True,
    envvar="HOLDFAST_DEAD_REVIVE_ALL",
    help="Every dead letter that matches the filters.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be revived, and change nothing.")
@yes_option
@json_option
@schema_option
def revive(
    ids: tuple[UUID, ...],
    queue: str | None,
    kind: str | None,
    error: str | None,
    since: str | None,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    schema: str,
) -> None:
    """Make dead letters pending again, with a full set of attempts. Choose them by id or by filter."""
    filtered = everything or any((queue, kind, error, since))
    if bool(ids) == bool(filtered):
        raise click.UsageError("choose the dead letters by id or by a filter (or --all), not both")
    chosen = list(ids) or [row["id"] for row in run(schema, lambda app: _find(app, queue, kind, error, since, _ALL))]
    if dry_run:
        if as_json:
            print_json({"would_revive": chosen})
        else:
            click.echo(f"would revive {len(chosen)}")
            for id in chosen[:20]:
                click.echo(f"  {id}")
        return
    if chosen and not yes and filtered:
        click.confirm(f"Revive {len(chosen)} dead letters?", abort=True)

    async def work(app: Holdfast) -> list[UUID]:
        revived: list[UUID] = []
        for start in range(0, len(chosen), _CHUNK):
            revived += await app.revive(chosen[start : start + _CHUNK])
        return revived

    revived = run(schema, work) if chosen else []
    if as_json:
        print_json({"revived": revived})
    else:
        click.echo(f"revived {len(revived)} of {len(chosen)}")
    if missed := sorted(set(ids) - set(revived)):
        names = ", ".join(map(str, missed))
        raise NotFound(f"not dead letters, or locked by another operator: {names}; see holdfast job show ID")
