from __future__ import annotations

from typing import Any
from uuid import UUID

import click

from ..app import Holdfast
from ..errors import NotFound
from ..model.outcome import Final
from ..views.questions import next_step
from .common import JOB_ID, json_option, plain, print_json, print_table, run, safe, schema_option, text, yes_option

LIVE = ["pending", "processing", "blocked", "dead_letter"]
ENDED = ["completed", *(status.value for status in Final)]


@click.group()
def command() -> None:
    """List, show and cancel jobs."""


@command.command("list")
@click.option("--status", type=click.Choice([*LIVE, *ENDED]), help="Default: all live ones.")
@click.option("-q", "--queue")
@click.option("--kind")
@click.option("--limit", type=click.IntRange(1, 10000), default=50, show_default=True)
@json_option
@schema_option
def list_(status: str | None, queue: str | None, kind: str | None, limit: int, as_json: bool, schema: str) -> None:
    """List jobs, newest first."""
    view = "jobs_ended" if status in ENDED else "jobs_live"

    async def work(app: Holdfast) -> list[dict[str, Any]]:
        return [plain(row) for row in await app._calls.run("views", view, status, queue, kind, limit)]

    rows = run(schema, work)
    if as_json:
        print_json(rows)
    else:
        columns = ["id", "queue", "kind", "status", "key", "attempts", "available_at", "last_error"]
        nothing = "no such jobs" if status else "no such jobs; ended ones: --status completed, failed, cancelled …"
        print_table(rows, columns, nothing)


@command.command()
@click.argument("id", type=JOB_ID)
@json_option
@schema_option
def show(id: UUID, as_json: bool, schema: str) -> None:
    """Show one job: owner, lease, attempts, every error, and what happens next."""

    async def work(app: Holdfast) -> dict[str, Any]:
        rows = await app._calls.run("views", "job", id)
        if not rows:
            raise NotFound(f"There is no job {id} in schema {schema}; ended jobs are kept for archive_days")
        return plain(rows[0])

    job = run(schema, work)
    job["next"] = next_step(job)
    if as_json:
        print_json(job)
        return
    for name in ("id", "kind", "queue", "status", "next", "key", "priority", "attempts", "max_attempts", "claimed_by",
                 "lease_expires_at", "generation", "available_at", "created_at", "finished_at", "idempotency_key",
                 "version", "payload", "result"):  # fmt: skip
        if job[name] is not None:
            click.echo(f"{name.replace('_', ' '):<16} {safe(text(job[name]), 200)}")
    for error in job["errors"] or []:
        click.echo(safe(f"attempt {error.get('attempt')} on {error.get('worker')} at {error.get('at')}:", 200))
        click.echo(safe(f"    {error.get('error')}: {error.get('message')}", 200))
    _print_trace(job["errors"] or [])


def _print_trace(errors: list[dict[str, Any]]) -> None:
    """Print where the last attempt failed; --json has the earlier ones."""
    trace = str((errors[-1].get("trace") if errors else None) or "")
    for line in trace.splitlines():
        click.echo(safe(f"    {line}", 200))


@command.command()
@click.argument("id", type=JOB_ID)
@click.option("--reason", default="cancelled", show_default=True)
@yes_option
@schema_option
def cancel(id: UUID, reason: str, yes: bool, schema: str) -> None:
    """Cancel a job. A waiting job ends at once; the handler of a running one is told to stop. Not for dead letters."""
    if not yes:
        click.confirm(f"Cancel job {id}?", abort=True)
    status = run(schema, lambda app: app.cancel(id, reason))
    click.echo(
        {
            "processing": "its handler is being told to stop",
            "dead_letter": "not cancelled: it is a dead letter, of which nothing runs any more",
        }.get(status, f"it is {status}")
    )
