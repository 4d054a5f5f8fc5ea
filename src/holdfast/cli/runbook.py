from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from ..app import Holdfast
from ..db.statements import in_schema
from ..errors import NotFound
from ..model.moments import span
from ..runbook import Entry, entries
from .common import json_option, plain, print_json, print_table, run, schema_option

SAFE = "set local search_path = pg_catalog, pg_temp; set local statement_timeout = '30s'"


@click.command()
@click.argument("name", required=False)
@click.option("--sql", is_flag=True, help="Print the query instead of running it.")
@json_option
@schema_option
def command(name: str | None, sql: bool, as_json: bool, schema: str) -> None:
    """Run the query NAME of the runbook, and say what to do. Without NAME, list the queries.

    Queries only read. docs/runbook has a page about each, by the same name.
    """
    if name is None:
        rows = [{"name": entry.name, "shows": entry.title} for entry in entries().values()]
        print_json(rows) if as_json else print_table(rows, ["name", "shows"], "")
        return
    if (entry := entries().get(name)) is None:
        raise NotFound(f"There is no query {name!r} in the runbook; see holdfast runbook")
    if sql:
        click.echo(f"{in_schema(entry.query, schema)};")
        return
    rows = run(schema, lambda app: _ask(app, entry))
    if as_json:
        print_json(rows)
        return
    click.echo(entry.title)
    shown = [{column: _shown(value) for column, value in row.items()} for row in rows]
    print_table(shown, list(shown[0]) if shown else [], "nothing")
    click.echo(f"\n→ {entry.hint}\n→ docs/runbook/{entry.name}.md")


async def _ask(app: Holdfast, entry: Entry) -> list[dict[str, Any]]:
    connection = await app._database.connect("runbook")
    try:
        async with connection.transaction(readonly=True):
            await connection.execute(SAFE)
            rows = await connection.fetch(in_schema(entry.query, app._database.schema))
            return [plain(row) for row in rows]
    finally:
        await connection.close(timeout=5)


def _shown(value: Any) -> Any:
    return span(max(value.total_seconds(), 0.0)) if isinstance(value, timedelta) else value
