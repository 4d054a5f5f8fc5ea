from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..app import Holdfast
from ..model.outcome import Final
from .common import json_option, plain, print_json, print_table, run, safe, schema_option

WINDOWS = {300.0: "last 5 min", 3600.0: "last hour"}
PAGES = 2000
"""The most pages of the archive, 8 KiB each, that are read for what ended lately."""
STATUSES = ("completed", "failed", "dead_letter", *(status.value for status in Final if status is not Final.FAILED))
PER_QUEUE = {"completed": "completed", "failed": "failed", "dead_letter": "dead_letters"}
LIVE_COUNTS = ("pending", "due", "scheduled", "processing", "blocked", "dead_letters", "retrying")
COUNTED = 10_000
"""Rows that wait for a chore are counted up to this number."""


@click.command()
@json_option
@schema_option
def command(as_json: bool, schema: str) -> None:
    """Show depth, claim age and retry rate, what ended lately, and the jobs that no worker can run.

    What ended lately is read from the newest pages of the archive. In a busy installation these do not reach back an
    hour; the numbers are then projected from the time that they cover, and marked with "about".
    """

    async def work(app: Holdfast) -> dict[str, Any]:
        facts = await gather(app)
        rows = [dict(row) for row in await app._calls.run("views", "lately", [*WINDOWS], PAGES, COUNTED)]
        facts["lately"] = lately(rows, facts["queues"])
        return facts

    facts = run(schema, work)
    if as_json:
        print_json(facts)
        return
    click.echo(
        f"depth        {facts['depth']} pending, {facts['processing']} processing, {facts['dead_letters']} dead letters"
    )
    click.echo(f"claim age    {facts['claim_age']:.1f} s")
    click.echo(f"retry rate   {facts['retry_rate']:.1%} of the attempts of live workers")
    for window in facts["lately"]:
        click.echo(f"{WINDOWS[window['seconds']]:<12} {_lately_in_words(window)}")
    click.echo(f"workers      {facts['live_workers']} live")
    click.echo(f"housekeeping {_chores_in_words(facts['chores'])}")
    click.echo()
    columns = ["queue", "pending", "scheduled", "retrying", "processing", "dead_letters", "claim_age", "paused_at",
               "completed_1h", "failed_1h", "dead_letters_1h"]  # fmt: skip
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


def lately(rows: Sequence[Mapping[str, Any]], queues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What ended within each of the WINDOWS; what ended in the longest is added to the queues."""
    reach = next((float(row["reach"]) for row in rows if row["reach"] is not None), math.inf)
    found: list[dict[str, Any]] = []
    for window in WINDOWS:
        part = reach < window
        counts: dict[str, dict[str, int]] = {}
        for row in rows:
            if row["queue"] is not None and row["seconds"] == window:
                projected = part and row["status"] != "dead_letter"
                number = round(row["jobs"] * window / max(reach, 1.0)) if projected else row["jobs"]
                counts.setdefault(row["queue"], {})[row["status"]] = number
        sums = {status: sum(queue.get(status, 0) for queue in counts.values()) for status in STATUSES}
        found.append({"seconds": window, "estimated": part, **sums})
    known = {row["queue"]: row for row in queues}
    for name in sorted({*counts, *known}):
        row = known.get(name) or {"queue": name, **dict.fromkeys(LIVE_COUNTS, 0), "claim_age": None, "paused_at": None}
        row |= {f"{column}_1h": counts.get(name, {}).get(status, 0) for status, column in PER_QUEUE.items()}
        known[name] = row
    queues[:] = [known[name] for name in sorted(known)]
    return found


def _lately_in_words(window: Mapping[str, Any]) -> str:
    about = "about " if window["estimated"] else ""
    always = ("completed", "failed", "dead_letter")
    words = [
        f"{window[status]} {'dead letters' if status == 'dead_letter' else status}"
        for status in STATUSES
        if status in always or window[status]
    ]
    return about + ", ".join(words)


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
