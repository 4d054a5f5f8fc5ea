from __future__ import annotations

import asyncio
import logging
import sys
from typing import Unpack

import click

from ..errors import ConfigurationError
from ..loading import load_app, loop_factory, served
from ..processes.supervisor import Supervisor
from ..worker.exit_codes import CONFIGURATION
from ..worker.logs import LogFormat, log_to_stderr
from ..worker.settings import WorkerOptions, WorkerSettings
from .common import DURATION, complain, pooler_option

log = logging.getLogger("holdfast.worker")


@click.command()
@click.argument("app")
@click.option("-q", "--queue", "queues", multiple=True, envvar="HOLDFAST_WORKER_QUEUE",
              help="Serve this queue; repeat it for more. Default: the queues of the tasks.")  # fmt: skip
@click.option("--import", "imports", multiple=True, envvar="HOLDFAST_WORKER_IMPORT", metavar="MODULE",
              help="Import this module, which has tasks; repeat it for more.")  # fmt: skip
@click.option("-c", "--concurrency", default=20, show_default=True, help="Jobs at a time, per process.")
@click.option("--processes", default=1, show_default=True, help="Worker processes.")
@click.option("--lease", type=DURATION, default="90s", show_default=True,
              help="How long the jobs of a lost worker wait before others can take them.")  # fmt: skip
@click.option("--drain", type=DURATION, default="25s", show_default=True,
              help="How long running jobs may take to finish after SIGTERM.")  # fmt: skip
@click.option("--grace", type=DURATION, default="10s", show_default=True,
              help="How long a handler may take to stop after its timeout, before its process is killed.")  # fmt: skip
@click.option("--housekeeping", type=DURATION, default="10s", show_default=True, help="Interval of the chores.")
@click.option("--heartbeat", type=DURATION, default="10s", show_default=True,
              help="How often the worker updates the registry and checks whether to drain.")  # fmt: skip
@click.option("--poll", type=DURATION, default="1s", show_default=True, help="Longest poll interval when idle.")
@click.option("--notify/--no-notify", default=True, show_default=True,
              help="Listen for wake-ups, so that an idle worker starts a job at once. Polling continues.")  # fmt: skip
@click.option("--metrics", default=None, metavar="HOST:PORT",
              help="Serve /metrics, /healthz and /readyz there, such as 127.0.0.1:9464. Off by default.")  # fmt: skip
@click.option("--log-level", default="INFO", show_default=True,
              type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), help="Minimum level to log.")  # fmt: skip
@click.option("--log-format", default="text", show_default=True, type=click.Choice(["text", "json"]),
              help="Lines for people, or one JSON object per line.")  # fmt: skip
@pooler_option
def command(app: str, processes: int, log_level: str, log_format: LogFormat, **options: Unpack[WorkerOptions]) -> None:
    """Run the jobs of APP, given as module:attribute, until SIGTERM or Ctrl-C.

    The first signal drains: running jobs may finish, for up to --drain. A second one stops at once: running handlers
    are interrupted and their jobs handed back. They run again from the start, without losing an attempt.

    A supervisor renews the leases and monitors the worker processes. If one dies, its jobs are handed back at once.
    """
    log_to_stderr(log_level, log_format)
    if processes < 1:
        raise click.BadParameter(f"expected at least 1, got {processes}", param_hint="--processes")
    try:
        settings = WorkerSettings.of(**options)
        supervisor = _supervisor(app, settings, processes, log_level)
    except ConfigurationError as error:
        complain(str(error), CONFIGURATION)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        sys.exit(runner.run(supervisor.run()))


def _supervisor(path: str, settings: WorkerSettings, processes: int, log_level: str) -> Supervisor:
    app = load_app(path, settings.imports)
    for queue in sorted(set(settings.queues) - {task._definition.queue for task in app.tasks.values()}):
        log.warning("no task of %s uses queue %s; serving it for jobs that were sent there", path, queue)
    return Supervisor(served(app, settings.queues, path), settings, processes, log_level)
