from __future__ import annotations

import sys
from typing import Any

import click

from ..app import Holdfast
from ..db.safety import check_server
from ..errors import HoldfastError
from ..schema import migrate
from .common import DURATION, json_option, print_json, run, safe, schema_option
from .stats import gather


@click.command()
@click.option("--max-age", type=DURATION, default="60s", show_default=True, help="How long due work may wait.")
@click.option("--no-workers", is_flag=True, help="Do not require a live worker.")
@json_option
@schema_option
def command(max_age: float, no_workers: bool, as_json: bool, schema: str) -> None:
    """For probes: exit with 0 if work is accepted, safe and run; otherwise print the reasons and exit with 1."""

    async def work(app: Holdfast) -> dict[str, Any]:
        try:
            return await _examine(app, max_age, no_workers)
        finally:
            await app.close()

    try:
        facts = run(schema, work)
    except (HoldfastError, OSError) as error:
        facts = {"healthy": False, "problems": [str(error)]}
    if as_json:
        print_json(facts)
    else:
        click.echo("healthy" if facts["healthy"] else "\n".join(facts["problems"]))
    sys.exit(0 if facts["healthy"] else 1)


async def _examine(app: Holdfast, max_age: float, no_workers: bool) -> dict[str, Any]:
    connection = await app._database.connect("health")
    try:
        await check_server(connection)
        await migrate.check(connection, app._database.schema)
    finally:
        await connection.close()
    facts = await gather(app)
    # Not as it was measured some seconds ago: a probe asks about now, and this costs little.
    ages = [row["age"] for row in await app._calls.run("views", "claim_ages")]
    facts["claim_age"] = max(ages, default=0.0)
    problems = []
    if not facts["live_workers"] and not no_workers:
        problems.append("no live worker; start one with: holdfast worker module:attribute")
    if facts["claim_age"] > max_age:
        problems.append(f"due work has waited {facts['claim_age']:.0f} s, more than {max_age:.0f} s")
    problems += _sweeping(facts, max_age)
    return {
        "healthy": not problems,
        "problems": problems,
        **{k: facts[k] for k in ("depth", "claim_age", "live_workers", "chores")},
    }


def _sweeping(facts: dict[str, Any], max_age: float) -> list[str]:
    """What is wrong with the sweep: it fails, it is overdue, or it cannot lock the rows."""
    (sweep,) = (chore for chore in facts["chores"] if chore["name"] == "sweep")
    stuck = "a job is" if sweep["backlog"] == 1 else f"{sweep['backlog']} jobs are"
    waits = (sweep["oldest"] or 0.0) > max_age
    if waits and sweep["error"]:
        return [f"the sweep fails, and {stuck} stuck with workers that are gone: {safe(sweep['error'])}"]
    if _overdue(sweep, facts, max_age, waits):
        ran = "has never run" if sweep["ago"] is None else f"has not run for {sweep['ago']:.0f} s"
        harm = f"{stuck} stuck" if waits else "jobs get stuck when their worker dies"
        return [
            f"the sweep {ran}, so {harm}; start a worker, or restart those that run: "
            'their log says what is wrong, in lines with "housekeeping"'
        ]
    if waits:
        return [
            f"{stuck} stuck: the lease ran out {sweep['oldest']:.0f} s ago, and a session locks the row; "
            "see holdfast runbook expired-leases"
        ]
    return []


def _overdue(sweep: dict[str, Any], facts: dict[str, Any], max_age: float, waits: bool) -> bool:
    """Should it have run by now? Only if rows wait for it, and a worker has lived long enough to sweep."""
    if sweep["ago"] is None:
        return waits
    silent = min(sweep["ago"], facts["up"]) if facts["live_workers"] and not waits else sweep["ago"]
    late: bool = silent > max_age + 2 * (sweep["every"] or 0.0)
    return late and (waits or facts["live_workers"] > 0)
