from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
import click

from ..app import Holdfast
from ..model.numbers import Count
from ..model.outcome import Final
from ..views import numbers
from ..views.numbers import Numbers
from .common import json_option, plain, print_json, print_table, run, safe, schema_option

WINDOWS = {300.0: "last 5 min", 3600.0: "last hour"}
PAGES = 2000
"""The most pages of the archive, 8 KiB each, that are read for what ended lately."""
STATUSES = ("completed", "failed", "dead_letter", *(status.value for status in Final if status is not Final.FAILED))
PER_QUEUE = {"completed": "completed", "failed": "failed", "dead_letter": "dead_letters"}
LIVE_COUNTS = ("pending", "due", "scheduled", "sleeping", "processing", "blocked", "dead_letters", "retrying")
COUNTED = 10_000
"""Rows that wait for a chore are counted up to this number."""
LOOKED = 500
"""Rows per queue and priority among which those are searched that no worker can run."""


@click.command()
@click.option("--exact", is_flag=True, help="Count the live jobs now. It reads all of them, which can take seconds.")
@json_option
@schema_option
def command(exact: bool, as_json: bool, schema: str) -> None:
    """Show depth, claim age and retry rate, what ended lately, and the jobs that no worker can run.

    The numbers of live jobs are those that a worker has measured, a few seconds ago. Large ones are estimated from a
    sample, and marked with "≈". Without a worker, they are measured now.

    What ended lately is read from the newest pages of the archive. In a busy installation these do not reach back an
    hour; the numbers are then projected from the time that they cover, and marked with "about".
    """

    async def work(app: Holdfast) -> dict[str, Any]:
        facts = await gather(app, exact)
        rows = [dict(row) for row in await app._calls.run("views", "lately", [*WINDOWS], PAGES, COUNTED)]
        facts["lately"] = lately(rows, facts["queues"])
        return facts

    facts = run(schema, work)
    if as_json:
        print_json(facts)
        return
    about = "" if facts["exact"] else "≈ "
    ago = f"; measured {facts['measured']:.0f} s ago" if facts["measured"] >= 1 else ""
    click.echo(
        f"depth        {about}{facts['depth']} pending, {facts['processing']} processing, "
        f"{about}{facts['dead_letters']} dead letters{ago}"
    )
    click.echo(f"claim age    {facts['claim_age']:.1f} s")
    click.echo(f"retry rate   {facts['retry_rate']:.1%} of the attempts of the last 5 minutes")
    for window in facts["lately"]:
        click.echo(f"{WINDOWS[window['seconds']]:<12} {_lately_in_words(window)}")
    click.echo(f"workers      {facts['live_workers']} live")
    click.echo(f"housekeeping {_chores_in_words(facts['chores'])}")
    click.echo()
    columns = ["queue", "pending", "scheduled", "sleeping", "retrying", "processing", "dead_letters", "claim_age",
               "paused_at", "completed_1h", "failed_1h", "dead_letters_1h"]  # fmt: skip
    print_table([_marked(queue) for queue in facts["queues"]], columns, "no queues yet")
    if facts["unclaimable"]:
        click.echo("\nno worker can run:")
        print_table(facts["unclaimable"], ["queue", "kind", "version", "rows", "since", "reason", "app"], "")


def _marked(queue: Mapping[str, Any]) -> dict[str, Any]:
    """The counts that are estimates, with their mark."""
    inexact = not queue.get("exact", True)
    return {name: f"≈ {value}" if inexact and name in LIVE_COUNTS else value for name, value in queue.items()}


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
        row = known.get(name) or {
            "queue": name,
            **dict.fromkeys(LIVE_COUNTS, 0),
            "claim_age": None,
            "paused_at": None,
            "exact": True,
        }
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


async def gather(app: Holdfast, exact: bool = False) -> dict[str, Any]:
    """Everything that `stats` shows; `exact`: counted now, whatever it costs."""
    found = await numbers.current(app._calls)
    workers = [plain(row) for row in await app._calls.run("views", "workers")]
    live = [worker for worker in workers if worker["live"]]
    if exact:
        queues = [{**plain(row), "exact": True} for row in await app._calls.run("views", "queues")]
        lacking = [{**plain(row), "more": False} for row in await app._calls.run("views", "unclaimable")]
    else:
        queues = _queues(found, await app._calls.run("views", "queue_rows"))
        lacking = [plain(row) for row in await app._calls.run("views", "unclaimable_lately", LOOKED)]
    return {
        "depth": sum(queue["pending"] for queue in queues),
        "processing": sum(queue["processing"] for queue in queues),
        "dead_letters": sum(queue["dead_letters"] for queue in queues),
        "claim_age": max((queue["claim_age"] or 0.0 for queue in queues), default=0.0),
        "retry_rate": found.retry_rate,
        "live_workers": len(live),
        "up": max((worker["up"] for worker in live), default=0.0),
        "measured": 0.0 if exact else found.age,
        "exact": all(queue["exact"] for queue in queues),
        "queues": queues,
        "unclaimable": lacking,
        "chores": [plain(row) for row in await app._calls.run("views", "chores", COUNTED)],
    }


def _queues(found: Numbers, rows: Sequence[Mapping[str, Any] | asyncpg.Record]) -> list[dict[str, Any]]:
    """The queues from the gauges, in the form of the statement that counts them."""
    known = {row["queue"]: row for row in rows}
    return [
        {
            "queue": queue.queue,
            **{state: queue.jobs.get(state, Count()).value for state in LIVE_COUNTS},
            "paused_at": known[queue.queue]["paused_at"] if queue.queue in known else None,
            "mode": known[queue.queue]["mode"] if queue.queue in known else "free",
            "claim_age": queue.claim_age,
            "exact": all(count.exact for count in queue.jobs.values()),
        }
        for queue in found.queues
        if queue.jobs or queue.queue in known
    ]
