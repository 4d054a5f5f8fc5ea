"""P3: a stale owner can write nothing.

Lists every statement of the inbox and says which of them a worker uses to write about a row it claimed. Each of
those is tried with a stale generation, as another worker, and on a row that is not processing; nothing may change.
"""

from collections.abc import Callable
from importlib.resources import files
from typing import Any
from uuid import UUID

import pytest
from tests.support.inbox import Session

Arguments = Callable[[UUID, int, int, str], tuple[Any, ...]]
"""Of id, generation, fence and worker."""

WORKERS_STATEMENTS: dict[str, Arguments] = {
    "complete": lambda id, generation, fence, worker: ([id], [generation], ["1"], [None], [None], worker, []),
    "drop": lambda id, generation, fence, worker: ([id], [generation], worker),
    "end_convoys": lambda id, generation, fence, worker: ([id], [generation], [id], [fence], ["1"], [0.0], worker),
    "expire": lambda id, generation, fence, worker: ([id], [generation], worker),
    "fail": lambda id, generation, fence, worker: ([id], [generation], ["e"], ["{}"], [None], [False], [False], worker),
    "fail_snoozed": lambda id, generation, fence, worker: ([id], [generation], worker),
    "snooze": lambda id, generation, fence, worker: ([id], [generation], [1.0], [True], worker),
    "hand_back": lambda id, generation, fence, worker: ([id], [generation], worker),
    "renew": lambda id, generation, fence, worker: ([id], [generation], worker, 90.0),
    "progress": lambda id, generation, fence, worker: ([id], [generation], ["{}"], worker),
    # The keeper's word about a whole process: it names no generation, since it means all of them.
    "hand_back_worker": lambda id, generation, fence, worker: (worker,),
    # The fence is one claim's alone, so it stands for worker and generation.
    "once_enter": lambda id, generation, fence, worker: ("key", id, fence),
}

OTHERS = {
    "claim": "makes the hold",
    "claim_guarded": "makes the hold",
    "patrol": "reads",
    "blocked": "reads",
    "followers": "reads",
    "held": "reads",
    "claimed_by": "reads",
    "confirm": "reads",
    "gone": "reads",
    "names": "reads",
    "cancelled": "reads",
    "left": "reads",
    "outcomes": "reads",
    "end_sessions": "ends sessions that are named after the generation",
    "once_finish": "is about the marker: an effect that happened is kept, unless a newer attempt has entered",
    "enqueue": "a producer's",
    "ask_again": "a producer's",
    "enqueue_many": "a producer's",
    "enqueue_once": "a producer's",
    "enqueue_call": "a producer's",
    "enqueue_copy": "a producer's",
    "cancel": "an operator's",
    "cancel_many": "an operator's",
    "discard": "an operator's",
    "run_now": "an operator's",
    "revive": "an operator's",
}


def test_every_statement_is_listed() -> None:
    found = {path.name.removesuffix(".sql") for path in files("holdfast").joinpath("inbox").iterdir()
             if path.name.endswith(".sql")}  # fmt: skip
    assert found == WORKERS_STATEMENTS.keys() | OTHERS.keys()


@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_the_owner_can_write(one: Session, statement: str) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim("w1")
    before = await one.snapshot()
    assert await one.inbox(statement, *WORKERS_STATEMENTS[statement](id, claim.generation, claim.fence, "w1"))
    assert await one.snapshot() != before


@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_a_stale_hold_changes_nothing(one: Session, statement: str) -> None:
    (id,) = await one.add()
    (first,) = await one.claim("w1")
    await one.inbox("hand_back", [id], [first.generation], "w1")
    (claim,) = await one.claim("w1")
    attempts = {
        "older generation": (first.generation, first.fence, "w1"),
        "newer generation": (claim.generation + 1, claim.fence + 1, "w1"),
        "another worker": (claim.generation, claim.fence, "w2"),
    }
    if statement == "hand_back_worker":
        attempts = {"another worker": attempts["another worker"]}
    elif statement == "once_enter":
        del attempts["another worker"]
    before = await one.snapshot()
    for staleness, hold in attempts.items():
        rows = await one.inbox(statement, *WORKERS_STATEMENTS[statement](id, *hold))
        assert await one.snapshot() == before, staleness
        if statement == "once_enter":
            assert rows[0]["held"] is False, staleness
        elif statement in ("complete", "drop", "end_convoys"):
            assert [*rows[0]] == [0, 0, []], staleness
        else:
            assert rows == [], staleness


@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_a_row_that_is_not_processing_is_left_alone(one: Session, statement: str) -> None:
    """The series' own complete and bury leave claimant and generation in place: the status has to be asked, too."""
    for status in ("pending", "completed", "failed", "dead_letter", "blocked"):
        (id,) = await one.add()
        claim = next(claim for claim in await one.claim("w1") if claim.id == id)
        await one.connection.execute("update holdfast.inbox set status = $2 where id = $1", id, status)
        before = await one.snapshot()
        await one.inbox(statement, *WORKERS_STATEMENTS[statement](id, claim.generation, claim.fence, "w1"))
        assert await one.snapshot() == before, status
        await one.connection.execute("delete from holdfast.inbox")


@pytest.mark.parametrize("statement", WORKERS_STATEMENTS)
async def test_a_row_that_is_gone_stays_gone(one: Session, statement: str) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim("w1")
    await one.inbox("complete", [id], [claim.generation], ["1"], [None], [None], "w1", [])
    before = await one.snapshot()
    await one.inbox(statement, *WORKERS_STATEMENTS[statement](id, claim.generation, claim.fence, "w1"))
    assert await one.snapshot() == before
