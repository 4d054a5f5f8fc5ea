from __future__ import annotations

import json
import sys

import asyncpg
import click

from ..demo.conductor import DemoError
from ..demo.play import Interrupted, play
from ..demo.report import FURTHER, exit_code, summary
from ..embedded import EmbeddedPostgresError


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(1, 3600), default=30.0, show_default=True, help="How long orders come in."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object of numbers and nothing else.")
def command(seconds: float, as_json: bool) -> None:
    """Watch it work: orders come in, workers are killed in the middle of jobs, and nothing is lost or doubled.

    Runs on an embedded Postgres that is gone afterwards; with HOLDFAST_DATABASE_URL on that server, in a schema of its
    own that is dropped. Exit code 1 if anything was lost, doubled, or found of a rolled-back transaction, or if no
    killed worker's job was recovered.
    """
    try:
        found = play(seconds, as_json)
    except Interrupted as interrupted:
        click.echo("Stopped. Nothing was left behind.", err=True)
        sys.exit(128 + interrupted.number)
    except (DemoError, EmbeddedPostgresError) as error:
        raise click.ClickException(str(error)) from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise click.ClickException(f"the demo had to stop, because the server said: {error}") from None
    except BrokenPipeError:
        sys.stdout = None  # nobody reads on; nothing more is to be flushed
        sys.exit(141)
    numbers = found["numbers"]
    if as_json:
        click.echo(json.dumps(numbers))
    else:
        click.echo(f"\n{summary(numbers, found['details'])}\n\n{FURTHER}")
    sys.exit(exit_code(numbers))
