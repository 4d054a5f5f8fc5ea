from __future__ import annotations

from pathlib import Path

import click

from ..simulations import page


@click.command()
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("holdfast-simulations.html"),
    show_default=True, help="The file to write; - for standard output.",
)  # fmt: skip
def command(out: Path) -> None:
    """Write a page of simulations: one job, a crash, many workers, the ring, and a tuner.

    It is one file that opens in a browser without a server, and needs no network. The dashboard shows the
    same simulations.
    """
    if str(out) == "-":
        click.echo(page(), nl=False)
        return
    out.write_text(page(), encoding="utf-8")
    click.echo(f"wrote {out}; open it in a browser: {out.absolute().as_uri()}")
