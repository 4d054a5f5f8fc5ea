"""Names of workers, and their entries in the registry."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from ..db.link import Link
from ..db.runner import Runner


def new_name() -> str:
    """Unique per process start: host, pid and a random part, since pids come back."""
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(4)}"


async def register(link: Link, worker: str, metadata: Mapping[str, Any]) -> None:
    """Enter the registry, or renew what it says; a status that others set stays."""
    await link.keep_trying("ownership", "register", worker, msgspec.json.encode(metadata).decode())


async def heartbeat(link: Link, counters: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Beat for these workers; their statuses, as others may have set them."""
    encoded = [msgspec.json.encode(c).decode() for c in counters.values()]
    rows = await link.run("ownership", "heartbeat", list(counters), encoded)
    return {row[0]: row[1] for row in rows}


async def absent(link: Link, workers: Collection[str]) -> list[str]:
    """These do not run now: others may have what they own. Those of whom that is news."""
    return [row[0] for row in await link.run("ownership", "absent", list(workers))]


async def leave(link: Link, worker: str, status: str, counters: Mapping[str, int] | None = None) -> None:
    """'draining' when it stops claiming, 'dead' when it is gone; with what it has done, if it can still say so."""
    encoded = None if counters is None else msgspec.json.encode(counters).decode()
    await link.run("ownership", "leave", worker, status, encoded, deadline=5)


async def drain(runner: Runner, workers: Collection[str]) -> list[str]:
    """Ask these to finish what runs, hand back the rest and end; those that were alive."""
    return sorted(row[0] for row in await runner.run("ownership", "drain", list(workers)))
