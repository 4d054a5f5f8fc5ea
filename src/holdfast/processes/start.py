"""What a supervisor and its worker processes agree on."""

from __future__ import annotations

import msgspec

from ..worker.logs import LogFormat

WAKE = 128
"""The first of the orders to look for work: one for each post."""


class Start(msgspec.Struct, frozen=True):
    """What a new process gets from the supervisor."""

    app: str
    settings: dict[str, object]
    ledger_fd: int
    pipe_fd: int
    bell_fd: int
    """To tell the supervisor that the ledger has changed; the byte does not matter."""
    parent: int
    log_level: str = "INFO"
    log_format: LogFormat = "text"
    isolation: bool = False
    """Run suspects, and nothing else?"""
