"""What decides when a job runs, as values; `explaining` says what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

SILENT = 30.0
"""Seconds without a heartbeat after which a worker is not live."""
COUNTED = 1000
"""How many rows before a job in its lane, and how many dead letters like it, are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """A worker in the registry, as far as it concerns one job."""

    id: str
    status: str = "alive"
    silent: float = 0.0
    serves: bool = False
    """Does it serve the job's queue?"""
    knows: tuple[int, int] | None = None
    """The versions of the job's kind that it can run; None: it does not know the kind."""
    hands: int = 0
    running: int = 0
    away: int = 0
    """How many destinations of its routes it cannot reach."""

    @property
    def live(self) -> bool:
        return self.status == "alive" and self.silent < SILENT

    @property
    def draining(self) -> bool:
        return self.status == "draining" and self.silent < SILENT


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """What a job is as a workflow instance."""

    name: str
    state: str
    since: datetime
    waits: tuple[str, ...] = ()
    wake_at: datetime | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    undoing: bool = False
    dead_children: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFacts:
    """The webhook endpoint that a delivery goes to; `status` is None if there is none any more."""

    id: str
    url: str | None = None
    status: str | None = None
    failing_since: datetime | None = None
    disabled_at: datetime | None = None
    disabled_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFacts:
    """The route of a delivery."""

    name: str
    destination: str = ""
    removed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFacts:
    """The chore that returns jobs of workers that are gone."""

    ran_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job with everything that decides when it runs."""

    id: UUID
    status: str
    queue: str
    available_at: datetime
    kind: str | None = None
    version: int = 1
    key: str = ""
    bucket: int = 0
    ordered: bool = False
    owned: bool = False
    attempts: int = 0
    max_attempts: int = 5
    crashes: int = 0
    generation: int = 0
    failed_generation: int | None = None
    """The hold of its last failed attempt."""
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    lease_expires_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    expires_at: datetime | None = None
    finished_at: datetime | None = None
    ended_by: str | None = None
    """Who cancelled, discarded or buried it, if the journal says so."""
    last_error: str | None = None
    alike: int | None = None
    """Of a dead letter: how many are alike, itself included; None: not known."""
    ahead: int | None = None
    """How many due rows of its lane are before it."""
    paused_at: datetime | None = None
    paused_by: str | None = None
    workers: tuple[WorkerFacts, ...] = ()
    instance: InstanceFacts | None = None
    endpoint: EndpointFacts | None = None
    route: RouteFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was read, in one trip."""

    asked: str
    now: datetime
    schema: str = "holdfast"
    found_version: int
    """Of the schema in the database."""
    our_version: int
    """Of this release."""
    refused_version: int | None = None
    """The first migration that this release does not know, and that is not marked compatible with it."""
    job: JobFacts | None = None
    head: JobFacts | None = None
    sweep: SweepFacts = SweepFacts()
