"""The settings of a worker, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import TypedDict, Unpack

import msgspec

from ..errors import ConfigurationError
from ..metrics.address import address
from ..model.durations import Duration, seconds
from ..model.limits import check_modules, check_name

POLL_MIN = 0.005


class Suspects(Enum):
    """What a worker does with jobs whose last attempt took its process down."""

    LEFT = auto()
    """It reports that they wait, and leaves them to an isolation process."""
    ONLY = auto()
    """It is an isolation process: it runs nothing else."""
    BETWEEN = auto()
    """It has no supervisor that could start an isolation process: it runs them between other jobs."""


class WorkerOptions(TypedDict, total=False):
    """The options of `Holdfast.worker` and of `holdfast worker`.

    ```python
    async with hf.worker(queues=["mail"], concurrency=50, drain="10s"):
        ...
    ```
    """

    queues: Sequence[str]
    """The queues to serve; by default, every queue that a registered task names."""
    concurrency: int
    """Jobs at a time, per process; 20."""
    lease: Duration
    """Until other workers may take a lost worker's jobs; 90 s. It does not limit how long a job may run."""
    drain: Duration
    """How long running jobs may take to finish when the worker stops; 25 s."""
    grace: Duration
    """How long a handler may take to stop after its timeout, before its process is killed; 10 s."""
    housekeeping: Duration
    """Between two rounds of chores, across all workers; 10 s."""
    heartbeat: Duration
    """Between two heartbeats; 10 s. A worker without one for 30 seconds does not count as live."""
    poll: Duration
    """The longest time between two claims; 1 s."""
    notify: bool
    """Listen for wake-ups? True; behind a transaction pooler it never does."""
    metrics: str | None
    """Serve metrics for Prometheus, and probes, at this `HOST:PORT`; None: do not."""
    imports: Sequence[str]
    """Modules that have tasks, besides those that `Holdfast(imports=…)` names."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options in seconds, with their defaults, which are for production: tests and the demo shorten the times."""

    queues: tuple[str, ...] = ()
    """Empty: every queue that a registered task names."""
    concurrency: int = 20
    lease: float = 90.0
    drain: float = 25.0
    grace: float = 10.0
    housekeeping: float = 10.0
    poll_min: float = POLL_MIN
    poll_max: float = 1.0
    prefetch: int = 2000
    """The most rows to claim ahead of the running ones."""
    batch: int = 1000
    """The most rows per claim or completion."""
    heartbeat: float = 10.0
    notify: bool = True
    metrics: str | None = None
    imports: tuple[str, ...] = ()

    @classmethod
    def of(cls, **options: Unpack[WorkerOptions]) -> WorkerSettings:
        """The settings with these options, in the units that users write."""
        given: dict[str, object] = dict(options)
        if "queues" in options:
            given["queues"] = tuple(check_name("queue", queue) for queue in options["queues"])
        if "imports" in options:
            given["imports"] = check_modules("imports", options["imports"])
        for name in ("lease", "drain", "grace", "housekeeping", "heartbeat"):
            if name in options:
                given[name] = seconds(options[name], name)
        if "poll" in options:
            del given["poll"]
            given["poll_max"] = longest = seconds(options["poll"], "poll")
            given["poll_min"] = min(POLL_MIN, longest)
        if unknown := sorted(given.keys() - set(cls.__struct_fields__)):
            known = ", ".join(WorkerOptions.__annotations__)
            raise ConfigurationError(f"{unknown[0]}: is not an option of a worker; expected one of {known}")
        return cls(**given)  # type: ignore[arg-type]  # names and types are those of WorkerOptions

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
                f"heartbeat: expected at most 10 s, got {self.heartbeat}; without one for 30 s, a worker counts as gone"
            )
        if self.metrics is not None:
            address(self.metrics)
        if self.lease < 0.3:
            raise ConfigurationError(f"lease: expected at least 0.3 s, got {self.lease}")

    @property
    def renew_every(self) -> float:
        return self.lease / 3

    @property
    def minute(self) -> float:
        """Seconds between two writes of the numbers: a minute, with the usual heartbeat."""
        return self.heartbeat * 6

    @property
    def deadline(self) -> float:
        """Seconds that a call to the server may take before its connection is closed."""
        return min(30.0, max(5.0, self.lease / 3))

    @property
    def patience(self) -> float:
        """The same for the keeper's calls: if one fails, there is still time for another renewal."""
        return min(self.deadline, self.lease / 4)


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise ConfigurationError(f"{name}: expected more than zero, got {value}")
