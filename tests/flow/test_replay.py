"""What is recorded is found again: loops, keys, branches, and code that no longer fits."""

import asyncio
import logging
from typing import Any

import pytest

from holdfast.errors import ConfigurationError, InvalidInput
from holdfast.flow.flow import Flow
from holdfast.flow.machine import Mode
from holdfast.model.flow import FlowEnd, Parked
from holdfast.model.outcome import Fail
from tests.flow.memory import Instance


def double(number: int) -> int:
    return number * 2


async def test_a_loop_numbers_its_steps() -> None:
    async def code(flow: Flow) -> list[int]:
        found = [await flow.step("do", double, number) for number in range(4)]
        await flow.sleep("nap", 1)
        return [*found, await flow.step("do", double, 4)]

    instance = Instance(code)
    await instance.parked()
    assert list(instance.steps) == [("do", 0), ("do", 1), ("do", 2), ("do", 3), ("nap", 0)]
    instance.later(1)
    assert await instance.result() == [0, 2, 4, 6, 8]
    assert instance.called == ["do", "do#2", "do#3", "do#4", "do#5"]


async def test_a_key_tells_steps_apart_in_any_order() -> None:
    order = ["b", "a"]

    async def code(flow: Flow) -> list[str]:
        found = await flow.gather(*(flow.step("do", str.upper, item, key=item) for item in order))
        await flow.wait("go")
        return found

    instance = Instance(code)
    await instance.parked()
    assert set(instance.steps) == {("do[a]", 0), ("do[b]", 0), ("go", 0)}
    order.reverse()
    instance.signal("go")
    assert await instance.result() == ["A", "B"]
    assert sorted(instance.called) == ["do[a]", "do[b]"]


async def test_branches_that_finish_in_another_order_in_the_replay() -> None:
    slow = "a"

    async def code(flow: Flow) -> list[Any]:
        async def work(name: str) -> str:
            await asyncio.sleep(0.1 if name == slow else 0)
            return name

        async def branch(name: str) -> list[Any]:
            first = await flow.step(f"{name}-1", work, name)
            second = await flow.step(f"{name}-2", work, name)
            return [first, second]

        both = await flow.gather(branch("a"), branch("b"))
        await flow.wait("go")
        return [*both, await flow.step("end", work, "end")]

    instance = Instance(code)
    await instance.parked()
    assert [name for name, _ in sorted(instance.steps, key=lambda k: instance.steps[k].ordinal)][-2:] == ["a-2", "go"]
    slow = "b"
    instance.signal("go")
    assert await instance.result() == [["a", "a"], ["b", "b"], "end"]
    assert len(instance.called) == 5


async def test_nested_branches() -> None:
    async def code(flow: Flow) -> Any:
        async def leaf(name: str) -> str:
            await flow.step(f"{name}-do", double, 1)
            await flow.wait(name)
            return name

        async def twig(name: str) -> Any:
            return await flow.gather(leaf(f"{name}1"), leaf(f"{name}2"), flow.gather(leaf(f"{name}3")))

        return await flow.gather(twig("a"), twig("b"))

    instance = Instance(code)
    end = await instance.parked()
    names = [f"{twig}{leaf}" for twig in "ab" for leaf in "123"]
    assert sorted(end.waits) == [f"signal:{name}" for name in names]
    for name in names[:-1]:
        instance.signal(name)
        await instance.parked()
    instance.signal(names[-1])
    assert await instance.result() == [["a1", "a2", ["a3"]], ["b1", "b2", ["b3"]]]
    assert sorted(instance.called) == [f"{name}-do" for name in names]


async def test_a_failing_branch_lets_the_others_end_first(caplog: pytest.LogCaptureFixture) -> None:
    async def code(flow: Flow) -> Any:
        async def fails(text: str) -> None:
            raise ValueError(text)

        async def goes_on() -> None:
            await flow.wait("go")
            await flow.step("late", double, 1)

        try:
            await flow.gather(fails("one"), goes_on(), fails("two"))
        except ValueError as error:
            return str(error)

    instance = Instance(code)
    await instance.parked()
    instance.signal("go")
    assert await instance.result() == "one"
    assert instance.called == ["late"]
    assert not caplog.records


@pytest.mark.parametrize("how", ["at once", "after main", "second gather", "nested"])
async def test_the_same_name_in_two_branches_is_refused(how: str) -> None:
    async def code(flow: Flow) -> None:
        async def do() -> None:
            await flow.step("do", double, 1)

        async def nothing() -> None:
            pass

        match how:
            case "after main":
                await flow.gather(nothing())
                await do()
                await flow.gather(do(), do())
            case "second gather":
                await flow.gather(do())
                await flow.gather(do(), do())
            case "nested":
                await flow.gather(flow.gather(do()), flow.gather(do()))
            case _:
                await flow.gather(do(), do())

    with pytest.raises(ConfigurationError, match="two branches of one gather use this name"):
        await Instance(code).run()


async def test_the_same_name_in_branches_one_after_the_other() -> None:
    async def code(flow: Flow) -> Any:
        async def do(number: int) -> int:
            return await flow.step("do", double, number)

        found = [await do(0), *await flow.gather(do(1)), *await flow.gather(flow.gather(do(2))), await do(3)]
        await flow.wait("go")
        return found

    instance = Instance(code)
    await instance.parked()
    instance.signal("go")
    assert await instance.result() == [0, 2, [4], 6]
    assert len(instance.called) == 4


async def test_foreign_tasks_are_refused() -> None:
    async def gathers(flow: Flow) -> None:
        await asyncio.gather(flow.step("a", double, 1), flow.step("b", double, 1))

    async def makes_a_task(flow: Flow) -> None:
        await asyncio.create_task(flow.step("a", double, 1))

    async def in_a_group(flow: Flow) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(flow.step("a", double, 1))
        except* ConfigurationError as errors:
            raise errors.exceptions[0] from None

    async def within_a_branch(flow: Flow) -> None:
        await flow.gather(makes_a_task(flow))

    for code in (gathers, makes_a_task, in_a_group, within_a_branch):
        instance = Instance(code)
        with pytest.raises(ConfigurationError, match="called from another task"):
            await instance.run()
        assert not instance.called


async def test_what_gather_takes() -> None:
    async def nothing(flow: Flow) -> Any:
        return await flow.gather()

    async def no_call(flow: Flow) -> Any:
        return await flow.gather(flow.step("a", double, 1), double)  # type: ignore[arg-type]

    assert await Instance(nothing).result() == []
    with pytest.raises(ConfigurationError, match="expected calls of async functions"):
        await Instance(no_call).run()


async def test_the_flow_inside_a_step_is_refused() -> None:
    async def code(flow: Flow) -> None:
        async def inner() -> int:
            return await flow.step("inner", double, 1)

        await flow.step("outer", inner, max_attempts=1)

    instance = Instance(code)
    assert "called inside a step" in (await instance.stopped()).message
    assert instance.called == ["outer"]


async def test_a_flow_that_outlives_its_run_is_refused() -> None:
    kept: list[Flow] = []

    async def first(flow: Flow) -> None:
        kept.append(flow)

    async def second(flow: Flow) -> Any:
        return await kept[0].step("a", double, 1)

    await Instance(first).run()
    with pytest.raises(ConfigurationError, match="is over"):
        await Instance(second).run()
    with pytest.raises(ConfigurationError, match="is over"):
        await kept[0].gather(first(kept[0]))


async def test_a_timeout_around_a_step_is_refused() -> None:
    async def code(flow: Flow) -> str:
        try:
            async with asyncio.timeout(0.2):
                await flow.step("slow", asyncio.sleep, 10)
        except TimeoutError:
            await flow.step("next", double, 1)
        return "done"

    async def ends(flow: Flow) -> str:
        try:
            async with asyncio.timeout(0.2):
                await flow.gather(flow.step("slow", asyncio.sleep, 10))
        except TimeoutError:
            return "timed out"
        return "done"

    for each in (code, ends):
        instance = Instance(each)
        with pytest.raises(ConfigurationError, match=r"asyncio\.timeout"):
            await instance.run()
        assert instance.called == ["slow"] and not instance.steps


async def test_a_cancelled_run_is_cancelled_even_if_its_code_catches_that() -> None:
    async def code(flow: Flow) -> str:
        async def slow(name: str) -> None:
            try:
                await flow.step(name, asyncio.sleep, 10)
            except BaseException:
                await flow.step("go on", double, 1)

        try:
            await flow.gather(slow("a"), slow("b"))
        except BaseException:
            await flow.step("go on", double, 1)
        return "done"

    instance = Instance(code)
    task = asyncio.ensure_future(instance.run())
    while len(instance.called) < 2:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises((asyncio.CancelledError, ConfigurationError)):
        await task
    assert instance.called == ["a", "b"] and not instance.steps


# Code that no longer fits


async def five(flow: Flow) -> None:
    for name in ("one", "two", "three"):
        await flow.step(name, double, 1)
    await flow.wait("go")
    await flow.step("four", double, 1)


async def renamed(flow: Flow) -> None:
    for name in ("one", "zwei", "three"):
        await flow.step(name, double, 1)
    await flow.wait("go")


async def removed(flow: Flow) -> None:
    for name in ("one", "three"):
        await flow.step(name, double, 1)
    await flow.wait("go")


async def swapped(flow: Flow) -> None:
    for name in ("two", "one", "three"):
        await flow.step(name, double, 1)
    await flow.wait("go")


async def inserted(flow: Flow) -> None:
    for name in ("one", "new", "two", "three"):
        await flow.step(name, double, 1)
    await flow.wait("go")


async def ends_early(flow: Flow) -> None:
    await flow.step("one", double, 1)


async def fails_early(flow: Flow) -> None:
    await flow.step("one", double, 1)
    raise Fail("no")


async def another_kind(flow: Flow) -> None:
    await flow.step("one", double, 1)
    await flow.wait("two")


async def in_a_branch(flow: Flow) -> None:
    await flow.gather(flow.step("one", double, 1), flow.step("new", double, 1))
    await flow.wait("go")


async def starts_a_timer(flow: Flow) -> None:
    await flow.gather(flow.sleep("new", 1), flow.step("one", double, 1))


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (renamed, "two"),
        (removed, "two"),
        (swapped, "one"),
        (inserted, "two"),
        (ends_early, "two"),
        (fails_early, "two"),
        (another_kind, "two is recorded as a step, and this code asks for a wait"),
        (in_a_branch, "two"),
        (starts_a_timer, "two"),
    ],
)
@pytest.mark.parametrize("signalled", [False, True])
async def test_nothing_runs_if_the_code_does_not_fit(code: Any, names: str, signalled: bool) -> None:
    instance = Instance(five)
    await instance.parked()
    if signalled:
        instance.signal("go")
    before = dict(instance.steps)
    end = await instance.stopped(code)
    assert end.error == "HistoryMismatch" and names in end.message
    assert end.details is not None and "this code" in str(end.details["diff"])
    assert instance.called == ["one", "two", "three"] and instance.steps == before and not instance.taken
    if signalled:
        assert await instance.result() is None  # the old code goes on
    else:
        assert not (await instance.parked()).records


async def test_an_open_step_is_not_retried_before_the_code_is_known_to_fit() -> None:
    fails = True

    def do() -> None:
        if fails:
            raise ValueError

    async def before(flow: Flow) -> None:
        await flow.step("one", double, 1)
        await flow.step("two", do)

    async def after(flow: Flow) -> None:
        await flow.step("two", do)
        await flow.step("one", double, 1)

    instance = Instance(before)
    await instance.parked()
    instance.later(60)
    await instance.stopped(after)
    assert instance.called == ["one", "two"]


async def test_the_diff_shows_where_they_part() -> None:
    instance = Instance(five)
    await instance.parked()
    end = await instance.stopped(inserted)
    assert end.details is not None
    assert end.details["diff"] == (
        "1 steps match, then:\nrecorded      this code\ntwo (step)    new (step)\nthree (step)  -\ngo (wait)     -"
    )


async def test_changed_arguments_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    argument: Any = {"b", "a", "c"}

    def count(items: Any) -> int:
        return len(items)

    async def code(flow: Flow) -> int:
        found = await flow.step("count", count, argument)
        await flow.wait("go")
        return found

    instance = Instance(code)
    await instance.parked()
    await instance.parked()
    assert not caplog.records
    argument = ["a"]
    instance.signal("go")
    assert await instance.result() == 3
    assert "the arguments of step count have changed" in caplog.text


async def test_arguments_that_the_step_changes_are_no_change(caplog: pytest.LogCaptureFixture) -> None:
    async def code(flow: Flow) -> Any:
        given: list[int] = []
        await flow.step("append", given.append, 1)
        await flow.step("clear", list.append, given, 2)
        await flow.wait("go")

    instance = Instance(code)
    await instance.parked()
    assert instance.steps["clear", 0].digest is not None


async def test_a_result_that_no_longer_fits() -> None:
    def number() -> int:
        return 1

    def text() -> str:
        return "1"

    async def before(flow: Flow) -> None:
        await flow.step("get", number)
        await flow.wait("go")

    async def after(flow: Flow) -> None:
        await flow.gather(flow.step("get", text), flow.step("new", text))
        await flow.wait("go")

    instance = Instance(before)
    await instance.parked()
    end = await instance.stopped(after)
    assert "the recorded result of get does not fit this code" in end.message
    assert instance.called == ["get"] and len(instance.steps) == 2


async def test_a_check_does_nothing() -> None:
    instance = Instance(five)
    await instance.parked()
    instance.signal("go")
    assert isinstance(await instance.run(mode=Mode.CHECK), Parked)
    end = await instance.run(renamed, mode=Mode.CHECK)
    assert not isinstance(end, (Parked, FlowEnd))
    assert instance.called == ["one", "two", "three"] and not instance.taken


async def test_long_histories(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.flow.machine.LONG", 10)
    monkeypatch.setattr("holdfast.flow.machine.TOO_LONG", 30)

    async def code(flow: Flow) -> None:
        while True:
            await flow.step("do", double, 1)

    instance = Instance(code)
    with caplog.at_level(logging.WARNING):
        end = await instance.stopped()
    assert end.error == "HistoryMismatch" and "the limit is 30" in end.message
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == [10, 20, 30]
    assert len(instance.steps) == 30
    await instance.stopped()
    assert len(instance.called) == 30


async def test_names() -> None:
    async def code(flow: Flow) -> None:
        for name in ("undo:x", "patch:x", "", "x" * 1000, "a\0b", 5, None):
            with pytest.raises(InvalidInput):
                await flow.step(name, double, 1)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="is not an option"):
            await flow.step("a", double, 1, number=3)  # type: ignore[call-overload]

    assert await Instance(code).result() is None


async def test_a_call_that_is_not_awaited_is_no_step() -> None:
    async def code(flow: Flow) -> None:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            flow.step("a", double, 1)  # type: ignore[unused-coroutine]

    instance = Instance(code)
    await instance.result()
    assert not instance.called
