"""The command line: one command, noun and verb. `--json` on every read; a HOLDFAST_* variable for every flag."""

from __future__ import annotations

import importlib
import sys

import click

from ..errors import HoldfastError

_COMMANDS = {
    "migrate": "migrate",
    "worker": "worker",
    "enqueue": "enqueue",
    "job": "job",
    "dead": "dead",
    "queue": "queue",
    "workers": "workers",
    "stats": "stats",
    "health": "health",
    "demo": "demo",
}


class _Lazy(click.Group):
    """Commands are imported when they are used: `holdfast --help` stays quick."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"holdfast.cli.{_COMMANDS[name]}")
        command: click.Command = module.command
        return command


@click.command(cls=_Lazy, context_settings={"auto_envvar_prefix": "HOLDFAST", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast")
def cli() -> None:
    """Durable work in Postgres.

    The database is the one in HOLDFAST_DATABASE_URL, else DATABASE_URL, else libpq's PG* variables. It is never
    an argument: arguments show in process lists.
    """


def main() -> None:
    """The `holdfast` command. Errors of ours are messages, not tracebacks."""
    try:
        cli.main(prog_name="holdfast", standalone_mode=True)
    except HoldfastError as error:
        click.echo(f"holdfast: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"holdfast: cannot reach the server: {error}", err=True)
        sys.exit(1)


__all__ = ["cli", "main"]
