"""One run of `holdfast dev`: start all, look at the files, replace the worker, stop all."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType

from ..app import Holdfast
from ..embedded import EmbeddedPostgres
from ..errors import Unreachable
from .checking import check
from .children import Child
from .watching import Watch

GLANCE = 0.3
"""Seconds between two looks at the files."""
QUIET = 0.15
"""Files are often saved together: wait until nothing has changed for so long."""
DRAIN = 5.0
UNSET = "HOLDFAST_DATABASE_URL is set; unset it to get an embedded Postgres"
PORT = 8321
INSTALL = "not installed; for one: pip install 'holdfast[dashboard]'"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start."""

    app: str
    folder: Path
    """Of the data."""
    watched: Sequence[Path]
    worker: Sequence[str]
    """More options of the worker."""
    dashboard: bool
    port: int = PORT


class Session:
    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._asked = 0
        self._wake = threading.Event()
        self._worker: Child | None = None
        self._since = ""
        self._dashboard: Child | None = None
        self._environment: dict[str, str] = {}

    def run(self) -> None:
        """Until Ctrl-C or SIGTERM. On return, nothing of it runs any more."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)
        with ExitStack() as stack:
            url = self._database(stack)
            self._environment = {**os.environ, "HOLDFAST_DATABASE_URL": url}
            stack.callback(self._stop)
            watch = Watch(self._plan.watched)  # before the code is read, so that no change is missed
            self._begin()
            self._watch(watch)
            self._say("stopping; Ctrl-C again does not wait for running jobs")
        kept = (
            "" if os.environ.get("HOLDFAST_DATABASE_URL") else f" The data stays in {self._shown(self._plan.folder)}."
        )
        self._say(f"stopped.{kept}")

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
        self._wake.set()

    # The parts

    def _database(self, stack: ExitStack) -> str:
        if url := os.environ.get("HOLDFAST_DATABASE_URL"):
            app = Holdfast()
            try:
                missing = asyncio.run(_missing(app))
            except Unreachable as error:
                raise Unreachable(f"{error}. {UNSET}") from None
            self._say(f"Postgres   yours, at {app._database.shown} (HOLDFAST_DATABASE_URL)")
            if missing:
                self._say("           its schema is not that of this release; run: holdfast migrate")
            return url
        folder = self._plan.folder
        folder.mkdir(parents=True, exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n")
        fresh = not (folder / "postgres" / "data").exists()
        self._say("Postgres   " + ("is created …" if fresh else "starts …"))
        server = stack.enter_context(EmbeddedPostgres(keep=folder / "postgres"))
        os.environ.pop("DATABASE_URL", None)
        asyncio.run(_migrate(server.url))
        env = folder / "env"
        env.touch(0o600)
        env.chmod(0o600)
        env.write_text(f"export HOLDFAST_DATABASE_URL='{server.url}'\n")
        self._say(
            f"Postgres   {server.version} on 127.0.0.1:{server.port}, its data in {self._shown(folder)}, migrated"
        )
        return server.url

    def _begin(self) -> None:
        self._say(f"Dashboard  {self._start_dashboard()}")
        if self._asked:
            return
        tasks = self._start_checked()
        if not os.environ.get("HOLDFAST_DATABASE_URL"):
            name, arguments = next(iter(tasks.items()), ("TASK", ()))
            example = json.dumps(dict.fromkeys(arguments, "…"), ensure_ascii=False)
            self._say("Another terminal finds this database with:")
            self._say(f"    . {self._shown(self._plan.folder)}/env")
            self._say("Enqueue a job there, from your code, or with its arguments as JSON:")
            self._say(f"    holdfast enqueue --app {self._plan.app} {name} '{example}'")
        self._say("Ctrl-C stops everything.")

    def _start_dashboard(self) -> str:
        if not self._plan.dashboard:
            return "not wanted (--no-dashboard)"
        if any(importlib.util.find_spec(name) is None for name in ("holdfast.dashboard", "starlette", "uvicorn")):
            return INSTALL
        port = _port(self._plan.port)
        self._dashboard = Child(["dashboard", "--port", str(port)], self._environment, quiet=True)
        return f"http://127.0.0.1:{port}/"

    def _start_checked(self) -> Mapping[str, Sequence[str]]:
        """Start the worker if its code can be imported; return the tasks, with the names of their arguments."""
        checked = check(self._plan.app, self._environment, lambda: self._asked > 0)
        if self._asked:
            return {}
        if checked.problem is not None:
            self._say(_indented(checked.problem))
            self._say("Worker     none runs, because of this error. Save a change, and it is tried again.")
            return {}
        self._start_worker(checked.tasks)
        return checked.tasks

    def _start_worker(self, tasks: Iterable[str]) -> None:
        words = ["worker", self._plan.app, "--drain", f"{DRAIN}s", "--lease", "15s", *self._plan.worker]
        self._worker = Child(words, self._environment)
        self._since = f"{datetime.now():%H:%M:%S}"  # noqa: DTZ005 - for the person at this terminal
        named = ", ".join(tasks) or "no tasks yet"
        self._say(f"Worker     {self._plan.app}: {named}. It restarts when a file changes.")

    # While it runs

    def _watch(self, watch: Watch) -> None:
        while not self._asked:
            if changed := watch.changed():
                while more := self._more(watch):
                    changed = sorted({*changed, *more})
                self._reload(changed)
            self._look_after()
            self._wake.wait(GLANCE)

    def _more(self, watch: Watch) -> list[Path]:
        time.sleep(QUIET)
        return watch.changed()

    def _reload(self, changed: Sequence[Path]) -> None:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        self._say(f"{self._shown(changed[0])}{more} changed")
        for path in changed:  # Python would use what it has compiled, if size and second of the change are the same
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        checked = check(self._plan.app, self._environment, lambda: self._asked > 0)
        if self._asked:
            return
        if checked.problem is not None:
            self._say(_indented(checked.problem))
            still = f"The worker still runs the code of {self._since}." if self._worker else "No worker runs."
            self._say(f"{still} Save a change, and it is tried again.")
            return
        self._end_worker()
        if not self._asked:
            self._start_worker(checked.tasks)

    def _look_after(self) -> None:
        if self._worker is not None and self._worker.exit_code is not None:
            self._say(f"The worker ended with code {self._worker.exit_code}. Save a change, and a new one starts.")
            self._worker = None
        if self._dashboard is not None and self._dashboard.exit_code is not None:
            self._say(f"The dashboard ended with code {self._dashboard.exit_code}. Start it again: holdfast dashboard")
            self._dashboard = None

    # The end

    def _stop(self) -> None:
        if self._dashboard is not None:
            self._dashboard.ask_to_end()
        self._end_worker()
        if self._dashboard is not None and not self._dashboard.wait(5):
            self._dashboard.kill()

    def _end_worker(self) -> None:
        """Drain it: running jobs may finish, for a few seconds; what is left is handed back."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.ask_to_end()
        begun, deadline = self._asked, time.monotonic() + 3 * DRAIN
        while not worker.wait(0.05):
            if self._asked > max(begun, 1):
                worker.ask_to_end()  # the second time, it hands back at once
                begun = self._asked
            if time.monotonic() > deadline:
                worker.kill()

    def _shown(self, path: Path) -> str:
        try:
            return str(path.absolute().relative_to(Path.cwd()))
        except ValueError:
            return str(path)


async def _migrate(url: str) -> None:
    app = Holdfast(url)
    try:
        await app.migrate()
    finally:
        await app.close()


async def _missing(app: Holdfast) -> bool:
    from ..schema import migrate

    try:
        return bool(await migrate.pending(app._database))
    finally:
        await app.close()


def _port(wanted: int) -> int:
    """The wanted one, or the next that is free."""
    for port in range(wanted, wanted + 50):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    return 0


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
