"""Every statement with which a worker writes about a delivery to endpoints, from a worker that does not hold it now."""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from uuid import UUID

import pytest
from tests.webhooks.conftest import Outbox

from holdfast.model.job import Hold
from holdfast.webhooks.fanning import fan_out, postpone

Write = Callable[[Outbox, Hold], Awaitable[list[UUID]]]
"""Returns the ids that the statement says it has seen under this hold."""


async def _fan_out(outbox: Outbox, hold: Hold) -> list[UUID]:
    made = await fan_out(outbox.session, [hold])
    return [*made.done, *made.missing]


async def _postpone(outbox: Outbox, hold: Hold) -> list[UUID]:
    return list(await postpone(outbox.session, [(hold, 60.0)]))


WORKERS_STATEMENTS: dict[str, Write] = {"fan_out": _fan_out, "postpone": _postpone}
OTHERS = {
    "attempts": "reads",
    "attempts_lately": "reads",
    "list": "reads",
    "load": "reads",
    "health": "is about endpoints: what happened to them is true, whoever holds the delivery",
    "change": "is about endpoints: an operator's; a worker's only if the endpoint has been failing since a given time",
    "add": "an operator's",
    "rotate": "an operator's",
    "recover_dead": "an operator's",
    "recover_missed": "an operator's",
    "replay": "an operator's",
}


def test_every_statement_is_listed() -> None:
    found = {path.name for path in files("holdfast").joinpath("webhooks").iterdir() if path.name.endswith(".sql")}
    assert {name.removesuffix(".sql") for name in found} == WORKERS_STATEMENTS.keys() | OTHERS.keys()


@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_the_owner_can_write(outbox: Outbox, statement: str) -> None:
    hold = await held_by(outbox, statement)
    before = await outbox.session.snapshot()
    assert await WORKERS_STATEMENTS[statement](outbox, hold) == [hold.id]
    assert await outbox.session.snapshot() != before


@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_a_stale_hold_changes_nothing(outbox: Outbox, statement: str) -> None:
    hold = await held_by(outbox, statement)
    before = await outbox.session.snapshot()
    for how, stale in {
        "older generation": Hold("w1", hold.id, hold.generation - 1),
        "newer generation": Hold("w1", hold.id, hold.generation + 1),
        "another worker": Hold("w2", hold.id, hold.generation),
    }.items():
        assert await WORKERS_STATEMENTS[statement](outbox, stale) == [], how
        assert await outbox.session.snapshot() == before, how


@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_a_row_that_is_not_processing_is_left_alone(outbox: Outbox, statement: str) -> None:
    """Claimant and generation may be in place all the same: the status has to be asked, too."""
    hold = await held_by(outbox, statement)
    for status in ("pending", "completed", "dead_letter", "blocked"):
        await outbox.connection.execute("update holdfast.inbox set status = $2 where id = $1", hold.id, status)
        before = await outbox.session.snapshot()
        assert await WORKERS_STATEMENTS[statement](outbox, hold) == [], status
        assert await outbox.session.snapshot() == before, status


async def held_by(outbox: Outbox, statement: str) -> Hold:
    """A delivery, as worker w1 holds it: of the route, or, to be postponed, of an endpoint."""
    await outbox.add()
    await outbox.publish()
    if statement == "postpone":
        await outbox.fan_out()
    (claim,) = await (outbox.endpoints() if statement == "postpone" else outbox.claim())
    return Hold(claim.worker, claim.id, claim.generation)
