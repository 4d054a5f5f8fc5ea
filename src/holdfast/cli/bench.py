from __future__ import annotations

import sys

import click
import msgspec

from ..bench.report import report
from ..bench.run import Interrupted
from ..bench.run import run as measure
from .common import json_option, print_json, run, schema_option


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(5, 3600), default=60.0, show_default=True, help="About how long it takes."
)
@json_option
@schema_option
def command(seconds: float, as_json: bool, schema: str) -> None:
    """Measure this database, name the bottleneck, and the setting to change.

    Round trips, commits, enqueues, pick-up and drain with a real worker process, in a schema of its own
    (holdfast_bench_…) that is dropped at the end, after Ctrl-C or SIGTERM, too. Nobody else's rows are touched; of the
    installation in --schema, if there is one, only its backlog and rate are looked at. It is real load: some hundred
    megabytes of WAL. Needs the right to create a schema.

    Progress goes to standard error.
    """
    try:
        found = run(schema, lambda app: measure(app._database, seconds, _tell))
    except Interrupted as interrupted:
        click.echo(f"Stopped. The schema {interrupted.schema} is gone.", err=True)
        sys.exit(128 + interrupted.number)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        click.echo(f"\n{report(found.measurements, found.diagnosis)}")


def _tell(words: str) -> None:
    click.echo(f"bench: {words}", err=True)
