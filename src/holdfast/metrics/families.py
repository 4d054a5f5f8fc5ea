"""What is exported, under which names: from numbers to a page for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..model.numbers import ENDS, Attempts, Gauge
from ..version import __version__
from .text import Labels, family, histograms, page

Pair = tuple[str, str]
"""(queue, kind)"""


def worker_page(totals: Mapping[Pair, Attempts], lost: Mapping[tuple[Pair, str], int] | None = None) -> bytes:
    """Return what one supervisor and its processes have counted since it started. `lost`: attempts whose worker was
    gone, by queue, kind and how."""
    pairs = sorted(totals.items())
    of = [(_labels(pair), attempts) for pair, attempts in pairs if any(pair)]
    return page(
        family("build_info", "gauge", "The version of this worker.", [((("version", __version__),), 1)]),
        family("attempts_started_total", "counter", "Attempts that began.", ((about, a.started) for about, a in of)),
        family(
            "attempts_ended_total", "counter",
            "Attempts that ended, by outcome, also those whose worker was gone.",
            (
                ((*_labels(pair), ("outcome", outcome)), value)
                for pair, attempts in pairs
                for outcome in ENDS
                if (value := getattr(attempts, outcome)) or outcome in ("completed", "retried", "dead")
            ),
        ),
        family(
            "attempts_lost_total", "counter",
            "Attempts whose worker was gone: their lease expired (swept), or their process died (died).",
            (((*_labels(pair), ("how", how)), value) for (pair, how), value in sorted((lost or {}).items())),
        ),
        histograms("run_seconds", "How long attempts ran.", ((about, a.run) for about, a in of)),
        histograms("pickup_seconds", "How long due jobs waited for their claim.",
                   ((about, a.pickup) for about, a in of)),
        _sum("lease_losses_total", "Leases that could not be renewed in time, or that another worker took.",
             (a.lease_losses for _, a in pairs)),
        _sum("fenced_writes_total", "Endings that were not written, because another worker may have the job.",
             (a.fenced for _, a in pairs)),
        _sum("reconnects_total", "Calls of claims that failed because the server could not be reached.",
             (a.reconnects for _, a in pairs)),
    )  # fmt: skip


def installation_page(gauges: Iterable[Gauge]) -> bytes:
    """Return the gauges of the whole installation."""
    by_name: dict[str, list[Gauge]] = {}
    for gauge in gauges:
        by_name.setdefault(gauge.name, []).append(gauge)
    jobs = by_name.get("jobs", [])
    ages = {gauge.queue: gauge.value for gauge in by_name.get("claim_age", [])}
    queues = sorted({gauge.queue for gauge in jobs} | ages.keys())

    def plain(name: str, shown: str, help: str) -> list[str]:
        return family(shown, "gauge", help, (((), gauge.value) for gauge in by_name.get(name, ())))

    def labelled(name: str, shown: str, help: str, /, **labels: str) -> list[str]:
        series = (
            (tuple((label, getattr(gauge, column)) for label, column in labels.items()), gauge.value)
            for gauge in by_name.get(name, ())
        )
        return family(shown, "gauge", help, series)

    return page(
        labelled("jobs", "jobs", "Live jobs. A job can be in several states: one that is due is pending, too.",
                 queue="queue", state="label"),
        family("claim_age_seconds", "gauge", "How long the oldest due job has waited.",
               (((("queue", queue),), ages.get(queue, 0.0)) for queue in queues)),
        labelled("unclaimable", "unclaimable_jobs", "Due jobs that no live worker can run.",
                 queue="queue", kind="kind"),
        labelled("queue_paused", "queue_paused", "1 if the queue is paused.", queue="queue"),
        labelled("workers", "workers", "Workers in the registry.", status="label"),
        labelled("chore_age", "chore_age_seconds", "How long ago each chore last ran.", chore="label"),
        plain("horizon_age", "horizon_age_xids", "Transactions since the oldest snapshot that vacuum must respect."),
        plain("gauges_age", "gauges_age_seconds", "How long ago the gauges were measured."),
        labelled("outbox_lag", "outbox_lag_seconds", "How long the oldest due delivery has waited.", route="label"),
        labelled("workflows", "workflows", "Live workflow instances.", name="kind", state="label"),
        plain("schedules_late", "schedules_late", "Schedules that should have fired a minute ago."),
    )  # fmt: skip


def _labels(pair: Pair) -> Labels:
    return ("queue", pair[0]), ("kind", pair[1])


def _sum(name: str, help: str, values: Iterable[int]) -> list[str]:
    return family(name, "counter", help, [((), sum(values))])
