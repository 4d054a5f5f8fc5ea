"""Instances, as a worker holds them, and what it writes about them."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.support.inbox import Session

from holdfast.inbox import operating as jobs
from holdfast.model.flow import FlowEnd, History, NewChild, Parked, StepRecord
from holdfast.model.ids import new_id
from holdfast.model.job import Claim
from holdfast.model.outcome import Completed, Ended
from holdfast.model.report import Report
from holdfast.workflow import ending, operating, recording

FLOW = "checkout"
KNOWN = {FLOW: (1, 1), "job": (1, 1), "inner": (1, 1)}


async def declare(one: Session) -> None:
    """Say that the kinds `checkout` and `inner` are workflows, and `job` is not."""
    await one.connection.execute(
        "insert into holdfast.kinds (kind, version, app, arguments, workflow) values"
        " ('checkout', 1, 'shop', '{}', true), ('inner', 1, 'shop', '{}', true), ('job', 1, 'shop', '{}', false)"
    )


async def start(one: Session, count: int = 1, kind: str = FLOW, **options: Any) -> list[UUID]:
    return await one.add(count, kind=kind, **options)


async def cancel(one: Session, instance: str | UUID, reason: str = "cancelled") -> str:
    """As `hf.cancel_instance`."""
    return await jobs.cancel(one, await operating.find(one, instance), reason)


async def claim(one: Session, worker: str = "w1", limit: int = 25, lease: float = 90) -> list[Claim]:
    return await one.claim(worker, limit, known=KNOWN, lease=lease)


async def started(one: Session, worker: str = "w1", **options: Any) -> Claim:
    """A running instance."""
    await start(one, **options)
    (held,) = await claim(one, worker)
    return held


def step(name: str = "charge", ordinal: int = 0, status: str = "done", **fields: Any) -> StepRecord:
    return StepRecord(**{"name": name, "n": 0, "ordinal": ordinal, "kind": "step", "status": status, **fields})


def waiting(name: str = "paid", ordinal: int = 0, **fields: Any) -> StepRecord:
    return step(f"wait {name}", ordinal, "open", kind="wait", **fields)


def sleeping(seconds: float, name: str = "nap", ordinal: int = 0) -> StepRecord:
    return step(name, ordinal, "open", kind="sleep", delay=seconds)


def child_step(ordinal: int = 0, kind: str = "job", name: str = "child", n: int | None = None) -> StepRecord:
    child = NewChild(new_id(), kind, json.dumps({"type": kind}), "default", 1, 5, 1)
    return step(name, ordinal, "open", kind="child", child=child, n=ordinal if n is None else n)


def for_signal(mail: int = 0, name: str = "paid", **fields: Any) -> Parked:
    return Parked(mail, (f"signal:{name}",), **fields)


async def park(one: Session, held: Claim, outcome: Parked, repeated: bool = False) -> Report[Claim]:
    return await ending.write(one, [(held, outcome)], repeated)


async def end(
    one: Session, held: Claim, result: str | None = None, records: Sequence[StepRecord] = (), repeated: bool = False
) -> Report[Claim]:
    return await ending.write(one, [(held, FlowEnd(Completed(result), tuple(records)))], repeated)


async def end_child(one: Session, held: Claim, outcome: Completed | Ended | FlowEnd | None = None) -> Report[Claim]:
    return await ending.end_children(one, [(held, outcome or Completed("1"))])


async def history(one: Session, id: UUID) -> History:
    return (await recording.load(one, [id]))[id]


async def signal(one: Session, id: UUID | str, name: str = "paid", payload: Any = None, key: str | None = None) -> str:
    return str(
        await one.connection.fetchval(
            "select holdfast.signal($1, $2, $3::text::jsonb, $4)", str(id), name, json.dumps(payload), key
        )
    )


async def due(one: Session, id: UUID) -> bool:
    """Would a worker claim it now?"""
    return bool(
        await one.connection.fetchval(
            "select status = 'pending' and available_at <= holdfast.clock() from holdfast.inbox where id = $1", id
        )
    )


async def steps(one: Session, id: UUID) -> list[tuple[str, int, str]]:
    rows = await one.connection.fetch(
        "select name, n, status from holdfast.steps where job_id = $1 order by ordinal, name, n", id
    )
    return [tuple(row) for row in rows]


async def instance(one: Session, id: UUID) -> Any:
    return await one.connection.fetchrow("select * from holdfast.instances where job_id = $1", id)


async def both(*awaitables: Any) -> list[Any]:
    return list(await asyncio.gather(*awaitables))
