"""Steps that fail, snooze or are given up; undo, cancel, pause, drain; and a journal that fails."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from holdfast.app import Holdfast
from holdfast.context import TxContext
from holdfast.errors import LeaseLost, StepFailed
from holdfast.flow.flow import Flow
from holdfast.model.backoff import Backoff
from holdfast.model.flow import FlowEnd
from holdfast.model.outcome import Ended, Fail, Final, HandedBack, Retry, Snooze
from tests.flow.memory import Instance


def double(number: int) -> int:
    return number * 2


class Steps:
    """A step that does what it is told."""

    def __init__(self, *does: Any) -> None:
        self.does = list(does)

    async def __call__(self) -> Any:
        what = self.does.pop(0) if len(self.does) > 1 else self.does[0]
        if isinstance(what, BaseException) and not isinstance(what, Snooze):
            raise what
        return what


def code_of(step: Any, **options: Any) -> Any:
    async def code(flow: Flow) -> Any:
        await flow.step("first", double, 1)
        found = await flow.step("do", step, **options)
        await flow.wait("go")
        return found

    return code


async def test_a_month_of_polling_is_one_row() -> None:
    step = Steps(Snooze("1h"))
    instance = Instance(code_of(step))
    for _ in range(30 * 24):
        assert (await instance.parked()).delay == 3600
        instance.signal("other")  # woken by something else: not polled
        end = await instance.parked()
        assert end.wake_at is not None and end.waits == ("retry:do",)
        instance.now = end.wake_at
    assert len(instance.steps) == 2 and instance.steps["do", 0].attempts == 0
    assert len(instance.called) == 1 + 30 * 24
    step.does = ["paid"]
    await instance.parked()
    instance.signal("go")
    assert await instance.result() == "paid"


async def test_failed_attempts_are_retried_and_not_early() -> None:
    instance = Instance(
        code_of(
            Steps(ValueError("no"), Retry(7), ExceptionGroup("g", [Retry(8)]), 5), retry=Backoff(base="2s", jitter=0)
        )
    )
    for delay in (2, 7, 8):
        assert (await instance.parked()).delay == delay
        instance.later(delay - 1)
        assert (await instance.parked()).delay is None
        instance.later(1)
    await instance.parked()
    assert instance.called == ["first", "do", "do", "do", "do"] and instance.steps["do", 0].attempts == 4


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [ValueError("no"), Unprintable(), asyncio.CancelledError(), SystemExit(3), Retry(1)])
async def test_out_of_attempts_and_resumed(error: BaseException) -> None:
    instance = Instance(code_of(Steps(error), max_attempts=2))
    for turn in (1, 2):
        await instance.parked()
        instance.later(3600)
        end = await instance.stopped()
        assert end.error == type(error).__name__ and end.message.startswith("step do: ")
        assert instance.steps["do", 0].attempts == 2 * turn and instance.steps["do", 0].status == "open"


async def test_a_policy_that_gives_up() -> None:
    instance = Instance(code_of(Steps(ValueError()), retry=Backoff(give_up=(ValueError,))))
    await instance.stopped()


@pytest.mark.parametrize(
    "error", [ValueError("no"), ValueError(), Unprintable(), ValueError("x" * 100_000), ValueError("\0\udc00")]
)
async def test_caught_failures_are_the_same_in_a_replay(error: Exception) -> None:
    seen: list[str] = []

    async def code(flow: Flow) -> None:
        try:
            await flow.step("do", Steps(error), max_attempts=1, catch=True)
        except StepFailed as failed:
            seen.append(str(failed))
        await flow.wait("go")

    instance = Instance(code)
    await instance.parked()
    await instance.parked()
    assert seen[0] == seen[1] and len(seen) == 2 and instance.called == ["do"]


async def test_another_fail_is_no_fail() -> None:
    class Other(Exception):
        pass

    Other.__name__ = "Fail"
    seen: list[type] = []

    async def code(flow: Flow) -> None:
        try:
            await flow.step("do", Steps(Other("x")), max_attempts=1, catch=True)
        except Exception as error:
            seen.append(type(error))
        await flow.wait("go")

    instance = Instance(code)
    await instance.parked()
    await instance.parked()
    assert seen == [StepFailed, StepFailed]


@pytest.mark.parametrize("caught", [False, True])
async def test_fail_from_a_step(caught: bool) -> None:
    async def code(flow: Flow) -> Any:
        try:
            await flow.step("do", Steps(Fail("no \0")))
        except Fail as fail:
            if not caught:
                raise
            await flow.wait("go")
            return fail.reason

    instance = Instance(code)
    if caught:
        await instance.parked()
        instance.signal("go")
        assert await instance.result() == "no \\0"
    else:
        end = await instance.run()
        assert isinstance(end, FlowEnd) and end.end == Ended(Final.FAILED, "no \\0")
    assert instance.called == ["do"]


# Undo


def undoable(undone: list[Any], fails: Any = None) -> Any:
    async def code(flow: Flow) -> None:
        async def branch(name: str) -> None:
            for number in range(2):
                await flow.step(f"{name}{number}", double, number, undo=undone.append)
            await flow.step(f"{name} caught", Steps(ValueError()), max_attempts=1, catch=True, undo=undone.append)

        await flow.step("first", double, 7, undo=undone.append)
        with suppress(StepFailed):
            await flow.gather(branch("a"), branch("b"))
        if fails is not None:
            await flow.step("fails", Steps(fails), max_attempts=1)
        await flow.wait("go")

    return code


def is_undone(instance: Instance) -> None:
    """Each finished step with an undo, the last one first, once."""
    done = [key for key, step in instance.steps.items() if step.kind == "step" and step.status == "done"]
    done.sort(key=lambda key: -instance.steps[key].ordinal)
    assert [name for name in instance.called if name.startswith("undo:")] == [f"undo:{name}" for name, _ in done]


async def test_cancel_undoes_in_reverse() -> None:
    undone: list[Any] = []
    instance = Instance(undoable(undone))
    await instance.parked()
    instance.cancelled = True
    end = await instance.run()
    assert isinstance(end, FlowEnd) and end.end == Ended(Final.CANCELLED, "cancelled")
    is_undone(instance)
    assert undone[-1] == 7 and len(undone) == 5


@pytest.mark.parametrize("at", ["first", "a0", "b1", "b caught"])
async def test_cancel_at_every_barrier(at: str) -> None:
    instance = Instance(undoable([]))

    def cancel(call: Any) -> None:
        instance.cancelled |= call.name == at

    instance.on_call = cancel
    end = await instance.run()
    while not isinstance(end, FlowEnd):
        end = await instance.run()
    assert isinstance(end.end, Ended) and end.end.status is Final.CANCELLED
    is_undone(instance)


async def test_undo_on_failure_survives_parks() -> None:
    undo = Steps(ValueError("not yet"), Snooze(5), None)

    async def undo_one(number: int) -> Any:
        return await undo()

    async def code(flow: Flow) -> None:
        await flow.step("one", double, 1, undo=undo_one)
        try:
            await flow.step("two", Steps(ValueError("broken")), max_attempts=1)
        except Exception:
            await flow.step("wrong", double, 1)

    instance = Instance(code, undo_on_failure=True)
    assert (await instance.parked()).waits == ("retry:undo:one",)
    early = await instance.parked()
    assert early.wake_at is not None and len(instance.called) == 3
    instance.now = early.wake_at
    instance.cancelled = True  # too late: it fails
    assert (await instance.parked()).delay == 5
    instance.later(5)
    end = await instance.run()
    assert isinstance(end, FlowEnd) and end.end == Ended(Final.FAILED, "step two failed 1 time: ValueError: broken")
    assert instance.called == ["one", "two", "undo:one", "undo:one", "undo:one"]


@pytest.mark.parametrize("error", [ValueError("no"), Fail("no")])
async def test_undo_out_of_attempts_is_a_dead_letter_and_resumed(error: Exception) -> None:
    undo = Steps(error)

    async def undo_one(number: int) -> Any:
        return await undo()

    async def code(flow: Flow) -> None:
        await flow.step("one", double, 1, undo=undo_one)
        raise Fail("end")

    instance = Instance(code)
    for _ in range(4 if isinstance(error, ValueError) else 0):
        await instance.parked()
        instance.later(3600 * 2)
    assert "step undo:one" in (await instance.stopped()).message
    undo.does = [None]
    end = await instance.run()
    assert isinstance(end, FlowEnd) and end.end == Ended(Final.FAILED, "end")


async def test_a_cancelled_instance_whose_code_raises_is_undone() -> None:
    undone: list[int] = []

    async def code(flow: Flow) -> None:
        await flow.step("one", double, 1, undo=undone.append)
        raise ValueError("a bug")

    instance = Instance(code)
    with pytest.raises(ValueError, match="a bug"):
        await instance.run()
    assert list(instance.steps) == [("one", 0)]
    instance.cancelled = True
    end = await instance.run()
    assert isinstance(end, FlowEnd) and undone == [1]


# Pause and drain


async def test_pause_and_drain_at_a_barrier() -> None:
    async def code(flow: Flow) -> int:
        await flow.step("one", double, 1)
        await flow.step("two", double, 2)
        return await flow.step("three", double, 3)

    instance = Instance(code)

    def after_one(call: Any) -> None:
        instance.paused |= call.name == "one"
        instance.draining |= call.name == "two"

    instance.on_call = after_one
    assert (await instance.parked()).waits == ("pause",)
    assert (await instance.parked()).waits == ("pause",)
    instance.paused = False
    instance.on_call = lambda call: None
    instance.draining = True
    assert await instance.run() == HandedBack()
    instance.draining = False
    instance.on_call = after_one
    assert await instance.run() == HandedBack()
    assert list(instance.steps) == [("one", 0), ("two", 0)]
    instance.draining = False
    assert await instance.result() == 6
    assert instance.called == ["one", "two", "three"]


# A journal that fails


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("branches", [False, True])
async def test_what_the_journal_raises_is_not_seen_by_the_code(stored: bool, branches: bool) -> None:
    async def code(flow: Flow) -> str:
        async def careless(name: str) -> None:
            for number in range(3):
                try:
                    await flow.step(f"{name}{number}", double, number)
                except Exception:
                    await flow.step(f"{name}wrong", double, 0)

        await (flow.gather(careless("a"), careless("b")) if branches else careless("a"))
        return "done"

    instance = Instance(code)
    instance.journal_raises, instance.answer_lost = LeaseLost("gone"), stored
    with pytest.raises(LeaseLost):
        await instance.run()
    assert instance.called == ["a0"]
    assert bool(instance.steps) == stored
    instance.journal_raises = None
    assert await instance.result() == "done"
    assert not any("wrong" in name for name in instance.called)


async def test_lease_lost_in_a_step_ends_the_run() -> None:
    instance = Instance(code_of(Steps(LeaseLost("gone")), catch=True, max_attempts=1))
    with pytest.raises(LeaseLost):
        await instance.run()


# Steps in a transaction


@pytest.mark.parametrize("what", [Snooze(5), Fail("no"), ValueError("no"), object()])
async def test_a_transaction_that_is_rolled_back_keeps_earlier_records(what: Any) -> None:
    async def write(ctx: TxContext) -> Any:
        if isinstance(what, (ValueError, Fail)):
            raise what
        return what

    async def code(flow: Flow) -> None:
        await flow.now()
        await flow.step("write", write, max_attempts=2)

    instance = Instance(code)
    await instance.run()
    assert list(instance.steps) == [("now", 0), ("write", 0)] and instance.steps["write", 0].status != "done"


async def test_a_transaction_commits_earlier_records_with_its_own() -> None:
    async def write(ctx: TxContext, number: int) -> int:
        assert instance.commits == number
        return number

    async def code(flow: Flow) -> int:
        await flow.now()
        return await flow.step("write", write, 0) + await flow.step("write", write, 1)

    instance = Instance(code)
    assert await instance.result() == 1
    assert instance.commits == 2


async def test_a_transaction_beside_others_does_not_hold_back_their_records() -> None:
    async def write(ctx: TxContext) -> None:
        await asyncio.sleep(0.1)

    def look() -> list[str]:
        return [name for name, _ in instance.steps]

    async def code(flow: Flow) -> Any:
        await flow.now()
        return await flow.gather(flow.step("write", write), flow.step("look", look))

    instance = Instance(code)
    assert await instance.result() == [None, ["now"]]


@pytest.mark.parametrize("stored", [False, True])
async def test_a_commit_whose_answer_is_lost(stored: bool) -> None:
    async def write(ctx: TxContext) -> int:
        return 1

    async def code(flow: Flow) -> int:
        try:
            return await flow.step("write", write, max_attempts=1, catch=True)
        except Exception:
            return 0

    instance = Instance(code)
    instance.journal_raises, instance.answer_lost = OSError("connection lost"), stored
    with pytest.raises(OSError, match="connection lost"):
        await instance.run()
    instance.journal_raises = None
    assert await instance.result() == 1
    assert len(instance.called) == (1 if stored else 2)


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_a_cancel_that_the_worker_has_heard_of_stops_before_the_next_step(in_transaction: bool) -> None:
    """Also if nothing is to be recorded before that step, whose answer would tell."""

    async def code(flow: Flow) -> None:
        if in_transaction:
            await flow.step("first", write)
        else:
            await flow.step("first", count)

    called: list[int] = []

    def count() -> None:
        called.append(1)

    async def write(ctx: TxContext) -> None:
        called.append(1)

    instance = Instance(code)
    instance.noticed = True
    end = await instance.run()
    assert isinstance(end, FlowEnd) and isinstance(end.end, Ended) and end.end.status is Final.CANCELLED
    assert not called


async def test_a_cancel_that_the_worker_hears_of_in_the_last_step_undoes_that_step() -> None:
    async def code(flow: Flow) -> None:
        await flow.step("last", hears, undo=forget)

    called: list[str] = []

    def hears() -> None:
        called.append("last")
        instance.noticed = True

    def forget() -> None:
        called.append("undo")

    instance = Instance(code)
    end = await instance.run()
    assert isinstance(end, FlowEnd) and isinstance(end.end, Ended) and end.end.status is Final.CANCELLED
    assert called == ["last", "undo"]


@pytest.mark.parametrize("retried", [False, True])
@pytest.mark.parametrize("of_the_step", [True, False])
async def test_what_fails_after_the_worker_has_heard_of_a_cancel_is_undone(of_the_step: bool, retried: bool) -> None:
    """Whether or not it has attempts left: it would not run again."""

    async def code(flow: Flow) -> None:
        await flow.step("first", count, undo=forget)
        await flow.step("last", hears, max_attempts=2 if retried else 1)
        raise ValueError("no luck")

    called: list[str] = []

    def count() -> None:
        called.append("first")

    def hears() -> None:
        called.append("last")
        instance.noticed = True
        if of_the_step:
            raise ValueError("no luck")

    def forget() -> None:
        called.append("undo")

    instance = Instance(code)
    end = await instance.run()
    assert isinstance(end, FlowEnd) and isinstance(end.end, Ended) and end.end.status is Final.CANCELLED
    assert called == ["first", "last", "undo"]


@pytest.mark.parametrize("undoes", [True, False])
async def test_children_of_an_instance_that_fails_are_cancelled(undoes: bool) -> None:
    """Once it is recorded that it has failed; if the worker dies before that, it may go on."""

    async def code(flow: Flow) -> None:
        if undoes:
            await flow.step("one", double, 1, undo=double)
        await flow.gather(flow.child("child", invoice), flow.step("two", broken, max_attempts=2))

    def broken() -> None:
        raise ValueError("broken")

    @Holdfast().task
    async def invoice() -> None: ...

    instance = Instance(code, undo_on_failure=True)
    assert set((await instance.parked()).waits) == {"child:child", "retry:two"}
    assert not instance.cancelled_children
    instance.later(3600)
    end = await instance.run()
    assert isinstance(end, FlowEnd) and isinstance(end.end, Ended) and end.end.status is Final.FAILED
    assert instance.cancelled_children == ["child"]
    assert instance.steps["two", 0].status == "failed", "it is recorded before they are cancelled"
