"""Do the workers of owned queues agree on who they are?"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from ...model.moments import span
from ...model.ring import digest
from ...model.words import plural
from ..check import Check, Found, Patient

SETTLED = 45.0
"""Seconds after a worker came or went in which views may differ: a refresh and a heartbeat, with room to spare."""
QUIET = 20.0
"""Seconds without a heartbeat after which a member may be gone; its buckets wait until 30."""


async def look(patient: Patient) -> Found:
    rows = await patient.rows("ring")
    queues = {queue: list(members) for queue, members in groupby(rows, key=lambda row: row["queue"])}
    if not queues:
        return Found("ok", "no queue with live workers has owned buckets")
    members: dict[str, dict[str, list[str]]] = {}
    for queue, workers in queues.items():
        names = [worker["worker"] for worker in workers]
        for worker in workers:
            members.setdefault(worker["worker"], {})[queue] = names
    for queue, workers in queues.items():
        quiet = [worker for worker in workers if worker["silent"] > QUIET]
        if quiet:
            return Found(
                "warn",
                f"worker {quiet[0]['worker']} of queue {queue} was last seen {span(quiet[0]['silent'])} ago, and still "
                "owns buckets: their jobs wait until it was silent for 30 s",
                quiet[0]["silent"], "s", "holdfast workers list; its host or its connection is in trouble",
            )  # fmt: skip
        if any(_moves(worker) for worker in workers):
            continue
        astray = [
            worker for worker in workers
            if worker["ring"] is not None and worker["ring"] != digest(members[worker["worker"]])
        ]  # fmt: skip
        if astray:
            return Found(
                "fail",
                f"{plural(len(astray), 'worker')} of queue {queue} see{'s' if len(astray) == 1 else ''} other members "
                f"than the registry has ({astray[0]['worker']}): some buckets have no owner, or two",
                float(len(astray)), "workers",
                f"restart it: holdfast workers drain {astray[0]['worker']}; if this continues, it reads another server",
            )  # fmt: skip
    return Found("ok", f"all workers of {plural(len(queues), 'owned queue')} agree", float(len(members)), "workers")


def _moves(worker: Any) -> bool:
    """Did somebody come or go lately?"""
    return worker["up"] < SETTLED or (worker["left"] is not None and worker["left"] < SETTLED + 30.0)


CHECK = Check("ring", "ring", look)
