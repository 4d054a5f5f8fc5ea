"""Timers, signals, children, patches and values; and code that catches everything."""

import asyncio
import gc
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from holdfast import Holdfast
from holdfast.errors import ChildFailed, InvalidInput, InvalidPayload, LeaseLost
from holdfast.flow.flow import Flow
from tests.flow.memory import Instance

hf = Holdfast()


@hf.task
def resize(page: int) -> int:
    return page


def double(number: int) -> int:
    return number * 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("catches", ["Exception", "BaseException", "everything in a loop", "finally", "finally step"])
async def test_waiting_is_not_caught(catches: str, branch: bool, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def waits(flow: Flow) -> Any:
        match catches:
            case "Exception":
                try:
                    return await flow.wait("go")
                except Exception:
                    seen.append("caught")
            case "BaseException":
                try:
                    return await flow.wait("go")
                except BaseException:
                    await flow.step("wrong", double, 1)
            case "everything in a loop":
                while True:
                    try:
                        return await flow.wait("go")
                    except:  # noqa: E722
                        continue
            case "finally":
                try:
                    return await flow.wait("go")
                finally:
                    await asyncio.sleep(0)
                    seen.append("finally")
            case _:
                try:
                    return await flow.wait("go")
                finally:
                    await flow.step("after", double, 1)

    async def code(flow: Flow) -> Any:
        return await flow.gather(waits(flow)) if branch else await waits(flow)

    instance = Instance(code)
    assert (await instance.parked()).waits == ("signal:go",)
    gc.collect()  # what cannot be closed is reported here, and not in the next test
    assert seen == [] and not instance.called
    assert bool(caplog.records) == (catches != "Exception")
    instance.signal("go", 1)
    assert await instance.result() == ([1] if branch else 1)
    assert instance.called == (["after"] if catches == "finally step" else [])


async def test_finally_without_await_runs_when_it_waits() -> None:
    seen: list[str] = []

    async def code(flow: Flow) -> None:
        try:
            await flow.wait("go")
        finally:
            seen.append("closed")

    instance = Instance(code)
    await instance.parked()
    assert seen == ["closed"]


async def test_an_error_while_it_is_closed_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    async def code(flow: Flow) -> None:
        try:
            await flow.wait("go")
        finally:
            raise ValueError("in finally")

    await Instance(code).parked()
    assert "in finally" in caplog.text


async def test_timers_are_never_early() -> None:
    at = datetime(2026, 1, 1, 2, tzinfo=UTC)

    async def code(flow: Flow) -> str:
        await flow.gather(flow.sleep("nap", "1h"), flow.until("two", at))
        return "awake"

    instance = Instance(code)
    end = await instance.parked()
    assert end.delay == 3600 and end.wake_at == at and set(end.waits) == {"timer:nap", "timer:two"}
    instance.later(3599)
    assert (await instance.parked()).wake_at == datetime(2026, 1, 1, 1, tzinfo=UTC)
    instance.later(1)
    assert (await instance.parked()).wake_at == at
    instance.now = at
    assert await instance.result() == "awake"


async def test_until_needs_a_time_zone() -> None:
    async def code(flow: Flow) -> None:
        with pytest.raises(InvalidInput, match="time zone"):
            await flow.until("x", datetime(2026, 1, 1))  # noqa: DTZ001

    await Instance(code).result()


async def test_a_wait_in_a_loop_takes_each_signal_once() -> None:
    async def code(flow: Flow) -> list[Any]:
        return [await flow.wait("item") for _ in range(3)]

    instance = Instance(code)
    for number in range(3):
        await instance.parked()
        instance.signal("item", number)
    instance.signal("item", "unread")
    assert await instance.result() == [0, 1, 2]
    assert len(instance.taken) == 3


async def test_null_and_timeout() -> None:
    async def code(flow: Flow) -> Any:
        first = await flow.wait_any("first", ["a", "b"], timeout="1h")
        second = await flow.wait_any("second", ["a", "b"], timeout="1h")
        third = await flow.wait("b", timeout="1h")
        return [first, second, third]

    instance = Instance(code)
    assert (await instance.parked()).waits == ("signal:a", "signal:b")
    instance.signal("b")
    await instance.parked()
    instance.later(3600)
    await instance.parked()  # the second is timed out, the third waits
    instance.signal("a")
    instance.signal("b", "late")
    assert await instance.result() == [["b", None], None, "late"]
    assert [signal.name for signal in instance.signals if signal.n not in instance.taken] == ["a"]


async def test_a_late_signal_is_kept_for_the_next_wait() -> None:
    async def code(flow: Flow) -> Any:
        first = await flow.wait("go", timeout=1)
        await flow.sleep("nap", 1)
        return [first, await flow.wait("go", timeout=1)]

    instance = Instance(code)
    await instance.parked()
    instance.later(1)
    await instance.parked()
    instance.signal("go", "late")
    await instance.parked()
    instance.later(1)
    assert await instance.result() == [None, "late"]


async def test_the_oldest_of_several_signals_is_taken() -> None:
    async def code(flow: Flow) -> Any:
        return [await flow.wait_any(f"w{number}", ["b", "a"]) for number in range(3)]

    instance = Instance(code)
    for name in ("a", "b", "a"):
        instance.signal(name, name)
    instance.signals.reverse()
    assert await instance.result() == [["a", "a"], ["b", "b"], ["a", "a"]]


async def test_two_branches_for_one_signal() -> None:
    async def code(flow: Flow) -> Any:
        return await flow.gather(flow.wait_any("w1", ["go"]), flow.wait_any("w2", ["go"]))

    instance = Instance(code)
    await instance.parked()
    instance.signal("go", 1)
    assert (await instance.parked()).waits == ("signal:go",)
    instance.signal("go", 2)
    assert sorted(await instance.result()) == [["go", 1], ["go", 2]]


async def test_a_payload_of_another_type() -> None:
    async def code(flow: Flow) -> Any:
        try:
            await flow.wait("go", int)
        except InvalidPayload as error:
            await flow.wait("again")
            return str(error)

    instance = Instance(code)
    instance.signal("go", "text")
    await instance.parked()
    instance.signal("again")
    assert "of signal go does not fit" in await instance.result()


async def test_a_wait_that_became_one_for_several() -> None:
    async def before(flow: Flow) -> None:
        await flow.wait("go")
        await flow.wait("end")

    async def after(flow: Flow) -> None:
        await flow.wait_any("go", ["go", "stop"])
        await flow.wait("end")

    instance = Instance(before)
    instance.signal("go", 1)
    await instance.parked()
    assert "does not fit" in (await instance.stopped(after)).message


# Children


async def test_children_and_their_failures() -> None:
    async def code(flow: Flow) -> Any:
        first = await flow.child("one", resize, 1)
        try:
            await flow.child("two", resize, page=2)
        except ChildFailed as failed:
            return [first, failed.step, failed.message]

    instance = Instance(code)
    end = await instance.parked()
    assert end.waits == ("child:one",) and end.left == 1 and instance.steps["one", 0].child_id is not None
    assert (await instance.parked()).left == 1
    instance.end_child("one", result=10)
    await instance.parked()
    instance.end_child("two", error="Boom: no")
    assert await instance.result() == [10, "two", "Boom: no"]


async def test_a_map_that_grows_and_the_next_one() -> None:
    pages = 2

    async def code(flow: Flow) -> Any:
        first = await flow.map("resize", resize, [{"page": page} for page in range(pages)])
        second = await flow.map("resize", resize, [{"page": 7}])
        return [first, second, await flow.child("resize", resize, 9)]

    instance = Instance(code)
    assert (await instance.parked()).left == 2
    pages = 3
    end = await instance.parked()
    assert end.left == 3 and len(end.records) == 1
    for number in range(3):
        instance.end_child("resize", number, result=number)
    await instance.parked()
    pages = 4
    assert (await instance.stopped()).error == "HistoryMismatch"
    pages = 3
    instance.end_child("resize", max(n for _, n in instance.steps), result=7)
    await instance.parked()
    instance.end_child("resize", max(n for _, n in instance.steps), result=9)
    assert await instance.result() == [[0, 1, 2], [7], 9]


async def test_a_map_with_failures_waits_for_all() -> None:
    async def code(flow: Flow) -> Any:
        try:
            await flow.map("resize", resize, [{"page": page} for page in range(3)])
        except ChildFailed as failed:
            return failed.message

    instance = Instance(code)
    await instance.parked()
    instance.end_child("resize", 2, error="third")
    assert (await instance.parked()).left == 2
    instance.end_child("resize", 1, error="second")
    instance.end_child("resize", 0, result=1)
    assert await instance.result() == "second"


async def test_bad_arguments_of_a_map_start_nothing() -> None:
    async def code(flow: Flow) -> None:
        with pytest.raises(InvalidPayload):
            await flow.map("resize", resize, [{"page": 1}, {"side": 2}])

    instance = Instance(code)
    await instance.result()
    assert not instance.steps


# Patches


async def old(flow: Flow) -> list[Any]:
    await flow.step("one", double, 1)
    await flow.wait("go")
    await flow.wait("end")
    return []


async def new(flow: Flow) -> list[Any]:
    first = await flow.patched("fraud")
    await flow.step("one", double, 1)
    await flow.wait("go")
    second = await flow.patched("fraud")
    later = await flow.patched("later")
    if later:
        await flow.step("fraud", double, 1)
    await flow.wait("end")
    return [first, second, later, await flow.patched("later")]


async def test_patches() -> None:
    instance = Instance(old)
    await instance.parked()
    await instance.parked(new)
    instance.signal("go")
    await instance.parked(new)  # past the first place, and just before the second
    instance.signal("end")
    assert await instance.result(new) == [False, False, True, True]
    fresh = Instance(new)
    fresh.signal("go")
    await fresh.parked()
    fresh.signal("end")
    assert await fresh.result() == [True, True, True, True]


async def test_a_patch_may_be_removed_when_all_take_it() -> None:
    async def cleaned(flow: Flow) -> list[Any]:
        await flow.step("one", double, 1)
        await flow.wait("go")
        await flow.step("fraud", double, 1)
        await flow.wait("end")
        return []

    instance = Instance(new)
    instance.signal("go")
    await instance.parked()
    instance.signal("end")
    assert await instance.result(cleaned) == []


async def test_patches_in_branches() -> None:
    async def one(flow: Flow, name: str) -> Any:
        await flow.step(f"{name}1", double, 1)
        patched = await flow.patched("p")
        if patched:
            await flow.step(f"{name}2", double, 1)
        await flow.wait(name)
        return patched

    async def code(flow: Flow) -> Any:
        return await flow.gather(one(flow, "a"), one(flow, "b"))

    async def before(flow: Flow) -> Any:
        async def branch(name: str) -> Any:
            await flow.step(f"{name}1", double, 1)
            await flow.wait(name)

        return await flow.gather(branch("a"), branch("b"))

    for first, expected in ((code, [True, True]), (before, [False, False])):
        instance = Instance(first)
        await instance.parked()
        await instance.parked(code)
        instance.signal("b")
        await instance.parked(code)
        instance.signal("a")
        assert await instance.result(code) == expected
        assert len(instance.called) == len(set(instance.called))


async def test_a_patch_is_taken_although_another_branch_has_records() -> None:
    async def code(flow: Flow) -> Any:
        async def asks() -> bool:
            await flow.step("a", double, 1)
            patched = await flow.patched("p")
            await flow.step("a2", double, 1)
            return patched

        return await flow.gather(asks(), flow.step("b", double, 1))

    instance = Instance(code)

    def dies(call: Any) -> None:
        if call.name == "a2":
            instance.steps.pop(("patch:p", 0), None)  # as if its record had been lost
            raise LeaseLost("the worker has died")

    instance.on_call = dies
    with pytest.raises(LeaseLost):
        await instance.run()
    instance.on_call = lambda call: None
    assert await instance.result() == [True, 2]


# Values


async def test_values_are_recorded() -> None:
    seen: list[Any] = []

    async def code(flow: Flow) -> None:
        async def values() -> list[Any]:
            return [await flow.now(), await flow.uuid(), await flow.random()]

        seen.append([await values(), await values(), *await flow.gather(values(), values())])
        await flow.wait("go")

    instance = Instance(code)
    await instance.parked()
    await instance.parked()
    assert seen[0] == seen[1]
    first = cast(datetime, seen[0][0][0])
    assert datetime.now(UTC) - first < timedelta(minutes=1)
    assert len({str(value) for values in seen[0] for value in values}) == 12


async def test_the_end_of_a_sleep_is_written_with_what_comes_next() -> None:
    """It is due in every later run, too, so no effect has to wait until that is durable; a signal's would have to."""
    committed: list[int] = []

    async def naps(flow: Flow) -> int:
        await flow.sleep("nap", "1m")
        first = await flow.step("first", note)
        return first + await flow.step("second", note)

    async def note() -> int:
        committed.append(instance.commits)
        return 1

    instance = Instance(naps)
    await instance.parked()
    before = instance.commits
    instance.later(61)
    assert await instance.result() == 2
    assert committed == [before, before + 1], "the sleep's end with the first step, the second step with the end"
    assert [step.status for step in instance.steps.values()] == ["done"] * 3
