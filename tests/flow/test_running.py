"""Workflows in memory: replay, waiting, undo, and code that no longer fits."""

from typing import Any, cast

from holdfast.flow.flow import Flow
from holdfast.model.flow import FlowEnd, Parked
from holdfast.model.outcome import AttemptFailed, Completed, Ended, Fail, Final
from tests.flow.memory import Instance


def double(number: int) -> int:
    return number * 2


async def test_steps_run_once_and_their_results_are_replayed() -> None:
    async def code(flow: Flow) -> int:
        one = await flow.step("one", double, 1)
        two = await flow.step("two", double, one)
        await flow.sleep("nap", "1h")
        return one + two

    instance = Instance(code)
    end = await instance.run()
    assert isinstance(end, Parked) and end.waits == ("timer:nap",) and end.delay == 3600
    assert instance.called == ["one", "two"]
    early = await instance.run()
    assert isinstance(early, Parked) and early.wake_at is not None
    instance.now = early.wake_at
    assert await instance.run() == FlowEnd(Completed("6"), records=cast(Any, _any()), stored=True)
    assert instance.called == ["one", "two"]


class _any:
    def __eq__(self, other: object) -> bool:
        return True


async def test_a_signal_that_came_before_is_taken() -> None:
    async def code(flow: Flow) -> Any:
        first = await flow.wait("go", dict)
        second = await flow.wait("go", dict, timeout="1h")
        return [first, second]

    instance = Instance(code)
    instance.signal("go", {"a": 1})
    assert isinstance(await instance.run(), Parked)
    instance.signal("go", {"a": 2})
    end = await instance.run()
    assert isinstance(end, FlowEnd) and end.end == Completed('[{"a":1},{"a":2}]')


async def test_undo_in_reverse_order() -> None:
    undone: list[int] = []

    async def code(flow: Flow) -> None:
        for number in range(3):
            await flow.step("do", double, number, undo=undone.append)
        raise Fail("no more")

    instance = Instance(code)
    end = await instance.run()
    assert isinstance(end, FlowEnd) and end.end == Ended(Final.FAILED, "no more")
    assert undone == [2, 1, 0]
    assert instance.called == ["do", "do#2", "do#3", "undo:do#3", "undo:do#2", "undo:do"]


async def test_branches_side_by_side() -> None:
    async def code(flow: Flow) -> list[int]:
        async def branch(name: str) -> int:
            got = await flow.step(f"{name}-1", double, 1)
            await flow.wait(name)
            return await flow.step(f"{name}-2", double, got)

        return await flow.gather(branch("a"), branch("b"))

    instance = Instance(code)
    end = await instance.run()
    assert isinstance(end, Parked) and set(end.waits) == {"signal:a", "signal:b"}
    instance.signal("b")
    end = await instance.run()
    assert isinstance(end, Parked) and end.waits == ("signal:a",)
    instance.signal("a")
    end = await instance.run()
    assert isinstance(end, FlowEnd) and end.end == Completed("[4,4]")
    assert sorted(instance.called) == ["a-1", "a-2", "b-1", "b-2"]


async def test_code_that_no_longer_fits_stops_before_anything_runs() -> None:
    async def before(flow: Flow) -> None:
        await flow.step("reserve", double, 1)
        await flow.wait("go")

    async def after(flow: Flow) -> None:
        await flow.step("charge", double, 1)
        await flow.wait("go")

    instance = Instance(before)
    await instance.run()
    end = await instance.run(after)
    assert isinstance(end, AttemptFailed) and end.error == "HistoryMismatch" and end.give_up
    assert "reserve" in end.message and instance.called == ["reserve"]
    assert "reserve (step)" in str(end.details)
