from __future__ import annotations

import os
import shutil
import sys

import click

from ..app import Holdfast
from ..top.frame import COLOURS, PLAIN, SORTS, frame
from ..top.looking import State, look
from .common import DURATION, complain, run, schema_option

BY = {words: key for key, (words, _) in SORTS.items()}


@click.command()
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option("--sort", type=click.Choice(list(BY)), default="depth", show_default=True, help="How queues are sorted.")
@click.option("--every", type=DURATION, default="1s", show_default=True, help="Refresh interval.")
@schema_option
def command(once: bool, sort: str, every: float, schema: str) -> None:
    """Watch the installation in the terminal: the three numbers, queues, workers, what runs, and errors.

    q ends it; n, d, a and t sort the queues by name, depth, claim age and throughput. The numbers are those that
    workers have measured, a few seconds ago; large ones are estimated, and marked with "≈".
    """
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        complain("top needs a terminal. For one frame: holdfast top --once")

    async def work(app: Holdfast) -> None:
        async def looking() -> State:
            return await look(app._calls)

        if not once:
            from ..top.screen import Screen

            await Screen(looking, app._database.shown, BY[sort], every).run()
            return
        width, height = shutil.get_terminal_size((100, 40))
        paint = COLOURS if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else PLAIN
        lines = frame(await looking(), app._database.shown, width, height - 1, BY[sort], paint)
        click.echo("\n".join(lines[:-1]))  # without the line about keys

    run(schema, work)
