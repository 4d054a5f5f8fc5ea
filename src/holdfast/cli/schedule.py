from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from ..app import Holdfast
from ..model.limits import check_key, check_name
from ..schedules import operating
from ..schedules.declared import Declared, checked_plan
from ..schedules.operating import ScheduleState
from ..schedules.policy import POLICIES
from ..schedules.timing import timing
from .common import json_option, print_json, print_table, run, safe, schema_option, text, yes_option
from .enqueue import parse_arguments


@click.group()
def command() -> None:
    """Look at schedules; pause, resume, trigger, add and remove them."""


@command.command("list")
@json_option
@schema_option
def list_(as_json: bool, schema: str) -> None:
    """List schedules: when each fires next, or why it does not."""
    found = run(schema, lambda app: app.list_schedules())
    if as_json:
        print_json([_shown(each) for each in found])
        return
    rows = [
        {
            "name": each.name, "kind": each.kind, "when": each.when, "next": next(iter(each.next_slots), None),
            "last": each.last_slot, "missed": each.missed, "skipped": each.skipped, "state": each.state,
        }
        for each in found
    ]  # fmt: skip
    columns = ["name", "kind", "when", "next", "last", "missed", "skipped", "state"]
    print_table(rows, columns, "no schedules; workers add those of their code when they start")


@command.command()
@click.argument("name")
@json_option
@schema_option
def show(name: str, as_json: bool, schema: str) -> None:
    """Show the schedule NAME and its next five slots, in its time zone and in UTC."""
    found = run(schema, lambda app: operating.state(app._calls, name))
    if as_json:
        print_json(_shown(found))
        return
    lines = {
        "schedule": f"{found.name} ({'in code' if found.source == 'code' else 'added at run time'})",
        "state": found.state,
        "when": found.when,
        "job": f"{found.kind} {text(found.args)}",
        "options": text(found.options),
        "missed": f"{found.missed}, after a grace period of {found.grace}; {found.skipped} skipped so far",
        "jitter": str(found.jitter) if found.jitter else "none",
        "last slot": _in_both(found.last_slot, found.tz) if found.last_slot else "-",
        "last job": text(found.last_job),
    }
    for label, words in lines.items():
        click.echo(f"{label:<10} {safe(words, 200)}")
    for number, slot in enumerate(found.next_slots):
        click.echo(f"{'next' if number == 0 else '':<10} {_in_both(slot, found.tz)}")


@command.command()
@click.argument("name")
@yes_option
@schema_option
def pause(name: str, yes: bool, schema: str) -> None:
    """Pause the schedule NAME: nothing fires until you resume it."""
    if not yes:
        click.confirm(f"Pause schedule {name}? Slots during the pause are not fired later.", abort=True)
    run(schema, lambda app: app.pause_schedule(name))
    click.echo(f"schedule {name} is paused. To resume it: holdfast schedule resume {name}")


@command.command()
@click.argument("name")
@schema_option
def resume(name: str, schema: str) -> None:
    """Fire the schedule NAME again, from its next slot on."""
    run(schema, lambda app: app.resume_schedule(name))
    click.echo(f"schedule {name} is resumed")


@command.command()
@click.argument("name")
@json_option
@schema_option
def trigger(name: str, as_json: bool, schema: str) -> None:
    """Enqueue an extra job of the schedule NAME now, even while it is paused."""
    job = run(schema, lambda app: operating.trigger(app._calls, name))
    if as_json:
        print_json({"id": job})
    else:
        click.echo(job)


@command.command()
@click.argument("name")
@click.argument("kind")
@click.argument("arguments", default="{}")
@click.option("--cron", help="Five fields, such as '0 7 * * 1-5'.")
@click.option("--every", help="A period, such as 5m.")
@click.option("--tz", default="UTC", show_default=True, help="The time zone of --cron, such as Europe/Berlin.")
@click.option("--missed", type=click.Choice(POLICIES), default="latest", show_default=True,
              help="What happens to missed slots.")  # fmt: skip
@click.option("--grace", default="30s", show_default=True, help="How late a slot may be before it is missed.")
@click.option("--jitter", default="0s", show_default=True,
              help="Delay each slot by a pseudo-random time, at most this long.")  # fmt: skip
@click.option("-q", "--queue", default="default", show_default=True)
@click.option("--key", help="Jobs with the same key belong together.")
@click.option("--priority", type=click.IntRange(0, 3), default=1, show_default=True, help="0 runs first.")
@click.option("--max-attempts", type=click.IntRange(1), default=5, show_default=True)
@click.option("--version", type=click.IntRange(1), default=1, show_default=True, help="Of the payload.")
@schema_option
def add(
    name: str,
    kind: str,
    arguments: str,
    cron: str | None,
    every: str | None,
    tz: str,
    missed: str,
    grace: str,
    jitter: str,
    queue: str,
    key: str | None,
    priority: int,
    max_attempts: int,
    version: int,
    schema: str,
) -> None:
    """Add the schedule NAME, or replace it: jobs of KIND with ARGUMENTS, a JSON object.

    No application is loaded, so nothing is known of the task: name its queue with -q.
    """
    plan = checked_plan(name, timing(cron, every, tz), missed, grace, jitter)
    options = {
        "queue": check_name("queue", queue), "priority": priority, "max_attempts": max_attempts, "version": version,
        **({"key": check_key("key", key)} if key is not None else {}),
    }  # fmt: skip
    declared = Declared.of(plan, kind, parse_arguments(kind, arguments), options)

    async def work(app: Holdfast) -> ScheduleState:
        await operating.put(app._calls, declared)
        return await operating.state(app._calls, name)

    found = run(schema, work)
    slot = next(iter(found.next_slots), None)
    following = f"; next slot {_in_both(slot, found.tz)}" if slot else f", {found.state}"
    click.echo(f"schedule {name}: {found.when}{following}")


@command.command()
@click.argument("name")
@yes_option
@schema_option
def remove(name: str, yes: bool, schema: str) -> None:
    """Remove the schedule NAME. Jobs that it has enqueued stay; workers add those of their code again."""
    if not yes:
        click.confirm(f"Remove schedule {name}?", abort=True)
    source = run(schema, lambda app: operating.remove(app._calls, name))
    more = "; a worker that has it in its code adds it again" if source == "code" else ""
    click.echo(f"schedule {name} is removed{more}")


@command.command()
@click.argument("name")
@yes_option
@schema_option
def reset(name: str, yes: bool, schema: str) -> None:
    """Restart the schedule NAME from the current time, after the database's clock was ahead.

    No slot gets a second job.
    """
    if not yes:
        click.confirm(f"Reset schedule {name}? Slots that are missed now are not fired later.", abort=True)
    run(schema, lambda app: app.reset_schedule(name))
    click.echo(f"schedule {name} counts from now on")


def _in_both(slot: datetime, tz: str) -> str:
    utc = f"{slot:%Y-%m-%d %H:%M:%S} UTC"
    if tz == "UTC":
        return utc
    return f"{slot.astimezone(ZoneInfo(tz)):%Y-%m-%d %H:%M:%S} {tz}  {utc}"


def _shown(found: ScheduleState) -> dict[str, Any]:
    names = [name for name in ScheduleState.__dataclass_fields__ if name not in ("every", "grace", "jitter", "now")]
    durations = {name: getattr(found, name) for name in ("every", "grace", "jitter")}
    return {
        **{name: getattr(found, name) for name in names},
        **{name: value.total_seconds() if value is not None else None for name, value in durations.items()},
        "state": found.state,
    }
