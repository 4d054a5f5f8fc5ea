from __future__ import annotations

from typing import Any

import click

from ..app import Holdfast
from .common import json_option, plain, print_json, print_table, run, schema_option


@click.group()
def command() -> None:
    """Look at workers."""


@command.command("list")
@json_option
@schema_option
def list_(as_json: bool, schema: str) -> None:
    """List workers, with what they serve and have done."""

    async def work(app: Holdfast) -> list[dict[str, Any]]:
        return [plain(row) for row in await app.query("views", "workers")]

    rows = run(schema, work)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        counters = row["metadata"].get("counters", {})
        row |= {
            "queues": ",".join(row["metadata"].get("queues", [])),
            "hears": counters.get("listening"),
            "running": counters.get("running"),
            "completed": counters.get("completed"),
            "lease_lost": counters.get("lease_lost"),
        }
    columns = ["id", "status", "live", "silent", "queues", "hears", "running", "completed", "lease_lost", "started_at"]
    print_table(rows, columns, "no workers")
