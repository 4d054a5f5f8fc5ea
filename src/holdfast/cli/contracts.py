from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from ..contracts import asyncapi
from ..contracts.changes import Comparison, compare
from ..declaring_events import contracts_of
from ..errors import HoldfastError
from ..loading import load_app
from ..model.limits import check_modules
from .common import complain, json_option, print_json, printable

NO_ANSWER = 2
"""The exit code if nothing could be compared."""

_import_option = click.option("--import", "imports", multiple=True, metavar="MODULE",
                              help="Import this module, which has event types; repeat it for more.")  # fmt: skip


@click.group()
def command() -> None:
    """Export the schemas of the events that an application publishes and consumes, and compare them.

    Commit the export, and let CI run the check: it fails if a change breaks those who consume your events.
    """


@command.command()
@click.argument("app")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write it to this file; default: standard output.")  # fmt: skip
@_import_option
def export(app: str, out: Path | None, imports: tuple[str, ...]) -> None:
    """Print an AsyncAPI 3.0 document of APP, given as module:attribute, with a JSON Schema per type and version.

    It connects to nothing. The same code always gives the same document.
    """
    written = asyncapi.text(_document(app, imports))
    if out is None:
        click.echo(written, nl=False)
        return
    beside = out.with_name(f".{out.name}.new")  # a run that is interrupted leaves the old file
    beside.write_text(written, encoding="utf-8")
    os.replace(beside, out)  # noqa: PTH105
    click.echo(f"{out}: {len(asyncapi.contracts(asyncapi.read(written)))} contracts", err=True)


@command.command()
@click.argument("app")
@click.option("--against", required=True, type=click.Path(path_type=Path), metavar="FILE",
              help="The last export.")  # fmt: skip
@_import_option
@json_option
def check(app: str, against: Path, imports: tuple[str, ...], as_json: bool) -> None:
    """Compare the events of APP, given as module:attribute, with an export.

    Exit code 0: all changes are compatible. 1: some break those who consume your events, or whose events you consume.
    2: nothing could be compared, for example because FILE is missing.
    """
    try:
        old = _exported(app, against)
        found = compare(old, _document(app, imports))
    except HoldfastError as error:
        complain(str(error), NO_ANSWER)
    if as_json:
        print_json({"is_compatible": not found.breaking, **msgspec.to_builtins(found)})
    else:
        _print(found, str(against))
    sys.exit(1 if found.breaking else 0)


def _print(found: Comparison, against: str) -> None:
    for heading, changes in (("incompatible", found.breaking), ("compatible", found.compatible)):
        for change in changes:
            click.echo(printable(f"{heading}: {change.line}").replace("\n", " "))
    if found.breaking:
        click.echo("\nWhat to do:")
        for advice in found.advice:
            click.echo(printable(f"  {advice}"))
    elif found.compatible:
        click.echo(f"\nAll changes are compatible. Export them: holdfast contracts export … --out {against}")
    else:
        click.echo(f"no changes since {against}")


def _document(app: str, imports: tuple[str, ...]) -> dict[str, Any]:
    loaded = load_app(app, check_modules("--import", imports))
    return asyncapi.document(app.partition(":")[0].partition(".")[0], contracts_of(loaded._event_types))


def _exported(app: str, file: Path) -> dict[str, Any]:
    again = f"Make one: holdfast contracts export {app} --out {file}"
    try:
        return asyncapi.read(file.read_bytes())
    except FileNotFoundError:
        raise asyncapi.Unreadable(f"{file}: there is no such file. {again}") from None
    except OSError as error:
        raise asyncapi.Unreadable(f"{file}: could not be read: {error.strerror}. {again}") from None
    except asyncapi.Unreadable as error:
        raise asyncapi.Unreadable(f"{file}: expected an export, but {error}. {again}") from None
