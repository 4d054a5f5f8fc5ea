"""Answers as plain values, for people (`next_step`) and programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]


def next_step(job: Row) -> str:
    """What happens to this job next, and what it waits for."""
    match job["status"]:
        case "completed":
            return "nothing: it completed"
        case "failed":
            return f"nothing: it was ended by decision ({job['last_error']})"
        case "dead_letter":
            return f"nothing until somebody acts: holdfast dead revive {job['id']}"
        case "blocked":
            return "waits for an earlier job of its key"
        case "processing":
            return _while_processing(job)
    return _while_pending(job)


def _while_processing(job: Row) -> str:
    left = (job["lease_expires_at"] - job["now"]).total_seconds() if job["lease_expires_at"] else 0.0
    asked = "; its handler was told to stop" if job["cancel_requested_at"] else ""
    if left > 0:
        where = job["claimed_by"] if job["owner_seen"] else f"{job['claimed_by']}, which has not been seen for 30 s"
        return f"runs on {where}; lease until {job['lease_expires_at']:%H:%M:%S}, in {left:.0f} s{asked}"
    after = "retried" if job["attempts"] < job["max_attempts"] else "dead-lettered"
    return f"its lease ran out {-left:.0f} s ago; housekeeping will sweep it and it will be {after}"


def _while_pending(job: Row) -> str:
    wait = (job["available_at"] - job["now"]).total_seconds()
    if job["paused"]:
        return f"waits: queue {job['queue']} is paused; holdfast queue resume {job['queue']}"
    if job["kind"] is None:
        return 'waits: its payload has no "type", so no handler can be found'
    if job["attempts"] >= job["max_attempts"]:
        return "has no attempt left; housekeeping will make it a dead letter"
    if not job["runnable_somewhere"]:
        return f"waits: no live worker on queue {job['queue']} knows {job['kind']} version {job['version']}"
    if wait > 0:
        why = f"retry after attempt {job['attempts']}" if job["attempts"] else "scheduled"
        return f"{why}: due at {job['available_at']:%Y-%m-%d %H:%M:%S}, in {wait:.0f} s"
    alone = "; it will run alone, since its last attempt took its process down" if job["crashes"] else ""
    return f"due for {-wait:.1f} s; the next free worker claims it{alone}"
