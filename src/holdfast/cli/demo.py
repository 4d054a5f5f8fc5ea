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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object of numbers, and nothing else.")
def command(seconds: float, as_json: bool) -> None:
    """Watch it work: orders come in, workers are killed while they run jobs, and nothing is lost or duplicated.

    Runs on an embedded Postgres, which it removes at the end. With HOLDFAST_DATABASE_URL, runs on that server, in a
    separate schema, which it drops. The exit code is 1 if a job was lost, an effect was duplicated, anything of a
    rolled-back transaction was found, or no job of a killed worker was recovered.
    """
    try:
        found = play(seconds, as_json)
    except Interrupted as interrupted:
        click.echo("Stopped. Nothing was left behind.", err=True)
        sys.exit(128 + interrupted.number)
    except (DemoError, EmbeddedPostgresError) as error:
        raise click.ClickException(str(error)) from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise click.ClickException(f"the demo stopped, because the server reported: {error}") from None
    except BrokenPipeError:
        sys.stdout = None  # the reader is gone: do not flush
        sys.exit(141)
    numbers = found["numbers"]
    if as_json:
        click.echo(json.dumps(numbers))
    else:
        click.echo(f"\n{summary(numbers, found['details'])}\n\n{FURTHER}")
    sys.exit(exit_code(numbers))
