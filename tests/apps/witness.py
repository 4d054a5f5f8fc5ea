"""A file to which handlers append what they did; one write per line, so that a kill never tears one."""

import os
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from holdfast import Context

VARIABLE = "HOLDFAST_TEST_WITNESS"


@dataclass(frozen=True, slots=True)
class Seen:
    job: UUID
    attempt: int
    what: str
    pid: int


def saw(ctx: Context, what: str) -> None:
    """Note that this attempt did `what`, durably as far as a killed process is concerned."""
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{ctx.job_id} {ctx.attempt} {what} {os.getpid()}\n".encode())
    finally:
        os.close(file)


def read(path: Path) -> list[Seen]:
    if not path.exists():
        return []
    lines = [line.split() for line in path.read_text().splitlines()]
    return [Seen(UUID(job), int(attempt), what, int(pid)) for job, attempt, what, pid in lines]
