"""What a run has found, as plain values. Times are milliseconds where the name does not say otherwise."""

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
        """Of milliseconds, in any order; at least one."""
        ascending = sorted(values)
        return cls(ascending[len(ascending) // 2], ascending[len(ascending) * 99 // 100], len(ascending))


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who keeps dead rows from being removed, in this database or everywhere."""

    kind: str
    """session, prepared transaction, replication slot or standby."""
    name: str
    """The session's process id, or what it is called."""
    seconds: float | None
    """For how long, if that is known."""
    what: str


@dataclass(frozen=True, slots=True)
class Server:
    version: str
    settings: Mapping[str, str]
    pooler: bool
    """Is there a pooler in between, said or found?"""
    holders: Sequence[Holder] = ()


@dataclass(frozen=True, slots=True)
class Sessions:
    """What the worker's two busy sessions were doing while it drained, as shares of the looks at them."""

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
    """The user's own, while the run went on."""

    schema: str
    due: int
    claim_age: float
    """Seconds that the oldest due job has waited; of queues that are not paused."""
    live_workers: int
    busy: float
    """Share of the jobs that they can run at a time which they do run."""
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
    """CPU of this process meanwhile, as a share of one core."""
    pickup: Latency
    drain: Drain
    checkpoints_asked: int = 0
    """Checkpoints during the run that came because max_wal_size was reached, not because it was time."""
    wal_megabytes: float = 0.0
    installation: Installation | None = None
    cores: int = 1
    """Of this machine, for this process."""
    load: float = 0.0
    """Of this machine when the run began."""
    uvloop: bool = False

    @property
    def flush(self) -> float:
        """What a commit costs beyond the trip."""
        return max(0.0, self.commit.p50 - self.round_trip.p50)
