"""The bench's side of a driver: a process in its peer's environment that speaks in lines of JSON.

    driver install URL                    the peer's schema, in an empty database
    driver bulk URL JOBS                  many jobs, in the best way that the peer documents
    driver single URL JOBS                one commit each, after a few that do not count
    driver pickup URL JOBS LEAST MOST     one job after the other, one every so many seconds
    driver burst URL JOBS ROUNDS LEAST MOST many|one
                                          so many jobs at once, by one call or by one each, after so many seconds
    driver worker URL JOBS                a worker that counts the calls of its handler
    driver worker-pickup URL JOBS         a worker that says how long each job was on its way
    driver worker-hand URL JOBS           the same, one of a fleet whose workers take one job at a time, of 50 ms

For workflows, `install` and `worker` also get flight=N, how many may run at a time, and `worker` gets steps=N, how many
steps each job has.

All but the workers end by themselves. A worker ends when its standard input does, so that none outlives the bench
whatever becomes of it. Times are those of the one monotonic clock that the processes of a host share.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from . import environment
from .peer import Peer

PATIENCE = 300.0
Event = dict[str, Any]


class DriverFailed(Exception):
    """A driver ended, or fell silent, before it had said what it should; or what it said is not right."""

    last_words = ""
    """What it had to say on standard error."""


class Driver:
    """One peer's drivers, all started with the same command."""

    def __init__(self, peer: Peer, command: Sequence[str]) -> None:
        self.peer = peer
        self._command = list(command)

    async def call(self, *words: object) -> Event:
        """Run one that ends by itself; what it said last."""
        async with self._speaker(*words) as speaker:
            said = await speaker.until("done")
            await speaker.process.wait()
            return said

    @asynccontextmanager
    async def worker(self, kind: str, url: str, jobs: int, *settings: str) -> AsyncIterator[Speaker]:
        """A worker that is up; gone at the end."""
        async with self._speaker(kind, url, jobs, *settings) as speaker:
            speaker.ready = await speaker.until("ready")
            yield speaker

    @asynccontextmanager
    async def _speaker(self, *words: object) -> AsyncIterator[Speaker]:
        with tempfile.TemporaryFile() as errors:
            process = await asyncio.create_subprocess_exec(
                *self._command, *map(str, words), stdin=PIPE, stdout=PIPE, stderr=errors,
                env=_environment(self.peer), start_new_session=True,
            )  # fmt: skip
            speaker = Speaker(process, f"{self.peer.name} {words[0]}")
            try:
                yield speaker
            except DriverFailed as problem:
                problem.last_words = problem.last_words or _last(errors.fileno())
                raise
            finally:
                _end(process)
                await process.wait()


class Speaker:
    """A running driver."""

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self._name = name
        self.pid = process.pid
        self.ready: Event = {}

    async def until(self, *kinds: str) -> Event:
        """The next event of one of these kinds; those of others are passed over."""
        assert self.process.stdout is not None
        expected = f"{self._name}: expected {' or '.join(kinds)}, and"
        try:
            async with asyncio.timeout(PATIENCE):
                while line := await self.process.stdout.readline():
                    event = _event(line)
                    if event.get("event") in kinds:
                        return event
        except TimeoutError:
            raise DriverFailed(f"{expected} nothing came for {PATIENCE:.0f} s") from None
        raise DriverFailed(f"{expected} it ended with code {await self.process.wait()}")

    async def stop(self) -> Event:
        """Let a worker leave; what it counted."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await self.until("stopped")


def _event(line: bytes) -> Event:
    """Empty for what a library may have printed on its own."""
    with suppress(ValueError):
        said = json.loads(line)
        if isinstance(said, dict):
            return said
    return {}


def _environment(peer: Peer) -> dict[str, str]:
    """Ours, without what would lead a peer's interpreter into our own environment."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
    speech = str(Path(__file__).parent / "speech")
    return {**kept, "PYTHONPATH": speech, "PEER_ENVIRONMENT": str(environment.ROOT / peer.name)}


def _end(process: Process) -> None:
    """The driver and all that it may have started; it leads a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _last(errors: int) -> str:
    size = os.fstat(errors).st_size
    text = os.pread(errors, 4000, max(0, size - 4000)).decode(errors="replace").strip()
    return text[-1500:]
