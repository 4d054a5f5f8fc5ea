"""Convoys: rows of an ordered key that are not claimed, but follow a claimed one under its hold.

While a row of an ordered key is in processing, nobody else claims a row of that key. So its holder may go on with the
next rows, in their order, each when the one before it has completed, and write all these endings at once, under the one
hold. A row that follows is never claimed: if the worker dies, loses the lease or gives up halfway, it still waits, and
has lost no attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from uuid import UUID

from ..db.runner import Runner
from ..model.convoy import Convoy
from ..model.job import Claim
from ..model.report import Report
from ..probes import probe
from .claim import Known

_PLACE = itemgetter(0, 1)


async def followers(runner: Runner, heads: Sequence[Claim], most: int, known: Known) -> list[list[Claim]]:
    """Read what waits behind each of these heads, which the caller holds: up to `most` rows that may follow it."""
    queues, keys = [head.queue for head in heads], [head.key for head in heads]
    rows = await runner.run("inbox", "followers", queues, keys, most, known.kinds, known.spread)
    found: list[list[Claim]] = [[] for _ in heads]
    waits: set[int] = set()
    for n, _, ready, id, generation, attempts, most_attempts, kind, version, payload, headers, waited in sorted(
        rows, key=_PLACE
    ):
        if not ready:
            waits.add(n)
        if n in waits:  # and what comes after it waits for it
            continue
        head = heads[n - 1]
        found[n - 1].append(
            Claim(
                head.worker, id, generation + 1, head.fence, attempts + 1, most_attempts, kind, version, payload,
                head.queue, head.key, headers, None, ordered=True, waited=waited, slot=head.slot,
            )
        )  # fmt: skip
    return found


async def end(runner: Runner, convoys: Sequence[Convoy], repeated: bool) -> Report[Claim]:
    """Write the endings of convoys of one worker. Of a convoy whose head was lost, nothing is written."""
    report: Report[Claim] = Report()
    rows = sorted(((claim, done, c.endings[0][0]) for c in convoys for claim, done in c.endings), key=_by_id)
    ids, generations = [claim.id for claim, _, _ in rows], [claim.generation for claim, _, _ in rows]
    worker = rows[0][0].worker
    probe("complete.before")
    answer = await runner.run(
        "inbox", "end_convoys", ids, generations, [head.id for _, _, head in rows], [head.fence for _, _, head in rows],
        [done.result for _, done, _ in rows], [max(claim.took, 0.0) for claim, _, _ in rows], worker,
    )  # fmt: skip
    probe("complete.after")
    completed, report.late, written = answer[0]
    if completed < len(rows):
        if repeated:
            written += [row[0] for row in await runner.run("inbox", "confirm", ids, generations, worker)]
        there = set(written)
        completed = len(there)
        report.lost += [claim for claim, _, _ in rows if claim.id not in there]
    report.completed = completed
    return report


def _by_id(row: tuple[Claim, object, Claim]) -> UUID:
    return row[0].id
