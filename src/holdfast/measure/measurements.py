"""The results of a run, as plain values. Times are milliseconds unless the name or the comment says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latency:
    p50: float
    p99: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Latency:
        """From milliseconds in any order, at least one."""
        ascending = sorted(values)
        return cls(ascending[len(ascending) // 2], ascending[len(ascending) * 99 // 100], len(ascending))


@dataclass(frozen=True, slots=True)
class Holder:
    """What keeps dead rows from being removed, in this database or in the whole server."""

    kind: str
    """session, prepared transaction, replication slot or standby."""
    name: str
    """The process id of a session, otherwise the name."""
    seconds: float | None
    """For how long, if known."""
    what: str


@dataclass(frozen=True, slots=True)
class Server:
    version: str
    settings: Mapping[str, str]
    pooler: bool
    """Whether there is a pooler in between, configured or detected."""
    holders: Sequence[Holder] = ()


@dataclass(frozen=True, slots=True)
class Sessions:
    """What the worker's two busy sessions did during the drain, as shares of all samples."""

    cpu: float = 0.0
    commit: float = 0.0
    disk: float = 0.0
    lock: float = 0.0
    idle: float = 0.0
    """Waiting for the worker or the network."""
    looks: int = 0


@dataclass(frozen=True, slots=True)
class Drain:
    jobs: int
    seconds: float
    first_quarter: float
    """Jobs per second."""
    last_quarter: float
    worker_cpu: float
    """CPU of the worker process, as a share of one core."""
    sessions: Sessions

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


@dataclass(frozen=True, slots=True)
class Installation:
    """The user's own installation, during the run."""

    schema: str
    due: int
    claim_age: float
    """Seconds that the oldest due job has waited; queues that are paused do not count."""
    live_workers: int
    busy: float
    """Share of their concurrency that the live workers use."""
    rate: float
    """Jobs per second that its workers ended."""
    live_rows: int
    dead_rows: int
    """In its inbox, by the server's statistics."""


@dataclass(frozen=True, slots=True)
class Measurements:
    server: Server
    round_trip: Latency
    commit: Latency
    enqueue: Latency
    """One job per commit."""
    bulk_rate: float
    """Jobs per second, 1,000 a call."""
    bulk_cpu: float
    """CPU of this process during that, as a share of one core."""
    pickup: Latency
    drain: Drain
    checkpoints_asked: int = 0
    """Checkpoints during the run because max_wal_size was reached, not because checkpoint_timeout passed."""
    wal_megabytes: float = 0.0
    installation: Installation | None = None
    cores: int = 1
    """Cores of this machine that this process can use."""
    load: float = 0.0
    """Load of this machine when the run began."""
    uvloop: bool = False

    @property
    def flush(self) -> float:
        """What a commit costs beyond the round trip."""
        return max(0.0, self.commit.p50 - self.round_trip.p50)
