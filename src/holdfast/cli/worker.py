from __future__ import annotations

import asyncio
import logging
import sys

import click

from ..errors import ConfigurationError
from ..loading import load_app, loop_factory, served
from ..processes.supervisor import Supervisor
from ..worker.exit_codes import CONFIGURATION
from ..worker.logs import log_to_stderr
from ..worker.settings import WorkerSettings
from .common import DURATION, complain, pooler_option

log = logging.getLogger("holdfast.worker")


@click.command()
@click.argument("app")
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    envvar="HOLDFAST_WORKER_QUEUE",
    help="Serve this queue; may be repeated. Default: those of the tasks.",
)
@click.option("-c", "--concurrency", default=20, show_default=True, help="Jobs at a time, per process.")
@click.option("--processes", default=1, show_default=True, help="Worker processes.")
@click.option(
    "--lease", type=DURATION, default="90s", show_default=True, help="A dead worker's jobs are missed after this."
)
@click.option(
    "--drain", type=DURATION, default="25s", show_default=True, help="Time for running jobs to finish on SIGTERM."
)
@click.option("--grace", type=DURATION, default="10s", show_default=True,
              help="Time for a handler over its timeout to give in before its process is ended.")  # fmt: skip
@click.option("--housekeeping", type=DURATION, default="10s", show_default=True, help="Interval of the chores.")
@click.option("--heartbeat", type=DURATION, default="10s", show_default=True,
              help="Interval at which the registry is told, and asked whether to drain.")  # fmt: skip
@click.option("--poll", type=DURATION, default="1s", show_default=True, help="Longest pause between looks when idle.")
@click.option("--notify/--no-notify", default=True, show_default=True,
              help="Listen for wake-ups, so that a job on an idle worker starts at once. Polling goes on.")  # fmt: skip
@click.option(
    "--log-level", default="INFO", show_default=True, type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"])
)
@pooler_option
def command(
    app: str,
    queues: tuple[str, ...],
    concurrency: int,
    processes: int,
    lease: float,
    drain: float,
    grace: float,
    housekeeping: float,
    heartbeat: float,
    poll: float,
    notify: bool,
    log_level: str,
) -> None:
    """Run jobs of APP, given as module:attribute, until SIGTERM or Ctrl-C; a second one stops at once.

    A supervisor renews the leases and watches over its processes; if one dies, its jobs are handed back at once.
    """
    log_to_stderr(log_level)
    if processes < 1:
        raise click.BadParameter(f"expected at least 1, got {processes}", param_hint="--processes")
    try:
        settings = WorkerSettings(
            queues=queues, concurrency=concurrency, lease=lease, drain=drain, grace=grace, housekeeping=housekeeping,
            heartbeat=heartbeat, poll_max=poll, poll_min=min(0.005, poll), notify=notify,
        )  # fmt: skip
        supervisor = _supervisor(app, settings, processes, log_level)
    except ConfigurationError as error:
        complain(str(error), CONFIGURATION)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        sys.exit(runner.run(supervisor.run()))


def _supervisor(address: str, settings: WorkerSettings, processes: int, log_level: str) -> Supervisor:
    app = load_app(address)
    for queue in sorted(set(settings.queues) - {task.definition.queue for task in app.tasks.values()}):
        log.warning("no task of %s names queue %s; it is served, for jobs that were sent there", address, queue)
    return Supervisor(served(app, settings.queues, address), settings, processes, log_level)
