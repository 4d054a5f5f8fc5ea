"""How a worker works, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from ..errors import ConfigurationError


class Suspects(Enum):
    """What a worker does with jobs whose last attempt took its process down."""

    LEFT = auto()
    """It says that they wait, and leaves them to an isolation process."""
    ONLY = auto()
    """It is an isolation process: it runs nothing else."""
    BETWEEN = auto()
    """Nobody would start an isolation process for it: it runs them between other jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Defaults are for production; tests and the demo shorten the times."""

    queues: tuple[str, ...] = ()
    """Empty: every queue that a registered task names."""
    concurrency: int = 20
    lease: float = 90.0
    """Seconds: the window in which a dead worker's rows are missed; not a limit of a job's time."""
    drain: float = 25.0
    """Seconds that running jobs may take to finish after SIGTERM."""
    grace: float = 10.0
    """Seconds that a handler over its timeout has to give in before its process is ended."""
    housekeeping: float = 10.0
    """Seconds between two rounds of the chores, across all workers."""
    poll_min: float = 0.005
    poll_max: float = 1.0
    prefetch: int = 2000
    """Most rows held beyond the running ones."""
    batch: int = 1000
    """Most rows per claim or completion."""
    heartbeat: float = 10.0
    """Seconds between two signs of life; after 30 without one a worker is not counted as live."""
    notify: bool = True
    """Listen for wake-ups? Never done behind a transaction pooler."""

    def __post_init__(self) -> None:
        _positive("concurrency", self.concurrency)
        for name in ("lease", "housekeeping", "heartbeat", "poll_min", "poll_max"):
            _positive(name, getattr(self, name))
        if self.concurrency > 1000:
            raise ConfigurationError(
                f"concurrency: expected at most 1000 per process, got {self.concurrency}; use processes"
            )
        if self.heartbeat > 10:
            raise ConfigurationError(
                f"heartbeat: expected at most 10 s, got {self.heartbeat}; 30 s without one, and a worker counts as gone"
            )
        if self.lease < 0.3:
            raise ConfigurationError(f"lease: expected at least 0.3 s, got {self.lease}")

    @property
    def renew_every(self) -> float:
        return self.lease / 3

    @property
    def deadline(self) -> float:
        """Seconds that a call to the server may take before its connection is given up."""
        return min(30.0, max(5.0, self.lease / 3))

    @property
    def patience(self) -> float:
        """The same for the keeper's calls: one may be in vain, and there is time to renew once more."""
        return min(self.deadline, self.lease / 4)


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise ConfigurationError(f"{name}: expected more than zero, got {value}")
