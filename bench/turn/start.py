"""Start a turn in a process of its own, and read what it says."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .measured import Measured, read
from .place import POSTMASTER

PATIENCE = 300.0
"""Seconds for a turn."""
ENDING = 40.0
"""Seconds for one that was told to stop: its workers finish first."""


class TurnFailed(Exception):
    """A turn has no figures, and its last words on standard error."""


async def turn(
    case: str, size: str, url: str, postmaster: int | None,
    environment: Mapping[str, str] = os.environ, folder: Path = Path(__file__).parents[2],
) -> list[Measured]:  # fmt: skip
    """One turn of a case on a migrated database, in this environment and folder: this tree's, if nothing is said."""
    given = {**environment, "HOLDFAST_DATABASE_URL": url, POSTMASTER: str(postmaster or "")}
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.turn", case, size, cwd=folder, env=given, stdout=PIPE, stderr=errors
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        except TimeoutError:
            raise TurnFailed(f"{case}: nothing came for {PATIENCE:.0f} s") from None
        finally:
            await _end(process)
        if process.returncode:
            raise TurnFailed(f"{case}: it ended with code {process.returncode}: {_last_line(errors.fileno())}")
    return read(said.decode())


async def _end(process: Process) -> None:
    """Whatever has happened to us, no turn goes on; it stops its workers itself when it is asked to."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), ENDING)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _last_line(errors: int) -> str:
    size = os.fstat(errors).st_size
    text = os.pread(errors, 4000, max(0, size - 4000)).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
