"""The checks, in the order in which they are run and shown: the server first, then the installation, then its work."""

from __future__ import annotations

from ..check import Check
from . import (
    backlog,
    clock,
    connections,
    dead_letters,
    dead_rows,
    freeze,
    horizon,
    hot_keys,
    indexes,
    leases,
    locks,
    notify,
    orphans,
    partitions,
    paused,
    plan,
    pooler,
    ring,
    settings,
    unclaimable,
    versions,
)

CHECKS: tuple[Check, ...] = (
    versions.CHECK,
    settings.CHECK,
    clock.CHECK,
    connections.CHECK,
    pooler.CHECK,
    notify.CHECK,
    horizon.CHECK,
    dead_rows.CHECK,
    freeze.CHECK,
    locks.CHECK,
    indexes.CHECK,
    plan.CHECK,
    partitions.CHECK,
    leases.CHECK,
    orphans.CHECK,
    ring.CHECK,
    paused.CHECK,
    unclaimable.CHECK,
    backlog.CHECK,
    hot_keys.CHECK,
    dead_letters.CHECK,
)
