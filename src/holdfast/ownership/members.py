"""Names of workers, and their entries in the registry."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from ..db.acting import actor
from ..db.link import Link
from ..db.runner import Runner


def new_name() -> str:
    """A name that is unique per process start: host, pid and a random part, because pids are reused."""
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(4)}"


async def register(link: Link, worker: str, metadata: Mapping[str, Any]) -> None:
    """Add the worker to the registry, or update its entry; its status stays as it is."""
    await link.keep_trying("ownership", "register", worker, msgspec.json.encode(metadata).decode())


async def heartbeat(link: Link, counters: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Send a heartbeat for these workers; return their statuses, which others may have changed."""
    encoded = [msgspec.json.encode(c).decode() for c in counters.values()]
    rows = await link.run("ownership", "heartbeat", list(counters), encoded)
    return {row[0]: row[1] for row in rows}


async def absent(link: Link, workers: Collection[str]) -> list[str]:
    """Mark workers as absent, so that others get their buckets; return those that were live until now."""
    return [row[0] for row in await link.run("ownership", "absent", list(workers))]


async def leave(link: Link, worker: str, status: str, counters: Mapping[str, int] | None = None) -> None:
    """Set the status: 'draining' when it stops claiming, 'dead' when it is gone; with its last counters, if known."""
    encoded = None if counters is None else msgspec.json.encode(counters).decode()
    await link.run("ownership", "leave", worker, status, encoded, deadline=5)


async def drain(runner: Runner, workers: Collection[str]) -> list[str]:
    """Ask these workers to drain; return those that were alive."""
    return sorted(row[0] for row in await runner.run("ownership", "drain", list(workers), actor()))
