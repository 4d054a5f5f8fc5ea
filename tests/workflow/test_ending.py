"""The end of an instance: its steps and unread signals go to the archive, and nothing is left of it."""

import json
from typing import Any

import pytest
from tests.support.inbox import Session, move_clock
from tests.workflow.flows import claim, end, for_signal, history, park, signal, start, started, step, waiting

from holdfast.model.flow import FlowEnd
from holdfast.model.outcome import Completed, Ended, Final
from holdfast.workflow import ending, recording

TABLES = ("instances", "steps", "signals")


async def left(one: Session) -> list[int]:
    return [await one.connection.fetchval(f"select count(*) from holdfast.{table}") for table in TABLES]


async def kept(one: Session, id: Any) -> tuple[Any, Any]:
    row = await one.archived(id)
    assert row is not None
    return row, json.loads(row["steps"]) if row["steps"] else None


async def test_the_end_folds_steps_records_and_unread_signals(one: Session) -> None:
    held = await started(one, idempotency_key="checkout:1")
    await recording.record(one, [(held, [step("reserve", 0, result="5", digest=1)])])
    await signal(one, held.id, "unread", {"a": 1}, key="s1")
    await signal(one, held.id, "paid")
    await park(one, held, for_signal(mail=2, records=(waiting(ordinal=1),)))
    await one.connection.execute("update holdfast.inbox set available_at = now()")
    (held,) = await claim(one)
    taken = step("wait paid", 1, kind="wait", result="null", signal=2)
    report = await end(one, held, '"done"', [taken, step("notify", 2, result='"x"', took=0.5)])
    assert (report.completed, report.late, report.lost) == (1, 0, [])
    row, folded = await kept(one, held.id)
    assert (row["status"], row["result"], row["lease_generation"]) == ("completed", '"done"', 2)
    assert [(each["name"], each["status"], each["result"]) for each in folded["steps"]] == [
        ("reserve", "done", 5), ("wait paid", "done", None), ("notify", "done", "x"),
    ]  # fmt: skip
    assert folded["steps"][0]["started_at"] and folded["steps"][0]["digest"] == 1
    ((name, payload, key),) = [(each["name"], each["payload"], each["signal_id"]) for each in folded["signals"]]
    assert (name, payload, key) == ("unread", {"a": 1}, "s1")
    assert await left(one) == [0, 0, 0]
    assert await one.connection.fetchval("select count(*) from holdfast.inbox") == 0


async def test_the_function_folds_as_the_statement_does(one: Session) -> None:
    """The statement has it in line; children, cancelled and discarded instances go through the function."""
    held = await started(one)
    error = '{"error": "Boom", "message": "no"}'
    await recording.record(one, [(held, [step("a", 0, "open", error=error, attempts=1), waiting(ordinal=1, delay=5)])])
    await signal(one, held.id, "unread", {"a": 1}, key="s1")
    given = [step("a", 0, attempts=2, result="1")]
    expected = await one.connection.fetchval("select holdfast.folded($1, $2)", held.id, recording.as_archived(given))
    await end(one, held, None, given)
    _, folded = await kept(one, held.id)
    assert folded == json.loads(expected)


@pytest.mark.parametrize("signalled", [False, True])
async def test_an_instance_that_ran_through_leaves_its_records_only(one: Session, signalled: bool) -> None:
    held = await started(one)
    if signalled:
        await signal(one, held.id, "unread")
    outcome = FlowEnd(Completed("1"), (step("a", 0, result="2"),), stored=False)
    assert (await ending.write(one, [(held, outcome)])).completed == 1
    _, folded = await kept(one, held.id)
    assert [each["name"] for each in folded["steps"]] == ["a"]
    assert [each["name"] for each in folded["signals"]] == ["unread"] * signalled
    assert await left(one) == [0, 0, 0]


async def test_other_ends(one: Session) -> None:
    await start(one, 3)
    first, second, third = await claim(one)
    third.generation += 1
    report = await ending.write(
        one,
        [
            (first, FlowEnd(Ended(Final.FAILED, "no stock"), (step(),))),
            (second, FlowEnd(Ended(Final.CANCELLED, "enough"))),
            (third, FlowEnd(Completed())),
        ],
    )
    assert (report.failed, report.cancelled, report.completed, report.lost) == (1, 1, 0, [third])
    row, folded = await kept(one, first.id)
    assert (row["status"], row["last_error"], len(folded["steps"])) == ("failed", "no stock", 1)
    assert (await kept(one, second.id))[0]["status"] == "cancelled"


async def test_an_end_whose_answer_was_lost_is_confirmed(one: Session) -> None:
    held = await started(one)
    await end(one, held)
    report = await end(one, held, repeated=True)
    assert (report.completed, report.lost) == (1, [])
    held.generation += 1
    assert (await end(one, held, repeated=True)).lost == [held]


@pytest.mark.parametrize("keep", [0, -1])
async def test_an_instance_that_leaves_no_row_leaves_no_rows(one: Session, keep: int) -> None:
    held = await started(one)
    await recording.record(one, [(held, [step()])])
    outcome = FlowEnd(Completed("1"))
    report = await ending.write(one, [(held, outcome)], keep=lambda _: keep)
    assert report.completed == 1
    assert await one.archived(held.id) is None
    assert await left(one) == [0, 0, 0]
    report = await ending.write(one, [(held, outcome)], repeated=True, keep=lambda _: keep)
    assert (report.completed, report.lost) == (1, [])


async def test_a_late_end_counts_as_late(one: Session) -> None:
    held = await started(one)
    await move_clock(one.connection, 100)
    assert (await end(one, held)).late == 1


async def test_a_signal_that_commits_after_the_end_is_folded_by_the_chore(one: Session, two: Session) -> None:
    held = await started(one)
    await signal(one, held.id, "before")
    async with two.connection.transaction():
        assert await signal(two, held.id, "during") == "kept"
        await end(one, held, None, [step()])
    assert (await left(one))[0::2] == [1, 2]
    ((count, last),) = await one.run("housekeeping", "fold_instances", 10, "00000000-0000-0000-0000-000000000000")
    assert (count, last) == (1, None)
    _, folded = await kept(one, held.id)
    assert [each["name"] for each in folded["signals"]] == ["before", "during"], "each of them once"
    assert len(folded["steps"]) == 1
    assert await left(one) == [0, 0, 0]


async def test_what_hand_written_sql_ended_is_folded_by_the_chore(one: Session) -> None:
    """And what lives is left alone, in batches of any size."""
    await start(one, 4)
    claims = await claim(one)
    for held in claims:
        await recording.record(one, [(held, [step("a", 0), step("b", 1)])])
        await signal(one, held.id)
    await one.connection.execute("delete from holdfast.inbox where id = any ($1)", [claims[1].id, claims[2].id])
    for name in ("fold_steps", "fold_instances"):
        found = 0
        last: str | None = "00000000-0000-0000-0000-000000000000"
        while last is not None:
            ((count, last),) = await one.run("housekeeping", name, 2, last)
            found += count
        assert found == (2 if name == "fold_steps" else 0)
    assert await left(one) == [2, 4, 2]
    assert len((await history(one, claims[0].id)).steps) == 2
