from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import click

from ..app import Holdfast
from ..errors import NotFound
from ..model.moments import moment
from ..model.outcome import Final
from ..views.questions import LIVE, LiveStatus, job_progress
from .choosing import choosing_options, chosen, print_dry_run
from .common import JOB_ID, json_option, plain, print_json, print_table, run, safe, schema_option, text
from .explaining import print_explanation

STOPPABLE: list[LiveStatus] = ["pending", "processing", "blocked"]
ENDED = ["completed", *(status.value for status in Final)]


@click.group()
def command() -> None:
    """List, show, explain, cancel and run jobs."""


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
        none = "No such live jobs" if queue or kind else "No live jobs"
        hint = f"{none}. For ended ones: --status completed, failed, cancelled …"
        print_table(rows, columns, "no such jobs" if status else hint)


@command.command()
@click.argument("id", type=JOB_ID)
@json_option
@schema_option
def show(id: UUID, as_json: bool, schema: str) -> None:
    """Show one job, its errors, and what happens next.

    With its owner, lease and attempts. Why it does not run, and what to do: holdfast job explain ID.
    """

    async def work(app: Holdfast) -> dict[str, Any]:
        rows = await app._calls.run("views", "job", id)
        if not rows:
            raise NotFound(
                f"There is no job {id} in schema {schema}; ended jobs are kept for archive_days, or as their task "
                "says (keep)"
            )
        explanation = await app.explain(id)
        head = explanation.head.id if explanation.head is not None else None
        return {**plain(rows[0]), "next": explanation.next, "blocked_by": head}

    job = run(schema, work)
    if as_json:
        print_json(job)
        return
    job["progress"] = job_progress(job["progress"])
    for name in ("id", "kind", "queue", "status", "next", "progress", "key", "priority", "attempts", "max_attempts",
                 "claimed_by", "lease_expires_at", "generation", "available_at", "expires_at", "created_at",
                 "finished_at", "idempotency_key", "version", "payload", "result"):  # fmt: skip
        if job[name] is not None:
            click.echo(f"{name.replace('_', ' '):<16} {safe(text(job[name]), 200)}")
    for error in job["errors"] or []:
        click.echo(safe(f"attempt {error.get('attempt')} on {error.get('worker')} at {_when(error.get('at'))}:", 200))
        click.echo(safe(f"    {error.get('error')}: {error.get('message')}", 200))
    _print_trace(job["errors"] or [])


def _when(stored: Any) -> str:
    """A time in a record of an attempt, as all times are shown. Text written by hand may be no time."""
    try:
        at = datetime.fromisoformat(stored)
        return moment(at if at.tzinfo is not None else at.replace(tzinfo=UTC))
    except (TypeError, ValueError):
        return str(stored)


def _print_trace(errors: list[dict[str, Any]]) -> None:
    """Print where the last attempt failed; --json has the earlier ones."""
    trace = str((errors[-1].get("trace") if errors else None) or "")
    for line in trace.splitlines():
        click.echo(safe(f"    {line}", 200))


@command.command()
@choosing_options("HOLDFAST_JOB_CANCEL_ALL", "job", "Enqueued")
@click.option("--status", type=click.Choice(STOPPABLE))
@click.option("--reason", default="cancelled", show_default=True)
def cancel(
    ids: tuple[UUID, ...],
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    schema: str,
    reason: str,
    status: LiveStatus | None,
    **filters: Any,
) -> None:
    """Cancel jobs. Choose them by id or by filter.

    A waiting job ends at once; the handler of a running one is told to stop. Not for dead letters: see holdfast dead
    discard.
    """
    filtered = everything or status is not None or any(filters.values())
    wanted = [status] if status else STOPPABLE
    these = chosen(schema, ids, filtered, "jobs", *({"status": one, **filters} for one in wanted))
    if dry_run:
        print_dry_run("cancel", these, as_json)
        return
    if these and not yes:
        click.confirm(f"Cancel job {ids[0]}?" if len(ids) == 1 else f"Cancel {len(these)} jobs?", abort=True)
    if len(ids) == 1 and not as_json:
        became = run(schema, lambda app: app.cancel(ids[0], reason))
        click.echo("its handler is being told to stop" if became == "processing" else f"it is {became}")
        return

    async def work(app: Holdfast) -> dict[UUID, str]:
        return await app.cancel_many(these, reason)

    found = run(schema, work) if these else {}
    told = [id for id, became in found.items() if became == "processing"]
    ended = [id for id, became in found.items() if became != "processing"]
    if as_json:
        print_json({"cancelled": ended, "processing": told})
    else:
        click.echo(f"cancelled {len(ended)} of {len(these)}; {len(told)} handlers are being told to stop")
    if missed := sorted(set(ids) - found.keys()):
        names = ", ".join(map(str, missed))
        raise NotFound(f"not cancelled, because they have ended or are dead letters (holdfast dead discard): {names}")


@command.command("run-now")
@choosing_options("HOLDFAST_JOB_RUN_NOW_ALL", "job", "Enqueued")
def run_now(
    ids: tuple[UUID, ...], everything: bool, dry_run: bool, yes: bool, as_json: bool, schema: str, **filters: Any
) -> None:
    """Run jobs now that are waiting for their time or their retry. Choose them by id or by filter.

    They become due; the next free worker claims them. Their attempts are counted as before.
    """
    filtered = everything or any(filters.values())
    these = chosen(schema, ids, filtered, "jobs", {"waiting": True, **filters})
    if dry_run:
        print_dry_run("run now", these, as_json)
        return
    if these and not yes and filtered:
        click.confirm(f"Run {len(these)} waiting jobs now?", abort=True)
    found = run(schema, lambda app: app.run_now(these)) if these else []
    if as_json:
        print_json({"due": found})
    else:
        click.echo(f"{len(found)} of {len(these)} are due now")
    if missed := sorted(set(ids) - set(found)):
        names = ", ".join(map(str, missed))
        raise NotFound(f"not waiting for a time or a retry: {names}; see holdfast job show ID")


@command.command()
@click.argument("id")
@json_option
@schema_option
def explain(id: str, as_json: bool, schema: str) -> None:
    """Say why a job does not run, and what happens to it next.

    ID is the id of a job, or the id with which a workflow instance was started. The first reason is the answer; the
    others also apply. Exit code 1: there is no such job.
    """
    found = run(schema, lambda app: app.explain(id))
    if as_json:
        print_json(found)
    else:
        print_explanation(found)
    sys.exit(1 if found.id is None else 0)
