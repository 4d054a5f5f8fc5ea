from __future__ import annotations

import sys

import click
import msgspec

from ..measure.report import report
from ..measure.run import Interrupted, measure
from .common import json_option, print_json, run, schema_option


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(5, 3600), default=60.0, show_default=True, help="About how long it takes."
)
@json_option
@schema_option
def command(seconds: float, as_json: bool, schema: str) -> None:
    """Measure this database. Name the bottleneck, and the one setting to change.

    Measures round trips, commits, enqueues, pick-up, and the drain of a backlog with a real worker process. Runs in a
    separate schema (holdfast_measure_…), which it drops at the end, even after Ctrl-C or SIGTERM. Your rows are not
    touched. Of the installation in --schema, if there is one, only the backlog and the rate are read. The load is
    real: several hundred megabytes of WAL. The role must be allowed to create a schema.

    Progress goes to standard error.
    """
    try:
        found = run(schema, lambda app: measure(app._database, seconds, _tell))
    except Interrupted as interrupted:
        click.echo(f"Stopped. The schema {interrupted.schema} was dropped.", err=True)
        sys.exit(128 + interrupted.number)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        click.echo(f"\n{report(found.measurements, found.diagnosis)}")


def _tell(words: str) -> None:
    click.echo(f"measure: {words}", err=True)
