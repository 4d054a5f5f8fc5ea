"""Where events go, and how many of them have to arrive."""

from __future__ import annotations

RATES: dict[str, tuple[float, float | None]] = {
    "nats": (8_000, 5_000), "rabbitmq": (3_000, 2_000), "redis": (4_000, None), "webhooks": (2_000, None),
}  # fmt: skip
"""Targets in events a second: free, and ordered with 100 keys."""
KEYS = 100


def rate_case(destination: str, ordered: bool) -> str:
    return f"rate.{destination}{'.ordered' * ordered}"
