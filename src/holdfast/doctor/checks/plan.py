"""Does the claim read its own index, and nothing else?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ...db.database import PIN_PLANS
from ..check import Check, Found, Patient

INDEX = "idx_inbox_claim"
ALLOWED = {INDEX, "idx_inbox_suspect", "idx_inbox_ordered_claim", "idx_inbox_pkey", "inbox_pkey"}


async def look(patient: Patient) -> Found:
    await patient.connection.execute(PIN_PLANS)  # as a worker's session has it, for the rest of this transaction
    start = datetime(2000, 1, 1, tzinfo=UTC)
    lane = (["default"], [1], [start], [0])
    explain = "explain (format json) " + patient.database.sql("inbox", "claim")
    rows = await patient.connection.fetch(explain, *lane, 25, ["job"], "{}", "doctor", 60.0, True, True)
    return judge(json.loads(rows[0][0])[0]["Plan"])


def judge(plan: dict[str, Any]) -> Found:
    nodes = [node for node in _nodes(plan) if node.get("Relation Name") == "inbox" or "Index Name" in node]
    indexes = {node["Index Name"] for node in nodes if node.get("Index Name", "").startswith(("idx_inbox", "inbox"))}
    scans = {node["Node Type"] for node in nodes if node["Node Type"] in ("Seq Scan", "Bitmap Heap Scan")}
    sorts = any(node["Node Type"] == "Sort" for node in _nodes(plan))
    remedy = "see the check indexes; then: analyze holdfast.inbox. Send us the plan if the index is there"
    if scans or INDEX not in indexes:
        how = f"by {', '.join(sorted(scans))}" if scans else f"through {', '.join(sorted(indexes)) or 'no index'}"
        return Found("fail", f"the claim does not read {INDEX}: it reads the inbox {how}", remedy=remedy)
    if sorts or indexes - ALLOWED:
        what = "sorts" if sorts else f"also reads {', '.join(sorted(indexes - ALLOWED))}"
        return Found("warn", f"the claim {what}, which costs more with every row that waits", remedy=remedy)
    return Found("ok", f"the claim reads {INDEX} in its order, and sorts nothing")


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from _nodes(part)


CHECK = Check("plan", "claim-plan", look)
