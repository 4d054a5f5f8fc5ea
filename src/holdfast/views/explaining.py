"""The facts of explain.sql as values, for `model.explaining`, which says what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..model.facts import (
    EndpointFacts,
    Facts,
    InstanceFacts,
    JobFacts,
    RouteFacts,
    SweepFacts,
    WorkerFacts,
)

Row = Mapping[str, Any]


def facts(rows: Sequence[Row], asked: str, schema: str, our_version: int) -> Facts:
    """Return what the rows of explain.sql say."""
    shared = rows[0]
    jobs = [row for row in rows if row["id"] is not None]
    return Facts(
        asked=asked,
        now=shared["now"],
        schema=schema,
        found_version=shared["found_version"],
        our_version=our_version,
        refused_version=shared["refused_version"],
        sweep=SweepFacts(ran_at=shared["swept_at"], error=shared["sweep_error"]),
        job=next((_job(row) for row in jobs if not row["is_head"]), None),
        head=next((_job(row) for row in jobs if row["is_head"]), None),
    )


def _job(row: Row) -> JobFacts:
    return JobFacts(
        **{name: row[name] for name in _PLAIN},
        failed_generation=_whole(_json(row["failed_generation"])),
        ended_by=row["acted"],
        workers=tuple(map(_worker, _json(row["workers"]) or ())),
        instance=_instance(row),
        endpoint=_endpoint(row),
        route=_route(row),
    )


_PLAIN = (
    "id", "status", "queue", "available_at", "kind", "version", "key", "bucket", "ordered", "owned", "attempts",
    "max_attempts", "crashes", "generation", "claimed_by", "claimed_at", "lease_expires_at", "cancel_requested_at",
    "expires_at", "finished_at", "last_error", "alike", "ahead", "paused_at", "paused_by",
)  # fmt: skip


def _json(stored: str | None) -> Any:
    return msgspec.json.decode(stored) if stored is not None else None


def _whole(value: Any) -> int | None:
    """A number in JSON; None for what is written by hand in another form."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _worker(stored: dict[str, Any]) -> WorkerFacts:
    return WorkerFacts(
        id=stored["id"],
        status=stored["status"],
        silent=float(stored["silent"]),
        serves=stored["serves"],
        knows=_versions(stored["knows"]),
        hands=_whole(stored["hands"]) or 0,
        running=_whole(stored["running"]) or 0,
        away=_whole(stored["away"]) or 0,
    )


def _versions(stored: Any) -> tuple[int, int] | None:
    if not isinstance(stored, list) or len(stored) != 2:
        return None
    oldest, newest = map(_whole, stored)
    return (oldest, newest) if oldest is not None and newest is not None else None


def _instance(row: Row) -> InstanceFacts | None:
    if row["instance"] is None:
        return None
    return InstanceFacts(
        name=row["instance"],
        state=row["state"],
        since=row["since"],
        waits=tuple(row["waits"] or ()),
        wake_at=row["wake_at"],
        paused_at=row["instance_paused_at"],
        paused_by=row["instance_paused_by"],
        undoing=row["undoing"],
        dead_children=tuple(row["dead_children"] or ()),
    )


def _endpoint(row: Row) -> EndpointFacts | None:
    if row["kind"] != "@deliver" or row["endpoint"] is None:
        return None
    return EndpointFacts(
        id=row["endpoint"],
        url=row["url"],
        status=row["endpoint_status"],
        failing_since=row["failing_since"],
        disabled_at=row["disabled_at"],
        disabled_reason=row["disabled_reason"],
    )


def _route(row: Row) -> RouteFacts | None:
    if row["route"] is None:
        return None
    return RouteFacts(name=row["route"], destination=row["destination"], removed_at=row["removed_at"])
