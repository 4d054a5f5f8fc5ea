"""Which jobs a verb is about: by id, or by filter with a dry run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from uuid import UUID

import click

from ..app import Holdfast
from ..views.questions import JobFilter
from .common import JOB_ID, json_option, print_json, run, schema_option, yes_option


def filter_options(since: str) -> Callable[[Any], Any]:
    """Add the filters. `since`: what must have happened within that time."""
    return _all_of(
        click.option("-q", "--queue"),
        click.option("--kind"),
        click.option("--error", help="The last error contains this text."),
        click.option("--group", help="The error group of the last failed attempt; see holdfast dead groups."),
        click.option("--since", help=f"{since} within this time, such as 2h."),
    )


def choosing_options(variable: str, what: str, since: str) -> Callable[[Any], Any]:
    """Add what a verb for many jobs takes: ids, filters, --all, --dry-run, --yes, --json, --schema."""
    return _all_of(
        click.argument("ids", type=JOB_ID, nargs=-1),
        filter_options(since),
        click.option(
            "--all", "everything", is_flag=True, envvar=variable, help=f"Every {what} that matches the filters."
        ),
        click.option("--dry-run", is_flag=True, help="Print which ones, and change nothing."),
        yes_option,
        json_option,
        schema_option,
    )


def _all_of(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def chosen(schema: str, ids: Sequence[UUID], filtered: bool, what: str, *filters: Mapping[str, Any]) -> list[UUID]:
    """The ids as given, or those of live jobs that match any of the filters of `find_jobs`."""
    if bool(ids) == filtered:
        raise click.UsageError(f"choose the {what} by id or by a filter (or --all), not both")

    async def find(app: Holdfast) -> list[UUID]:
        return sorted({id for each in filters for id in await app.find_jobs(**cast(JobFilter, each))})

    return list(ids) or run(schema, find)


def print_dry_run(verb: str, ids: Sequence[UUID], as_json: bool) -> None:
    """Print how many jobs it would be, and the first of them."""
    if as_json:
        print_json({f"would_{verb.replace(' ', '_')}": ids})
        return
    click.echo(f"would {verb} {len(ids)}")
    for id in ids[:20]:
        click.echo(f"  {id}")
    if len(ids) > 20:
        click.echo(f"  … and {len(ids) - 20} more")
