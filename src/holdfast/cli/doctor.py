from __future__ import annotations

import sys

import click

from ..errors import HoldfastError
from ..model.finding import Finding, exit_code
from .common import complain, json_option, print_json, run, safe, schema_option

WIDTH = 400
NO_ANSWER = 2


@click.command()
@click.argument("checks", nargs=-1, metavar="[CHECK]...")
@json_option
@schema_option
def command(checks: tuple[str, ...], as_json: bool, schema: str) -> None:
    """Examine the server and the installation, and say what to do. It changes nothing.

    Without CHECK, all checks are run. Each line has a level, the name of the check, and what it found. The levels are
    ok; warn (it will hurt if it continues); fail (it hurts now, or work can be lost); unseen (this role may not see it:
    grant it pg_monitor). Below each finding that is not ok: what to do, and the page of the runbook.

    Exit code 0: all is well. 1: there is a warning, or a check could not see enough. 2: something is wrong, or nothing
    could be checked.
    """
    try:
        findings = run(schema, lambda app: app.doctor(*checks))
    except (HoldfastError, OSError) as error:
        complain(str(error), NO_ANSWER)
    if as_json:
        print_json(findings)
    else:
        _print(findings)
    sys.exit(exit_code(findings))


def _print(findings: list[Finding]) -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        click.echo(safe(f"{finding.level:<6}  {finding.name:<{width}}  {finding.sentence}", WIDTH))
        if finding.level == "ok":
            continue
        if finding.remedy is not None:
            click.echo(safe(f"{'':<8}→ {finding.remedy}", WIDTH))
        click.echo(f"{'':<8}→ holdfast runbook {finding.page}")
    counts = [(level, sum(f.level == level for f in findings)) for level in ("ok", "warn", "fail", "unseen")]
    click.echo(", ".join(f"{number} {level}" for level, number in counts if number))
