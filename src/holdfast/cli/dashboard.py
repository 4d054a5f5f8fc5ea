from __future__ import annotations

import os
from pathlib import Path

import click

from ..app import Holdfast
from ..errors import ConfigurationError
from .common import schema_option

PORT = 8321
MISSING = "The dashboard needs packages that are not installed. Run: pip install 'holdfast[dashboard]'"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on. Any address other than loopback needs a token.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 chooses a free port.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the token that people log in with; or set HOLDFAST_DASHBOARD_TOKEN. At least 32 characters.",
)
@click.option("--allow-host", "hosts", multiple=True, help="A name by which people reach it; may be repeated.")
@click.option("--mask", "masks", multiple=True, help="A field to hide, instead of the usual ones; may be repeated.")
@click.option("--secure", is_flag=True, help="Send the cookie only over HTTPS. Use this behind an HTTPS proxy.")
@click.option("--read-only", is_flag=True, help="Show no buttons, and refuse every action.")
@schema_option
def command(
    host: str, port: int, token_file: Path | None, hosts: tuple[str, ...], masks: tuple[str, ...], secure: bool,
    read_only: bool, schema: str,
) -> None:  # fmt: skip
    """Show the installation in a browser, and operate it there.

    It listens on this machine only. On another address it does not start without a token: set
    HOLDFAST_DASHBOARD_TOKEN, or --token-file. What people do is written to the journal with their name.
    """
    try:
        from ..dashboard.application import Dashboard
        from ..dashboard.serving import listening, serve
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{MISSING} ({error})") from None
    from ..dashboard.settings import check_address, is_loopback, settings
    from ..db.acting import own_name

    token = _token(token_file)
    named = [] if host in ("0.0.0.0", "::") or is_loopback(host) else [host]  # noqa: S104
    given = settings(
        token=token, allowed_hosts=[*named, *hosts], mask=masks or None, read_only=read_only, secure=secure,
        user=own_name(),
    )  # fmt: skip
    check_address(host, given)
    with listening(host, port) as taken:
        found = taken.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"dashboard: http://{shown}:{found}/{'  (read-only)' if read_only else ''}")
        serve(Dashboard(Holdfast(schema=schema), given), taken)


def _token(file: Path | None) -> str | None:
    if file is not None:
        return file.read_text().strip()
    return os.environ.get("HOLDFAST_DASHBOARD_TOKEN", "").strip() or None
