"""Does something keep vacuum from removing dead rows?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model.finding import Level
from ...model.moments import span
from ..check import Check, Found, Patient, graded

WARN = 300.0
FAIL = 3600.0
"""Seconds for which a transaction is open."""
MANY_XIDS = 10_000_000
"""So far back, whatever its age: for slots, which have none."""
SOME_XIDS = 1_000_000


async def look(patient: Patient) -> Found:
    holders = [dict(row) for row in await patient.rows("horizon")]
    levels = {"ok": 0, "warn": 1, "fail": 2}
    worst = max(holders, key=lambda holder: (levels[_level(holder)], holder["seconds"] or 0.0), default=None)
    if worst is None:
        return Found("ok", "nothing holds back the xmin horizon", 0.0, "s")
    seconds = worst["seconds"]
    for_ = f" for {span(seconds)}" if seconds is not None else ""
    name = f"{worst['kind']} {worst['name']} ({worst['what']})"
    if (level := _level(worst)) == "ok":
        return Found("ok", f"the oldest is {name}, open{for_}", seconds, "s")
    return Found(
        level,
        f"{name} holds back the xmin horizon{for_}, by {worst['xids'] or 0:,} transactions: vacuum removes no dead "
        "rows that are younger, and tables grow",
        seconds if seconds is not None else float(worst["xids"] or 0),
        "s" if seconds is not None else "transactions",
        _remedy(worst),
    )


def _level(holder: Mapping[str, Any]) -> Level:
    by_age = graded(holder["seconds"] or 0.0, WARN, FAIL)
    by_xids = graded(holder["xids"] or 0, SOME_XIDS, MANY_XIDS)
    return "fail" if "fail" in (by_age, by_xids) else "warn" if "warn" in (by_age, by_xids) else "ok"


def _remedy(holder: Mapping[str, Any]) -> str:
    match holder["kind"]:
        case "session":
            return (
                f"end it: select pg_terminate_backend({holder['name']}); then set "
                "idle_in_transaction_session_timeout for its role"
            )
        case "prepared transaction":
            return f"end it: rollback prepared '{holder['name']}' (or commit prepared)"
        case "replication slot":
            return f"if its consumer is gone: select pg_drop_replication_slot('{holder['name']}')"
        case _:
            return "a query on the standby holds it: end that, or turn hot_standby_feedback off there"


CHECK = Check("horizon", "vacuum-held-back", look, needs_monitor=True)
