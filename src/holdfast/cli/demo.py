from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import asyncpg
import click

from ..demo.conductor import Found
from ..demo.play import Interrupted, play
from ..demo.report import exit_code, further, summary
from ..demo.troupe import DemoError
from ..embedded import EmbeddedPostgresError


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(1, 3600), default=30.0, show_default=True, help="How long to produce orders."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object of numbers, and nothing else.")
@click.option("--no-dashboard", is_flag=True, help="Serve no dashboard.")
def command(seconds: float, as_json: bool, no_dashboard: bool) -> None:
    """Watch it work: orders come in, workers are killed while they run jobs, and nothing is lost or duplicated.

    Prints the address of a dashboard, on this machine only, and opens it if there is a desktop. Its page Demo has
    buttons: kill a worker, add one, drain one, pause the queue, pin the xmin horizon. In a terminal, the demo keeps
    running after the results, so that you can use the buttons; Ctrl-C ends it.

    Runs on an embedded Postgres, which it removes at the end. With HOLDFAST_DATABASE_URL, runs on that server, in a
    separate schema, which it drops. The exit code is 1 if a job was lost, an effect was duplicated, anything of a
    rolled-back transaction was found, or no job of a killed worker was recovered.
    """
    try:
        found = play(seconds, as_json, not no_dashboard, lambda found: _tell(found, as_json))
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
    if not as_json:
        click.echo(f"\n{further(_command())}")
    sys.exit(exit_code(found["numbers"]))


def _command() -> str:
    """How to start `holdfast` from this folder: by its name, if it is on PATH; otherwise as this process was."""
    if shutil.which("holdfast"):
        return "holdfast"
    started = Path(sys.argv[0])
    return str(started) if started.name == "holdfast" else f"{sys.executable} -m holdfast"


def _tell(found: Found, as_json: bool) -> None:
    numbers = found["numbers"]
    click.echo(json.dumps(numbers) if as_json else f"\n{summary(numbers, found['details'])}")
