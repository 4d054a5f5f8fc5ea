"""What grows must not cost more than it grows."""

import time
from collections.abc import Awaitable, Callable

from tests.support.inbox import Session
from tests.workflow.flows import child_step, claim, end, park, start, started, step

from holdfast.model.flow import Parked
from holdfast.model.outcome import Completed
from holdfast.workflow import ending, recording


async def test_a_record_of_many_steps_is_not_quadratic(one: Session) -> None:
    held = await started(one)

    async def record(count: int, turn: int) -> None:
        await recording.record(one, [(held, [step(f"{count} {turn} {n}", n, result="1") for n in range(count)])])

    await check_not_quadratic(record)


async def test_a_record_of_many_instances_is_not_quadratic(one: Session) -> None:
    await start(one, 500)
    claims = await claim(one, limit=500)

    async def record(count: int, turn: int) -> None:
        batch = [(held, [step(f"{count} {turn}", result="1")]) for held in claims[:count]]
        assert len(await recording.record(one, batch)) == count

    await check_not_quadratic(record)


async def test_many_children_are_not_quadratic(one: Session) -> None:
    async def family(count: int, turn: int) -> None:
        held = await started(one)
        await recording.record(one, [(held, [child_step(n) for n in range(count)])])
        await park(one, held, Parked(0, ("child:map",), left=count))
        report = await ending.end_children(one, [(child, Completed("1")) for child in await claim(one, limit=count)])
        assert report.completed == count
        (held,) = await claim(one)
        await end(one, held)

    await check_not_quadratic(family)


async def check_not_quadratic(record: Callable[[int, int], Awaitable[None]]) -> None:
    """Ten times as many take less than 25 times as long; quadratic would be 100. In turns: the machine may be busy."""
    few = many = 1e9
    for turn in range(30):
        for count in (50, 500):
            before = time.monotonic()
            await record(count, turn)
            took = time.monotonic() - before
            few, many = (min(few, took), many) if count == 50 else (few, min(many, took))
        if turn >= 2 and many < 25 * few:
            return
    raise AssertionError(f"50 took {few} s, 500 took {many} s")
