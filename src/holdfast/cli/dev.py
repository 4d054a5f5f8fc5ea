from __future__ import annotations

from pathlib import Path

import click

from ..dev.session import PORT, Plan, Session
from ..embedded import EmbeddedPostgresError
from .common import complain, printable


@click.command()
@click.argument("app")
@click.argument("worker", nargs=-1, type=click.UNPROCESSED, metavar="[-- WORKER OPTIONS]")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path(".holdfast"),
              show_default=True, help="Where the data is kept.")  # fmt: skip
@click.option("--watch", "watched", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
              default=[Path()], show_default="this folder", help="Restart the worker when a Python file below this "
              "folder changes; repeat it for more.")  # fmt: skip
@click.option("--dashboard/--no-dashboard", default=True, show_default=True, help="Start the dashboard, too.")
@click.option("--port", type=click.IntRange(1, 65535), default=PORT, show_default=True,
              help="Port of the dashboard; if it is in use, the next free one.")  # fmt: skip
def command(
    app: str, worker: tuple[str, ...], folder: Path, watched: tuple[Path, ...], dashboard: bool, port: int
) -> None:
    """Develop APP, given as module:attribute: a Postgres, a worker that reloads, and the dashboard, in one command.

    The Postgres is embedded and kept in .holdfast/: a second start finds the data of the first. With
    HOLDFAST_DATABASE_URL, that server is used instead, and not migrated.

    When a Python file changes, the new code is imported once to try it. If that works, the worker drains and restarts.
    If not, the error is shown, and the worker continues with the old code.

    Options after -- are those of `holdfast worker`: holdfast dev shop.jobs:hf -- --concurrency 5
    """
    module, colon, attribute = app.rpartition(":")
    if not colon or not module or not attribute:
        raise click.BadParameter(f"expected module:attribute, such as shop.jobs:hf, got {app!r}", param_hint="APP")
    plan = Plan(app, folder, watched, worker, dashboard, port)
    try:
        Session(plan, _say).run()
    except EmbeddedPostgresError as error:
        complain(str(error))


def _say(words: str) -> None:
    for line in printable(words).splitlines():
        click.echo(f"dev  {line}".rstrip())
