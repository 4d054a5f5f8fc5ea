"""Count what happened to the shop's jobs. Imports nothing of Holdfast; the demo runs it as a separate script.

    HOLDFAST_DATABASE_URL=… python recount.py FOLDER SCHEMA

It reads the producer's log, the kill log and the recorded effects from the folder, and the orders, the effects and the
rows of the jobs from the database. It prints one JSON object: `numbers`, the eight results, and `details`.

What is counted:

    enqueued                jobs of committed transactions, by the producer's log; a second request adds none
    completed               of these: archived as completed, with their effect
    dead_letter             of these: dead letters
    lost                    all others: missing, completed without their effect, or not ended in time; and jobs of
                            committed orders that are not in the table; and slots of the schedule without an effect.
                            Jobs that somebody cancelled or discarded in the dashboard are not counted
    duplicate_effects       second effects of a job in the database; second letters of a receipt; runs of a `once`
                            block after its marker was written; effects of attempts that failed; second jobs under one
                            idempotency key; second effects of a slot
    recovered_after_kill    jobs that a worker held when it was killed and that ended under a later generation. Here,
                            those of the schedule are counted, too. `details` says what became of the others: completed
                            under the generation of the worker that was killed, which had sent this ending just before;
                            dead letters under that generation, because it was their last attempt; ended by hand
    rolled_back_jobs_found  jobs, and effects of jobs, whose transaction was rolled back
    jobs_per_second         completed ÷ seconds from the first order to the end of the last job

One window is documented: if a handler is killed after an effect outside the database and before its marker, the next
attempt repeats the request. The mail service recognises it by its idempotency key and sends one letter. `details`
counts these requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

POISON = frozenset({"check_fraud", "render_invoice"})
"""Kinds that never succeed, and so must have no effect."""
POSTED = "send_receipt"
"""The kind whose effect is a letter; the other kinds write rows."""
SCHEDULED, PERIOD = "count_stock", 2
"""The kind that a schedule enqueues, and the seconds between two slots. Its orders are the slots, in seconds."""

Line = Mapping[str, Any]
Name = tuple[int, str]
"""Order and kind: what a job is for."""


@dataclass(frozen=True, slots=True)
class Row:
    """A job as the database has it, live or archived."""

    id: str
    order: int
    kind: str
    status: str
    generation: int
    finished: float | None = None


@dataclass(slots=True)
class Evidence:
    producer: Sequence[Line]
    kills: Sequence[Line]
    witnessed: Sequence[Line]
    orders: frozenset[int]
    effects: Sequence[Name]
    rows: Sequence[Row]
    scheduled: Sequence[Row] = ()
    """Those of the schedule. They have no order: their effects name the slot."""


@dataclass(slots=True)
class Books:
    """What the producer's log says."""

    committed: dict[Name, str] = field(default_factory=dict)
    """The jobs of committed transactions, with the ids that the producer received."""
    orders: set[int] = field(default_factory=set)
    rolled_back: set[int] = field(default_factory=set)
    repeated: int = 0
    began: float = 0.0


def read_books(lines: Iterable[Line], orders: frozenset[int]) -> Books:
    books = Books()
    unknown: dict[int, Line] = {}
    for line in lines:
        match line["what"]:
            case "began":
                books.began = line["t"]
            case "intent":
                unknown[line["order"]] = line
            case "committed":
                unknown.pop(line["order"], None)
                _commit(books, line["order"], line["jobs"])
            case "rolled back":
                unknown.pop(line["order"], None)
                books.rolled_back.add(line["order"])
            case "repeated":
                books.repeated += 1
    for order, line in unknown.items():  # no outcome in the log: the table of orders decides
        if order in orders:
            _commit(books, order, dict.fromkeys(line["jobs"], ""))
        else:
            books.rolled_back.add(order)
    return books


def _commit(books: Books, order: int, jobs: Mapping[str, str]) -> None:
    books.orders.add(order)
    for kind, id in jobs.items():
        books.committed[order, kind] = id


def recount(evidence: Evidence) -> dict[str, dict[str, float]]:
    """Return the numbers. They depend on the evidence only."""
    books = read_books(evidence.producer, evidence.orders)
    rows: dict[Name, list[Row]] = {}
    for row in evidence.rows:
        rows.setdefault((row.order, row.kind), []).append(row)
    slots, slots_missing, slots_twice = _slots(evidence)
    in_tables = Counter(name for name in evidence.effects if name[1] != SCHEDULED)
    letters = _letters(evidence.witnessed)
    seen = in_tables + Counter({name: len(keys) for name, keys in letters.items()})

    ends = Counter(_end(name, id, rows.get(name, []), seen[name], evidence) for name, id in books.committed.items())
    second_jobs = sum(len(found) - 1 for found in rows.values())
    failed_effects = sum(count for name, count in seen.items() if name[1] in POISON)
    repeats_of_rows = sum(count - 1 for name, count in in_tables.items() if name[1] not in POISON)
    second_letters = sum(len(keys) - 1 for keys in letters.values())
    after_marker, absorbed = _entries(evidence.witnessed)
    ghosts = {name for name in [*rows, *seen] if name[0] in books.rolled_back or name[0] not in books.orders}
    ghost_orders = evidence.orders & books.rolled_back

    completed = ends["completed"]
    duplicates = repeats_of_rows + second_letters + after_marker + failed_effects + second_jobs
    last = max((row.finished for row in evidence.rows if row.finished is not None), default=books.began)
    fates = _fates(evidence)
    return {
        "numbers": {
            "enqueued": len(books.committed),
            "completed": completed,
            "dead_letter": ends["dead_letter"],
            "lost": len(books.committed) - completed - ends["dead_letter"] - ends["by hand"] + slots_missing,
            "duplicate_effects": duplicates + slots_twice,
            "recovered_after_kill": fates["recovered"],
            "rolled_back_jobs_found": len(ghosts) + len(ghost_orders),
            "jobs_per_second": round(completed / max(last - books.began, 0.001), 1),
        },
        "details": {
            "orders": len(books.orders),
            "rolled_back": len(books.rolled_back),
            "repeated": books.repeated,
            "kills": sum(1 for line in evidence.kills if line["what"] == "killed"),
            "held_when_killed": fates.total(),
            "held_completed": fates["completed"],
            "held_dead": fates["dead_letter"],
            "held_by_hand": fates["by hand"],
            "poison": sum(1 for name in books.committed if name[1] in POISON),
            "letters": len(letters),
            "absorbed_repeats": absorbed,
            "rows_written": sum(in_tables.values()),
            "by_hand": ends["by hand"],
            "lost_missing": ends["missing"],
            "lost_without_effect": ends["without effect"],
            "lost_unfinished": ends["unfinished"],
            "lost_order": ends["order missing"],
            "slots": slots,
            "slots_missing": slots_missing,
            "slots_twice": slots_twice,
            "second_jobs": second_jobs,
            "effects_after_marker": after_marker,
            "seconds": round(last - books.began, 1),
        },
    }


def _slots(evidence: Evidence) -> tuple[int, int, int]:
    """How many slots of the schedule have a job; how many in between have none; how many jobs are second ones."""
    slots = Counter(order for order, kind in evidence.effects if kind == SCHEDULED)
    missing = len(range(min(slots), max(slots) + 1, PERIOD)) - len(slots) if slots else 0
    return len(slots), missing, sum(slots.values()) - len(slots)


def _end(name: Name, id: str, rows: Sequence[Row], effects: int, evidence: Evidence) -> str:
    if name[0] not in evidence.orders:
        return "order missing"
    row = next((row for row in rows if row.id == id or not id), None)
    if row is None:
        return "missing"
    match row.status:
        case "completed":
            return "completed" if effects and name[1] not in POISON else "without effect"
        case "dead_letter":
            return "dead_letter"
        case "cancelled" | "discarded":
            return "by hand"
        case _:
            return "unfinished"


def _letters(witnessed: Iterable[Line]) -> dict[Name, set[str]]:
    """Return the letters that were sent for each receipt: requests with the same key are one letter."""
    letters: dict[Name, set[str]] = {}
    for line in witnessed:
        if line["what"] == "posted":
            letters.setdefault((line["order"], line["kind"]), set()).add(line["key"])
    return letters


def _entries(witnessed: Iterable[Line]) -> tuple[int, int]:
    """Count the requests after the marker of an earlier attempt, and the second requests before any marker.

    When `done` is in the log, the marker is stored. A request with a lower fence comes from a worker that has lost its
    lease; a service that compares fences rejects it, and so does this one.
    """
    done: dict[str, int] = {}
    posted: set[str] = set()
    after_marker = absorbed = 0
    for line in witnessed:
        key, fence = line["key"], line["fence"]
        if line["what"] == "done":
            done[key] = min(fence, done.get(key, fence))
        elif line["what"] == "posted":
            if key in done and fence > done[key]:
                after_marker += 1
            elif key in posted:
                absorbed += 1
            posted.add(key)
    return after_marker, absorbed


def _fates(evidence: Evidence) -> Counter[str]:
    """What became of the jobs that workers held when they were killed; of one that was held more often, since the first
    time."""
    held: dict[str, int] = {}
    for line in evidence.kills:
        for row in line.get("held", []):
            held[row["id"]] = min(row["generation"], held.get(row["id"], row["generation"]))
    rows = {row.id: row for row in [*evidence.rows, *evidence.scheduled]}
    return Counter(_fate(rows.get(id), generation) for id, generation in held.items())


def _fate(row: Row | None, generation: int) -> str:
    match row:
        case Row(status="completed" | "dead_letter") if row.generation > generation:
            return "recovered"
        case Row(status="completed" | "dead_letter"):
            return row.status
        case Row(status="cancelled" | "discarded"):
            return "by hand"
        case _:
            return "lost"


# Reading


async def gather(url: str, schema: str, folder: Path) -> Evidence:
    connection = await asyncpg.connect(url, statement_cache_size=0)  # there may be a pooler in between
    try:
        orders = await connection.fetch(f'select id from "{schema}".orders')
        effects = await connection.fetch(f'select order_id, kind from "{schema}".effects')
        jobs = await connection.fetch(
            f"select id::text, coalesce((payload ->> 'order_id')::bigint, 0), payload ->> 'type', status::text,"
            f' lease_generation, extract(epoch from dead_at)::float8 from "{schema}".inbox'
            f" union all"
            f" select id::text, coalesce((payload ->> 'order_id')::bigint, 0), payload ->> 'type', status::text,"
            f' lease_generation, extract(epoch from finished_at)::float8 from "{schema}".archive'
        )
    finally:
        await connection.close()
    rows = [Row(*job) for job in jobs]
    return Evidence(
        producer=read_log(folder / "producer.log"),
        kills=read_log(folder / "kills.log"),
        witnessed=read_log(folder / "effects.log"),
        orders=frozenset(row[0] for row in orders),
        effects=[(row[0], row[1]) for row in effects],
        rows=[row for row in rows if row.kind != SCHEDULED],
        scheduled=[row for row in rows if row.kind == SCHEDULED],
    )


def read_log(path: Path) -> list[Line]:
    """Return the lines, without a last one that is incomplete because its writer was killed."""
    if not path.exists():
        return []
    data = path.read_bytes()
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def main() -> None:
    folder, schema = sys.argv[1:]
    evidence = asyncio.run(gather(os.environ["HOLDFAST_DATABASE_URL"], schema, Path(folder)))
    print(json.dumps(recount(evidence)))


if __name__ == "__main__":
    main()
