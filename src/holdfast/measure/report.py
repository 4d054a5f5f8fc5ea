"""Measurements and diagnosis as text."""

from __future__ import annotations

import textwrap

from .diagnosis import Diagnosis
from .measurements import Latency, Measurements

WIDTH = 110


def report(found: Measurements, diagnosis: Diagnosis) -> str:
    parts = [
        *_figures(found),
        ("", ""),
        ("Bottleneck", diagnosis.title),
        ("", diagnosis.why),
        ("Change", diagnosis.setting),
        ("", diagnosis.how),
        *(("Also", note) for note in diagnosis.notes),
    ]
    return "\n".join(_line(name, value) for name, value in parts)


def _line(name: str, value: str) -> str:
    """Two columns; the second is wrapped."""
    return textwrap.fill(
        value, WIDTH, initial_indent=f"{name:<26}  ", subsequent_indent=" " * 28, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _figures(found: Measurements) -> list[tuple[str, str]]:
    drain, sessions = found.drain, found.drain.sessions
    rows = [
        ("round trip", _latency(found.round_trip)),
        ("commit of one row", _latency(found.commit)),
        ("enqueue, one per commit", f"{_latency(found.enqueue)}, {1000 / found.enqueue.p50:,.0f} jobs/s"),
        ("enqueue, 1,000 per call", f"{found.bulk_rate:,.0f} jobs/s, {found.bulk_cpu:.0%} of a core here"),
        ("pick-up, idle worker", _latency(found.pickup)),
        ("drain, one worker process", f"{drain.rate:,.0f} empty jobs/s ({drain.jobs:,} in {drain.seconds:.1f} s)"),
        ("  its CPU", f"{drain.worker_cpu:.0%} of a core"),
        (
            "  its sessions",
            f"computing {sessions.cpu:.0%}; waiting for commits {sessions.commit:.0%}, disk {sessions.disk:.0%}, "
            f"locks {sessions.lock:.0%}, the worker {sessions.idle:.0%}",
        ),
        ("server", f"PostgreSQL {found.server.version}, {'behind a' if found.server.pooler else 'no'} pooler"),
        ("settings", ", ".join(f"{name} {value or 'none'}" for name, value in sorted(found.server.settings.items()))),
        ("written", f"{found.wal_megabytes:,.0f} MB of WAL, {found.checkpoints_asked} early checkpoints"),
    ]  # fmt: skip
    if found.installation is not None:
        own = found.installation
        rows.append((
            f"schema {own.schema}",
            f"{own.due:,} jobs due, {own.live_workers} live workers, {own.busy:.0%} busy, {own.rate:,.0f} jobs/s, "
            f"{own.dead_rows:,} dead rows, {own.live_rows:,} live",
        ))  # fmt: skip
    return rows


def _latency(latency: Latency) -> str:
    return f"{latency.p50:.2f} ms (99 %: {latency.p99:.2f})"
