from __future__ import annotations

import sys

import click

from ..app import Holdfast
from ..schema import migrate
from .common import run, schema_option


@click.command()
@click.option("--check", is_flag=True, help="Apply nothing; exit with 1 if something is missing.")
@click.option(
    "--sql", is_flag=True, help="Print the whole schema as SQL, for your own migration tool; connects to nothing."
)
@schema_option
def command(check: bool, sql: bool, schema: str) -> None:
    """Bring the schema to this release. Running it again, or twice at once, is safe."""
    if sql:
        click.echo(migrate.script(schema), nl=False)
        return
    if check:
        missing = run(schema, lambda app: migrate.pending(app._database))
        for step in missing:
            click.echo(f"missing: {step.title}")
        if not missing:
            click.echo(_standing(schema))
        sys.exit(1 if missing else 0)
    applied = run(schema, _apply)
    for name in applied:
        click.echo(f"applied {name}")
    click.echo(_standing(schema))


def _standing(schema: str) -> str:
    version = run(schema, lambda app: migrate.version(app._database))
    if version > migrate.newest():
        return f"schema {schema} is at version {version}, newer than this release needs and compatible with it"
    return f"schema {schema} is at version {version}, as this release needs"


async def _apply(app: Holdfast) -> list[str]:
    return await app.migrate()
