"""The command line: one command, noun and verb. `--json` on every read; a HOLDFAST_* variable for every flag."""

from __future__ import annotations

import gc
import importlib

import click

from ..errors import HoldfastError

_COMMANDS = {
    "migrate": "Bring the schema to this release.",
    "worker": "Run jobs until SIGTERM or Ctrl-C.",
    "enqueue": "Enqueue a job.",
    "job": "List, explain, cancel and run jobs.",
    "dead": "Look at dead letters, revive or discard them.",
    "queue": "Look at queues, pause and resume them.",
    "schedule": "Look at schedules, pause, trigger and add them.",
    "workflow": "Look at workflows, signal and cancel them; check new code.",
    "outbox": "Look at events and their deliveries, replay them.",
    "endpoint": "Look at webhook endpoints; add, pause and recover them.",
    "workers": "List and drain workers; find the owner of a key.",
    "contracts": "Export schemas of events; find changes that break others.",
    "stats": "Show depth, claim age, recent endings and jobs nobody can run.",
    "incidents": "What happened, and who did what, in order.",
    "top": "Watch queues, workers, what runs and errors in the terminal.",
    "health": "For probes: are jobs accepted and run, and is the server safe?",
    "doctor": "Examine the server and the installation; say what to do.",
    "runbook": "Queries for the engineer on call, by symptom.",
    "dashboard": "Show the installation in a browser, and operate it there.",
    "measure": "Measure this database, and name the bottleneck.",
    "dev": "Start Postgres, a worker and the dashboard for development.",
    "demo": "The whole system on an embedded Postgres.",
    "simulations": "Write a page of interactive simulations.",
}


class _Lazy(click.Group):
    """Commands are imported when they are used: `holdfast --help` stays quick."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"holdfast.cli.{name}")
        _collect_garbage()
        command: click.Command = module.command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _collect_garbage() -> None:
    """From now on, if the command was started without. What is loaded is left out: it stays until the end."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


@click.command(cls=_Lazy, context_settings={"auto_envvar_prefix": "HOLDFAST", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast")
def cli() -> None:
    """Durable work in Postgres.

    The database is the one in HOLDFAST_DATABASE_URL, else DATABASE_URL, else libpq's PG* variables. It is never
    an argument: arguments show in process lists.

    Every flag has a variable: HOLDFAST_WORKER_CONCURRENCY for `holdfast worker --concurrency`,
    HOLDFAST_JOB_LIST_LIMIT for `holdfast job list --limit`; HOLDFAST_SCHEMA and HOLDFAST_JSON for all commands.

    All times are in UTC, shown with a Z.
    """


def main() -> None:
    """The `holdfast` command. Holdfast's own errors are printed as messages, not as tracebacks."""
    try:
        cli.main(prog_name="holdfast", standalone_mode=True)
    except HoldfastError as error:
        _complain(str(error))
    except OSError as error:
        _complain(f"{type(error).__name__}: {error}")


def _complain(message: str) -> None:
    from .common import complain

    complain(message)


__all__ = ["cli", "main"]
