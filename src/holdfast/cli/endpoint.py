from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import click

from ..app import Holdfast
from ..errors import InvalidInput
from ..model.words import plural
from ..webhooks import operating
from ..webhooks.addresses import Policy
from ..webhooks.operating import EndpointAttempt
from ..webhooks.transport import Webhooks
from .common import (
    DURATION,
    ENDPOINT_ID,
    EVENT_ID,
    json_option,
    print_json,
    print_table,
    run,
    safe,
    schema_option,
    text,
    time_or_ago,
    yes_option,
)  # fmt: skip

FLAGS = {"allow_http": "--allow-http", "allow_private": "--allow-private", "ports": "--any-port"}
"""For each setting of `Webhooks(…)` that errors name: the flag that does the same here."""


@click.group()
def command() -> None:
    """Look at webhook endpoints; add, pause, disable, test, recover and replay to them, and rotate their secrets."""


@command.command()
@click.argument("url")
@click.option(
    "--type", "types", multiple=True, help="Events of this type, or 'order.*'; can be repeated. All by default."
)
@click.option("--tenant", help="Only events of this tenant; '*': of all. By default, events without a tenant.")
@click.option("--ordered", is_flag=True, help="Send events with the same key one at a time and in order.")
@click.option("--description", help="A note about the endpoint.")
@click.option("--allow-http", is_flag=True, help="Accept an http:// URL; the worker must allow it, too.")
@click.option("--allow-private", is_flag=True, help="Accept a private address; the worker must allow it, too.")
@click.option("--any-port", is_flag=True, help="Accept ports other than 443; the worker must allow them, too.")
@json_option
@schema_option
def add(
    url: str,
    types: tuple[str, ...],
    tenant: str | None,
    ordered: bool,
    description: str | None,
    allow_http: bool,
    allow_private: bool,
    any_port: bool,
    as_json: bool,
    schema: str,
) -> None:
    """Add an endpoint at URL, and show its secret. The secret is not shown again."""
    policy = Policy(allow_private, allow_http, None if any_port else (443,))
    try:
        added = run(
            schema,
            lambda app: operating.add(
                app._calls,
                url,
                types=types or ("*",),
                tenant=tenant,
                ordered=ordered,
                description=description,
                policy=policy,
            ),
        )
    except InvalidInput as error:
        raise InvalidInput(error.field, _with_flag(error.problem)) from None
    if as_json:
        print_json(asdict(added))
        return
    click.echo(f"endpoint  {added.id}")
    click.echo(f"secret    {added.secret}")
    click.echo("Give the secret to the receiver now: it is not shown again.")


@command.command("list")
@click.option("--tenant", help="Only those of this tenant.")
@json_option
@schema_option
def list_(tenant: str | None, as_json: bool, schema: str) -> None:
    """List endpoints and their state.

    Shows whether each is active, since when it has been failing, and how many events are held.
    """
    found = run(schema, lambda app: operating.states(app._calls, tenant=tenant))
    if as_json:
        print_json([asdict(each) for each in found])
        return
    columns = ["id", "tenant", "url", "status", "failing_since", "held"]
    print_table([asdict(each) for each in found], columns, "no endpoints; to add one: holdfast endpoint add URL")


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@json_option
@schema_option
def show(endpoint: UUID, as_json: bool, schema: str) -> None:
    """Show ENDPOINT."""
    found = run(schema, lambda app: operating.state(app._calls, endpoint))
    if as_json:
        print_json(asdict(found))
        return
    status = found.status
    if found.disabled_at is not None:
        status += f" since {text(found.disabled_at)}: {found.disabled_reason or 'no reason given'}"
    lines = {
        "endpoint": str(found.id),
        "url": found.url,
        "tenant": text(found.tenant),
        "types": ", ".join(found.types),
        "status": status,
        "failing": f"since {text(found.failing_since)}" if found.failing_since else "no",
        "held": plural(found.held, "event"),
        "ordered": "yes, per key" if found.ordered else "no",
        "secrets": ", ".join(f"made {text(each)}" for each in found.secrets),
        "added": text(found.created_at),
        "about": found.description or "-",
    }
    for label, words in lines.items():
        click.echo(f"{label:<10} {safe(words, 200)}")


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@yes_option
@schema_option
def pause(endpoint: UUID, yes: bool, schema: str) -> None:
    """Send nothing to ENDPOINT until it is resumed. Its events wait."""
    if not yes:
        click.confirm(f"Pause endpoint {endpoint}? Its events wait until it is resumed.", abort=True)
    held = run(schema, lambda app: operating.pause(app._calls, endpoint))
    wait = f"{plural(held, 'event')} wait{'s' * (held == 1)}"
    click.echo(f"paused; {wait}. To resume it: holdfast endpoint resume {endpoint}")


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@schema_option
def resume(endpoint: UUID, schema: str) -> None:
    """Resume sending to ENDPOINT, waiting events first."""
    moved = run(schema, lambda app: operating.resume(app._calls, endpoint))
    click.echo(f"active; {plural(moved, 'event')} had waited")


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@click.option("--reason", default="disabled by an operator", show_default=True)
@yes_option
@schema_option
def disable(endpoint: UUID, reason: str, yes: bool, schema: str) -> None:
    """Send nothing to ENDPOINT, and keep no new events for it. What waits now is held."""
    if not yes:
        click.confirm(f"Disable endpoint {endpoint}? It gets no events that are published from now on.", abort=True)
    held = run(schema, lambda app: operating.disable(app._calls, endpoint, reason))
    are = "is" if held == 1 else "are"
    click.echo(f"disabled; {plural(held, 'event')} {are} held. To enable it: holdfast endpoint enable {endpoint}")


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@schema_option
def enable(endpoint: UUID, schema: str) -> None:
    """Enable ENDPOINT again, held events first."""
    moved = run(schema, lambda app: operating.enable(app._calls, endpoint))
    click.echo(f"active; {plural(moved, 'event')} {'was' if moved == 1 else 'were'} held")
    click.echo(f"For events that it missed while it was disabled: holdfast endpoint recover {endpoint} --since 3d")


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@click.option("--overlap", type=DURATION, default="24h", show_default=True, help="How long the old secret stays valid.")
@click.option("--force", is_flag=True, help="Rotate even if the previous secret is still valid.")
@yes_option
@json_option
@schema_option
def rotate(endpoint: UUID, overlap: float, force: bool, yes: bool, as_json: bool, schema: str) -> None:
    """Give ENDPOINT a new secret, and show it. Requests are signed with both until the overlap is over."""
    if not yes:
        click.confirm(f"Replace the secret of endpoint {endpoint}?", abort=True)
    secret = run(schema, lambda app: operating.rotate(app._calls, endpoint, overlap, force))
    if as_json:
        print_json({"secret": secret})
        return
    click.echo(f"secret    {secret}")
    click.echo("Give it to the receiver before the old one expires: it is not shown again.")


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@click.option("--allow-http", is_flag=True, help="Send without TLS, too.")
@click.option("--allow-private", is_flag=True, help="Send to private addresses, too.")
@click.option("--any-port", is_flag=True, help="Send to ports other than 443, too.")
@json_option
@schema_option
@click.pass_context
def test(
    context: click.Context,
    endpoint: UUID,
    allow_http: bool,
    allow_private: bool,
    any_port: bool,
    as_json: bool,
    schema: str,
) -> None:
    """Send a signed test event to ENDPOINT, from here and now. Exits with 1 if the endpoint did not accept it."""
    webhooks = Webhooks(allow_http=allow_http, allow_private=allow_private, ports=None if any_port else (443,))
    found = run(schema, lambda app: operating.test(app._calls, endpoint, webhooks))
    if as_json:
        print_json(asdict(found))
    else:
        why_not = f"not accepted: {_with_flag(found.error or '')}"
        outcome = f"accepted: HTTP {found.status}" if found.delivered else why_not
        sent = "" if found.address is None else f", {found.ms:.0f} ms, {found.address}"
        click.echo(safe(f"{outcome}{sent}", 300))
        if found.response:
            click.echo(safe(found.response, 300))
    if not found.delivered:
        context.exit(1)


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@click.option("--since", type=DURATION, default="1d", show_default=True, help="How far to look back.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@json_option
@schema_option
def attempts(endpoint: UUID, since: float, limit: int, as_json: bool, schema: str) -> None:
    """List attempts to deliver to ENDPOINT, newest first."""
    found = run(schema, lambda app: operating.attempts(app._calls, endpoint, operating.instant(since), limit))
    if as_json:
        print_json([asdict(each) for each in found])
        return
    columns = ["at", "event", "attempt", "status", "ms", "address", "outcome"]
    print_table([_row(each) for each in found], columns, "no attempts")


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@click.option("--since", type=DURATION, required=True, help="What has failed or was missed since then, such as 3d.")
@yes_option
@json_option
@schema_option
def recover(endpoint: UUID, since: float, yes: bool, as_json: bool, schema: str) -> None:
    """Send failed and missed events to ENDPOINT again.

    What has failed permanently, and what it missed while it was disabled.
    """
    if not yes:
        click.confirm(f"Resend failed and missed events to endpoint {endpoint}?", abort=True)
    found = run(schema, lambda app: operating.recover(app._calls, endpoint, operating.instant(since)))
    if as_json:
        print_json(asdict(found))
    else:
        are = "is" if found.revived == 1 else "are"
        missed = plural(found.missed, "event")
        click.echo(f"{plural(found.revived, 'dead letter')} {are} sent again, and {missed} that it missed")


@command.command()
@click.argument("endpoint", type=ENDPOINT_ID)
@click.option("--since", callback=time_or_ago, help="Published since: a time in UTC, or how long ago, such as 2h.")
@click.option("--until", callback=time_or_ago, help="Published before; default: now.")
@click.option("--type", "types", multiple=True, help="Only these types; default: those of the endpoint.")
@click.option("--event", type=EVENT_ID, help="Only this event.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@yes_option
@json_option
@schema_option
def replay(
    endpoint: UUID, since: datetime | None, until: datetime | None, types: tuple[str, ...], event: UUID | None,
    dry_run: bool, yes: bool, as_json: bool, schema: str,
) -> None:  # fmt: skip
    """Send events to ENDPOINT once more.

    One event, or all events of a period, even those that it has accepted. They keep their ids, so a
    receiver that has counted one drops it. Other endpoints get nothing.
    """
    if since is None and event is None:
        raise click.UsageError("expected --since, such as --since 2h, or --event")

    async def count(app: Holdfast, dry: bool) -> int:
        first, last = since or datetime.min.replace(tzinfo=UTC), until or datetime.now(UTC) + timedelta(hours=1)
        replayed = operating.replay(app._calls, endpoint, first, last, types, event, dry)
        return max([total async for total in replayed], default=0)

    if not yes and not dry_run:
        found = run(schema, lambda app: count(app, True))
        click.confirm(f"Send {plural(found, 'event')} to endpoint {endpoint} once more?", abort=True)
    done = run(schema, lambda app: count(app, dry_run))
    if as_json:
        print_json({"endpoint": endpoint, "events": done, "dry_run": dry_run})
    else:
        are = "would be" if dry_run else "is" if done == 1 else "are"
        click.echo(f"{plural(done, 'event')} {are} sent to it once more")


def _with_flag(error: str) -> str:
    """The error, and the flag that allows what it says is not allowed."""
    flag = next((flag for setting, flag in FLAGS.items() if f"Webhooks({setting}=…)" in error), None)
    return error if flag is None else f"{error}; on the command line: {flag}"


def _row(found: EndpointAttempt) -> dict[str, Any]:
    return {**asdict(found), "outcome": "accepted" if found.delivered else found.error}
