"""Every statement with which a worker writes about an instance, from a worker that does not hold it any more."""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.inbox import Session
from tests.workflow.flows import child_step, claim, end_child, for_signal, park, started, step

from holdfast.model.flow import FlowEnd, Parked
from holdfast.model.job import Claim
from holdfast.model.outcome import Completed
from holdfast.workflow import ending, recording

Write = Callable[[Session, Claim], Awaitable[Any]]

WORKERS_STATEMENTS: dict[str, Write] = {
    "record": lambda one, held: recording.record(one, [(held, [step(), child_step(1)])]),
    "park": lambda one, held: park(one, held, for_signal(records=(step(),))),
    "end": lambda one, held: ending.write(one, [(held, FlowEnd(Completed("1"), (step(),)))]),
    "cancel_children": lambda one, held: one.run("workflow", "cancel_children", held.id, held.generation, held.worker),
    "end_children": lambda one, held: end_child(one, held, FlowEnd(Completed("1"), (step(),))),
}
OTHERS = {
    "load": "reads",
    "parked": "reads",
    "lock": "writes nothing; record follows, under the hold",
    "find": "reads",
    "list": "reads",
    "show": "reads",
    "signal": "anybody's",
    "pause": "an operator's",
    "resume": "an operator's",
    "restart": "an operator's",
}
TABLES = ("inbox", "archive", "steps", "signals", "instances", "dedupe")


async def snapshot(one: Session) -> list[Any]:
    """All rows, and where they are: an update that changes no value is seen, too."""
    return [
        (table, *row.values())
        for table in TABLES
        for row in await one.connection.fetch(f"select t.*, t.ctid::text from holdfast.{table} t order by t.ctid")
    ]


def test_every_statement_is_listed() -> None:
    found = {path.name for path in files("holdfast").joinpath("workflow").iterdir() if path.name.endswith(".sql")}
    assert {name.removesuffix(".sql") for name in found} == WORKERS_STATEMENTS.keys() | OTHERS.keys()


@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_the_owner_can_write(one: Session, statement: str) -> None:
    held = await held_by(one, statement)
    before = await snapshot(one)
    await WORKERS_STATEMENTS[statement](one, held)
    assert await snapshot(one) != before


@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_a_stale_hold_changes_nothing(one: Session, statement: str) -> None:
    held = await held_by(one, statement)
    stale = {
        "older generation": replace(held, generation=held.generation - 1),
        "newer generation": replace(held, generation=held.generation + 1),
        "another worker": replace(held, worker="w2"),
    }
    for how, hold in stale.items():
        before = await snapshot(one)
        await WORKERS_STATEMENTS[statement](one, hold)
        assert await snapshot(one) == before, how


@pytest.mark.parametrize("status", ["pending", "dead_letter", "blocked"])
@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_a_row_that_is_not_processing_is_left_alone(one: Session, statement: str, status: str) -> None:
    """Claimant and generation may be in place all the same: the status has to be asked, too."""
    held = await held_by(one, statement)
    await one.connection.execute("update holdfast.inbox set status = $2 where id = $1", held.id, status)
    before = await snapshot(one)
    await WORKERS_STATEMENTS[statement](one, held)
    assert await snapshot(one) == before


async def held_by(one: Session, statement: str) -> Claim:
    """An instance, as worker w1 holds it; of those about children, one that is a child, or has one."""
    if statement == "cancel_children":
        held = await started(one)
        await recording.record(one, [(held, [child_step()])])
        return held
    if statement != "end_children":
        return await started(one)
    parent = await started(one)
    begun = child_step(0, "inner")
    await park(one, parent, Parked(0, ("child:child",), (begun,), left=1))
    (child,) = await claim(one)
    return child
