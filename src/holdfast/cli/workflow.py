from __future__ import annotations

import sys
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from ..app import Holdfast
from ..errors import HoldfastError, InvalidInput
from ..instance_states import InstanceState, StepState
from ..instances import STATES, Signalled
from ..loading import load_app
from ..model.flow import UNDO_PREFIX
from ..model.limits import check_modules
from ..model.moments import moment, span
from ..model.words import plural
from ..replaying import Check, Replayed, replay_all
from .common import (
    complain,
    json_option,
    print_json,
    print_table,
    printable,
    run,
    safe,
    schema_option,
    text,
    yes_option,
)

NO_ANSWER = 2
"""The exit code if nothing could be checked."""
NONE = "no live instances; one that you have just started is listed once a worker has registered its workflow"
EVERY = 2.0
"""Seconds between two lines about the progress of a check."""


@click.group()
def command() -> None:
    """Look at workflow instances; signal, cancel, pause, resume and restart them; check new code against them.

    INSTANCE is the id given when it was started, such as checkout:9182, or the id of its job.
    """


@command.command("list")
@click.option("--workflow", help="Only instances of this workflow.")
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only these; may be repeated.")
@click.option("--limit", type=click.IntRange(1, 10000), default=50, show_default=True)
@json_option
@schema_option
def list_(workflow: str | None, states: tuple[str, ...], limit: int, as_json: bool, schema: str) -> None:
    """List live instances and what they wait for.

    Shows the state of each, and since when. Those that have been in their state longest come first.

    For ended ones, see holdfast job list --status completed --kind WORKFLOW, and holdfast workflow show.
    """
    found = run(schema, lambda app: app.list_instances(workflow, state=list(states) or None, limit=limit))
    if as_json:
        print_json([_plain(each, whole=False) for each in found])
        return
    rows = [
        {
            "instance": each.id, "workflow": each.workflow, "version": each.version, "state": each.state,
            "since": each.since, "waits_for": _waits(each) or None, "until": each.wake_at, "runs": each.runs,
            "last_error": each.last_error,
        }
        for each in found
    ]  # fmt: skip
    columns = ["instance", "workflow", "version", "state", "since", "waits_for", "until", "runs", "last_error"]
    print_table(rows, columns, "no such instances" if states else NONE)


@command.command()
@click.argument("instance")
@json_option
@schema_option
def show(instance: str, as_json: bool, schema: str) -> None:
    """Show INSTANCE, live or ended, and its steps.

    A timeline of its steps, waits and retries, and what it waits for.

    The name of a step, as it is shown here, is what holdfast workflow restart takes. To see why it does not continue,
    and what to do: holdfast job explain INSTANCE.
    """
    state = run(schema, lambda app: app.instance(instance))
    if as_json:
        print_json(_plain(state, whole=True))
        return
    _print_head(state)
    _print_steps(state)
    for signal in state.signals:
        if signal.taken_by is None:
            said = f" {safe(text(signal.payload))}" if signal.payload is not None else ""
            click.echo(f"signal {safe(signal.name)}{said}, sent {moment(signal.sent_at)}: not taken yet")
    _print_error(state)


def _print_head(state: InstanceState) -> None:
    lines: dict[str, Any] = {
        "instance": state.id,
        "workflow": f"{state.workflow} version {state.version}",
        "state": f"{state.state} since {moment(state.since)} ({_ago(state.since)})",
        "waits for": _waits(state) or None,
        "until": f"{moment(state.wake_at)} ({_in(state.wake_at)})" if state.wake_at and not state.ended else None,
        "next": _next(state),
        "dead children": ", ".join(map(str, state.dead_children)) or None,
        "cancelled": state.cancel_requested_at,
        "job": state.job_id,
        "parent": state.parent_id,
        "queue": state.queue,
        "runs": state.runs,
        "started": state.created_at,
        "ended": state.finished_at,
        "arguments": state.arguments,
        "result": state.result,
    }
    for name, value in lines.items():
        if value is not None:
            click.echo(f"{name:<14} {safe(text(value), 200)}")


def _next(state: InstanceState) -> str | None:
    match state.state:
        case "dead letter":
            return f"nothing, until you resume, restart or cancel it: holdfast workflow resume {state.id}"
        case "needs attention":
            return "nothing: the code does not fit its history. Deploy code that does, then holdfast workflow resume"
        case "paused":
            return f"nothing, until you resume it: holdfast workflow resume {state.id}"
        case "waiting" if state.dead_children:
            return f"a child is a dead letter: holdfast dead revive {state.dead_children[0]}, or discard it"
        case _:
            return None


def _print_steps(state: InstanceState) -> None:
    if not state.steps:
        click.echo("no steps are recorded")
        return
    steps = [step for step in state.steps if step.name != UNDO_PREFIX]
    name = max([4, *(len(safe(step.shown, 60)) for step in steps)])
    click.echo(f"\n{'began':<21}  {'took':>8}  {'step':<{name}}  what")
    for step in steps:
        began = moment(step.started_at) if step.started_at is not None else "-"
        took = span(step.took) if step.took is not None else "-"
        click.echo(f"{began:<21}  {took:>8}  {safe(step.shown, 60):<{name}}  {safe(_what(step, state), 200)}")
        for error in step.errors:
            at = f"{error['at']}: " if error.get("at") else ""
            line = f"{at}{error.get('error')}: {error.get('message')}"
            click.echo(f"{'':<21}  {'':>8}  {'':<{name}}  failed: {safe(line, 160)}")
    click.echo("")


def _what(step: StepState, state: InstanceState) -> str:
    attempts = f", {step.attempts} attempts" if step.attempts > 1 else ""
    until = f" until {moment(step.wake_at)} ({_in(step.wake_at)})" if step.wake_at is not None else ""
    match step.kind, step.status:
        case "sleep", "open":
            return f"sleeps{until}"
        case "sleep", _:
            return "slept"
        case "wait", "open" if step.started_at is not None:
            return f"has waited for a signal for {_ago(step.started_at)}{',' if until else ''}{until}"
        case "wait", "open":
            return f"waits for a signal{until}"
        case "wait", "timed_out":
            return "timed out"
        case "wait", _:
            return f"got {text(step.result)}"
        case "child", "open":
            return f"waits for job {step.child_id}"
        case "child", "done":
            return f"job {step.child_id} returned {text(step.result)}"
        case "child", _:
            return f"job {step.child_id} did not complete"
        case "patch", _:
            return "runs the patched code"
        case _, "open" if step.attempts:
            due = (
                f"; retried at {moment(state.wake_at)}"
                if f"retry:{step.shown}" in state.waits and state.wake_at
                else ""
            )
            return f"failed {step.attempts} time{'s' * (step.attempts != 1)}{due}"
        case _, "open":
            return "is run again" if f"retry:{step.shown}" in state.waits else "open"
        case _, "failed":
            return f"failed{attempts}"
        case _:
            return f"done{attempts}" + (f": {text(step.result)}" if step.result is not None else "")


def _print_error(state: InstanceState) -> None:
    last = state.errors[-1] if state.errors else None
    if last is None:
        if state.last_error:
            click.echo(f"{'last error':<14} {safe(state.last_error, 200)}")
        return
    click.echo(safe(f"last error: {last.get('error')}: {last.get('message')}", 200))
    diff = (last.get("details") or {}).get("diff")
    for line in str(diff or last.get("trace") or "").splitlines():
        click.echo(safe(f"    {line}", 200))


def _waits(state: InstanceState) -> str:
    return ", ".join(each.replace(":", " ", 1) for each in state.waits)


def _plain(state: InstanceState, whole: bool) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(state, builtin_types=(datetime,))
    if not whole:
        for name in ("arguments", "result", "errors", "steps", "signals", "finished_at"):
            del plain[name]
    return plain


def _ago(at: datetime | None) -> str:
    return span(max((datetime.now(UTC) - at).total_seconds(), 0.0)) if at is not None else "-"


def _in(at: datetime) -> str:
    left = (at - datetime.now(UTC)).total_seconds()
    return f"in {span(left)}" if left > 0 else "due"


@command.command()
@click.argument("instance")
@click.argument("name")
@click.argument("payload", required=False)
@click.option("--id", "signal_id", help="The signal has one effect, however often it is sent with this id.")
@json_option
@schema_option
def signal(instance: str, name: str, payload: str | None, signal_id: str | None, as_json: bool, schema: str) -> None:
    """Send the signal NAME to INSTANCE, with PAYLOAD as JSON.

    Says what became of it: woken (the instance waited for it), kept (for its next wait of this name), known (sent
    before, with this id), or ended (the instance is over: nothing was added).
    """
    try:
        value = msgspec.json.decode(payload) if payload is not None else None
    except msgspec.DecodeError as error:
        raise InvalidInput(
            "payload", f'expected JSON, such as \'{{"carrier": "DHL"}}\', got {payload!r}: {error}'
        ) from None

    async def work(app: Holdfast) -> tuple[Signalled, InstanceState | None]:
        became = await app.signal(instance, name, value, signal_id=signal_id)
        if as_json or became is not Signalled.KEPT:
            return became, None
        try:
            return became, await app.instance(instance)
        except HoldfastError:  # the signal is stored; only where the instance stands is not known
            return became, None

    became, state = run(schema, work)
    if as_json:
        print_json({"instance": instance, "signal": name, "became": became.value})
    else:
        click.echo(printable(f"{became.value}: {_became(became, name, state)}"))


def _became(became: Signalled, name: str, state: InstanceState | None) -> str:
    match became:
        case Signalled.WOKEN:
            return "the instance was waiting for it and continues"
        case Signalled.KNOWN:
            return "it was sent before with this id; nothing was added"
        case Signalled.ENDED:
            return "the instance has ended; nothing was added"
        case Signalled.KEPT:
            if state is not None and f"signal:{name}" in state.waits:  # it is paused, for example
                return f"the instance is {state.state}; its wait for {name!r} takes it when it continues"
            waits = f" (it is {': '.join(filter(None, (state.state, _waits(state))))})" if state is not None else ""
            return f"the instance is not waiting for it now{waits}; its next wait for {name!r} takes it"


@command.command()
@click.argument("instance")
@click.option("--reason", default="cancelled", show_default=True)
@yes_option
@schema_option
def cancel(instance: str, reason: str, yes: bool, schema: str) -> None:
    """Cancel INSTANCE, and undo its finished steps.

    No further step starts, and its children are cancelled.
    """
    if not yes:
        click.confirm(f"Cancel {instance}, and undo its finished steps?", abort=True)
    became = run(schema, lambda app: app.cancel_instance(instance, reason))
    undoes = "its steps are being undone; then it ends"
    click.echo("it had not started, and is cancelled" if became == "cancelled" else undoes)


@command.command()
@click.argument("instance")
@schema_option
def pause(instance: str, schema: str) -> None:
    """Pause INSTANCE after its current step.

    It finishes the step that it is in, and nothing wakes it. Signals are kept.
    """
    run(schema, lambda app: app.pause_instance(instance))
    click.echo(f"{instance} is paused; holdfast workflow resume {instance}")


@command.command()
@click.argument("instance")
@schema_option
def resume(instance: str, schema: str) -> None:
    """Resume INSTANCE if it is paused or has failed.

    It may be paused, a dead letter, or need attention. Recorded steps are not run again.
    """
    resumed = run(schema, lambda app: app.resume_instance(instance))
    click.echo("it continues" if resumed else "nothing was done: it is neither paused nor a dead letter")


@command.command()
@click.argument("instance")
@click.option("--from", "step", required=True, metavar="STEP",
              help="The name of the step, as in holdfast workflow show.")  # fmt: skip
@yes_option
@schema_option
def restart(instance: str, step: str, yes: bool, schema: str) -> None:
    """Run INSTANCE again from a given step.

    This step and all later ones are forgotten; nothing is undone. Not while it
    runs: pause it first.
    """
    if not yes:
        click.confirm(f"Forget {step} and all later steps of {instance}, and run them again?", abort=True)
    forgotten = run(schema, lambda app: app.restart_instance(instance, step))
    click.echo(f"{forgotten} step{'s' * (forgotten != 1)} forgotten; it runs again from {step}")


@command.command()
@click.argument("app")
@click.option("--workflow", help="Only instances of this workflow.")
@click.option("--import", "imports", multiple=True, metavar="MODULE",
              help="Import this module, which has workflows; repeat it for more.")  # fmt: skip
@json_option
def check(app: str, workflow: str | None, imports: tuple[str, ...], as_json: bool) -> None:
    """Check the code of APP against live instances.

    Replays their histories against the code of APP, given as module:attribute. Meant for CI before a deploy. It
    only reads, and runs no step. The database is the one that APP uses.

    Exit code 0: all instances continue with this code. 1: some would break: their steps differ (diff), this code does
    not have their version (unknown version), arguments or results do not fit their types (undecodable), or the code
    raised (raised). 2: nothing could be checked.
    """
    try:
        loaded = load_app(app, check_modules("--import", imports))
        found, counts = run("", lambda _: _checked(loaded, workflow), loaded)
    except HoldfastError as error:
        complain(str(error), NO_ANSWER)
    if as_json:
        print_json({"ok": not found, "instances": counts, "breaking": [msgspec.to_builtins(each) for each in found]})
    else:
        _print_check(found, counts)
    sys.exit(1 if found else 0)


async def _checked(app: Holdfast, workflow: str | None) -> tuple[list[Replayed], dict[str, int]]:
    """Those that would break, and how many there are of each kind."""
    found: list[Replayed] = []
    counts: Counter[str] = Counter()
    said = time.monotonic()
    async for each in replay_all(app, workflow):
        counts[each.check.value] += 1
        if each.check is not Check.OK:
            found.append(each)
        if time.monotonic() - said > EVERY:
            said = time.monotonic()
            click.echo(f"{counts.total()} instances so far, {len(found)} would break", err=True)
    return found, {each.value: counts[each.value] for each in Check}


def _print_check(found: list[Replayed], counts: dict[str, int]) -> None:
    for each in found:
        click.echo(
            safe(f"{each.check.value}: {each.instance} ({each.workflow} version {each.version}): {each.problem}", 400)
        )
        for line in each.diff.splitlines():
            click.echo(printable(f"    {line}"))
    total = sum(counts.values())
    if not total:
        click.echo("No live instances: nothing to check")
        return
    live = plural(total, "live instance")
    if not found:
        click.echo(f"{live}: {'it continues' if total == 1 else 'all continue'} with this code")
        return
    parts = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    click.echo(f"\n{live}: {parts}. What to do:")
    click.echo("  diff: keep the old code under its version (@workflow.version(…)), or use flow.patched(…)")
    click.echo("  unknown version: keep the code of this version until its instances have ended")
