from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from ..journal.story import Incident
from .common import DURATION, json_option, print_json, printable, run, schema_option

BESIDE = timedelta(minutes=30)
"""How far before and after --around to look."""
FORMS = ("%H:%M", "%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")


class _Time(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        now = datetime.now(UTC)
        form, found = next(_read(str(value)), ("", now))
        if not form:
            self.fail(f"expected a time in UTC, such as 03:12 or '2026-01-31 03:12', got {value!r}", param, context)
        if "%Y" in form:
            return found
        today = found.replace(year=now.year, month=now.month, day=now.day)
        return today if today <= now else today - timedelta(days=1)


def _read(value: str) -> Iterator[tuple[str, datetime]]:
    for form in FORMS:
        with suppress(ValueError):
            yield form, datetime.strptime(value.removesuffix("Z"), form).replace(tzinfo=UTC)


@click.command()
@click.option("--around", type=_Time(), help="Half an hour before and after this time in UTC, such as 03:12.")
@click.option("--since", type=DURATION, help="Within this time, such as 2h. Default: the last day.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=10_000, show_default=True,
              help="The most rows of the journal to read; the newest ones.")  # fmt: skip
@json_option
@schema_option
def command(around: datetime | None, since: float | None, limit: int, as_json: bool, schema: str) -> None:
    """Tell what happened to the installation, and who did what to it, in order.

    Workers that started, drained or died; outages of the database; swept jobs; bursts of dead letters; queues that were
    paused, jobs that were revived, and by whom; migrations. Rows that belong together are one line. Kept for
    journal_days (42 by default).
    """
    if around is not None and since is not None:
        raise click.UsageError("expected --around or --since, not both")
    begin = around - BESIDE if around is not None else datetime.now(UTC) - timedelta(seconds=since or 86400)
    end = around + BESIDE if around is not None else None
    found = run(schema, lambda app: app.incidents(since=begin, until=end, limit=limit))
    if as_json:
        print_json([_plain(incident) for incident in found])
    elif not found:
        click.echo(f"nothing happened between {_shown(begin)} and {_shown(end) if end is not None else 'now'}")
    else:
        _tell(found)


def _tell(found: list[Incident]) -> None:
    day = ""
    for incident in found:
        at = incident.at.astimezone(UTC)
        if (date := f"{at:%Y-%m-%d}") != day:
            day = date
            click.echo(f"{day}, times in UTC")
        click.echo(f"{at:%H:%M:%S}  {' '.join(printable(incident.text).split())}")


def _plain(incident: Incident) -> dict[str, Any]:
    names = ("at", "until", "what", "subjects", "actor", "count", "details", "text")
    return {name: getattr(incident, name) for name in names}


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}Z"
