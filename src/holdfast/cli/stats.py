from __future__ import annotations

from typing import Any

import click

from ..app import Holdfast
from .common import json_option, plain, print_json, print_table, run, safe, schema_option

COUNTED = 10_000
"""Rows that wait for a chore are counted up to this number."""


@click.command()
@json_option
@schema_option
def command(as_json: bool, schema: str) -> None:
    """Show the three numbers (depth, claim age, retry rate), and the jobs that no worker can run."""
    facts = run(schema, gather)
    if as_json:
        print_json(facts)
        return
    click.echo(
        f"depth        {facts['depth']} pending, {facts['processing']} processing, {facts['dead_letters']} dead letters"
    )
    click.echo(f"claim age    {facts['claim_age']:.1f} s")
    click.echo(f"retry rate   {facts['retry_rate']:.1%} of the attempts of live workers")
    click.echo(f"workers      {facts['live_workers']} live")
    click.echo(f"housekeeping {_chores_in_words(facts['chores'])}")
    click.echo()
    columns = ["queue", "pending", "scheduled", "retrying", "processing", "dead_letters", "claim_age", "paused_at"]
    print_table(facts["queues"], columns, "no queues yet")
    if facts["unclaimable"]:
        click.echo("\nno worker can run:")
        print_table(facts["unclaimable"], ["queue", "kind", "version", "rows", "since", "reason"], "")


def _chores_in_words(chores: list[dict[str, Any]]) -> str:
    """When it last swept, and which chores are behind."""
    swept = next((chore["ago"] for chore in chores if chore["name"] == "sweep"), None)
    behind = [f"{chore['name']} {_counted(chore['backlog'])}" for chore in chores if chore["backlog"]]
    failed = [f"{chore['name']}: {safe(chore['error'])}" for chore in chores if chore["error"]]
    return "; ".join(
        [
            "no sweep yet" if swept is None else f"last sweep {swept:.0f} s ago",
            *([f"waiting: {', '.join(behind)}"] if behind else []),
            *(f"failed: {words}" for words in failed),
        ]
    )


def _counted(rows: int) -> str:
    return f"{rows}" if rows < COUNTED else f"{COUNTED} or more"


async def gather(app: Holdfast) -> dict[str, Any]:
    """Everything that `stats` shows."""
    queues = [plain(row) for row in await app._calls.run("views", "queues")]
    workers = [plain(row) for row in await app._calls.run("views", "workers")]
    live = [worker["metadata"].get("counters", {}) for worker in workers if worker["live"]]
    started = sum(counters.get("started", 0) for counters in live)
    retried = sum(counters.get("retried", 0) + counters.get("dead", 0) for counters in live)
    return {
        "depth": sum(queue["pending"] for queue in queues),
        "processing": sum(queue["processing"] for queue in queues),
        "dead_letters": sum(queue["dead_letters"] for queue in queues),
        "claim_age": max((queue["claim_age"] or 0.0 for queue in queues), default=0.0),
        "retry_rate": retried / started if started else 0.0,
        "live_workers": len(live),
        "up": max((worker["up"] for worker in workers if worker["live"]), default=0.0),
        "queues": queues,
        "unclaimable": [plain(row) for row in await app._calls.run("views", "unclaimable")],
        "chores": [plain(row) for row in await app._calls.run("views", "chores", COUNTED)],
    }
