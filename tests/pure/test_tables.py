"""Workflows as tables: what is checked when they are declared, and the way that an instance takes."""

from datetime import timedelta
from typing import Any

import pytest
from tests.flow.memory import Instance

from holdfast import ConfigurationError, Context, Fail, Holdfast, Sleep, Step, Wait
from holdfast.model.flow import FlowEnd, Parked
from holdfast.model.outcome import Completed, Ended

called: list[Any] = []


@pytest.fixture
def hf() -> Holdfast:
    called.clear()
    return Holdfast("postgresql://nobody@nowhere/none")


def reserve(order_id: int) -> str:
    called.append(("reserve", order_id))
    return "shelf 7"


async def charge(ctx: Context, order_id: int, reserve: str, card: str = "visa") -> int:
    called.append(("charge", order_id, reserve, card))
    return 100


def refund(order_id: int, reserve: str, card: str = "visa") -> None:
    called.append(("refund", order_id, reserve, card))


def notify(order_id: int, shipped: dict[str, str] | None) -> str:
    called.append(("notify", shipped))
    return "done"


def decide(order_id: int) -> str | None:
    return {1: "notify", 2: None}.get(order_id, "elsewhere")


def refuse(order_id: int) -> None:
    raise Fail("no")


STEPS: list[Step | Wait | Sleep] = [
    Step("reserve", reserve, "charge"),
    Step("charge", charge, next="shipped", undo=refund, max_attempts=2, timeout="30s"),
    Wait("shipped", timeout="3d", next="notify", on_timeout="late"),
    Sleep("late", "1h", next="notify"),
    Step("notify", notify),
]


async def test_an_instance_goes_from_step_to_step(hf: Holdfast) -> None:
    table = hf.table("checkout", 1, STEPS)
    assert table._definition.arguments.names == ("order_id", "card")
    assert table._definition.arguments.required == ("order_id",)
    instance = Instance(table._definition.function, order_id=9182, card="visa")
    parked = await instance.run()
    assert isinstance(parked, Parked)
    assert parked.waits == ("signal:shipped",)
    instance.signal("shipped", {"carrier": "DHL"})
    end = await instance.run()
    assert isinstance(end, FlowEnd)
    assert end.end == Completed('"done"')
    assert called == [
        ("reserve", 9182), ("charge", 9182, "shelf 7", "visa"), ("notify", {"carrier": "DHL"})
    ]  # fmt: skip


async def test_a_timeout_goes_another_way(hf: Holdfast) -> None:
    instance = Instance(hf.table("checkout", 1, STEPS)._definition.function, order_id=1, card="visa")
    await instance.run()
    instance.now += timedelta(days=3)
    parked = await instance.run()
    assert isinstance(parked, Parked)
    assert parked.waits == ("timer:late",)
    instance.now += timedelta(hours=1)
    assert isinstance(await instance.run(), FlowEnd)
    assert called[-1] == ("notify", None)


async def test_a_signal_without_a_payload_is_no_timeout(hf: Holdfast) -> None:
    instance = Instance(hf.table("checkout", 1, STEPS)._definition.function, order_id=1, card="visa")
    instance.signal("shipped")
    assert isinstance(await instance.run(), FlowEnd)
    assert ("late", 0) not in instance.steps


async def test_cancelling_undoes(hf: Holdfast) -> None:
    instance = Instance(hf.table("checkout", 1, STEPS)._definition.function, order_id=1, card="visa")
    await instance.run()
    instance.cancelled = True
    end = await instance.run()
    assert isinstance(end, FlowEnd)
    assert isinstance(end.end, Ended)
    assert called[-1] == ("refund", 1, "shelf 7", "visa")


@pytest.mark.parametrize(("order_id", "ends"), [(1, "notify"), (2, "decide")])
async def test_a_handler_chooses_the_next_step(hf: Holdfast, order_id: int, ends: str) -> None:
    table = hf.table("t", 1, [Step("decide", decide, ["notify", None]), Step("notify", reserve)])
    instance = Instance(table._definition.function, order_id=order_id)
    assert isinstance(await instance.run(), FlowEnd)
    assert list(instance.steps)[-1][0] == ends


async def test_a_handler_that_chooses_nothing_known(hf: Holdfast) -> None:
    table = hf.table("t", 1, [Step("decide", decide, ["notify", None]), Step("notify", reserve)])
    with pytest.raises(ConfigurationError, match="expected one of 'notify', None, got 'elsewhere'"):
        await Instance(table._definition.function, order_id=3).run()


NOT_A_HANDLER: Any = 7


def keywords(*, order_id: int) -> None: ...
def other_type(order_id: str) -> None: ...


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([], "expected a list of steps, got none"),
        ([1], "expected Step.*, got 1"),
        ([Step("a", reserve, "b")], "after a comes 'b', and there is no such step; expected one of a, or None"),
        ([Step("a", reserve), Step("a", reserve)], "there are two steps 'a'"),
        ([Step("a", reserve), Step("b", reserve)], "'b' cannot be reached from the first step, 'a'"),
        ([Step("a", reserve, "b"), Sleep("b", "1s", "a")], "no end can be reached from 'a', 'b'"),
        ([Step("undo:a", reserve)], "must not start with 'undo:'"),
        ([Step("a", reserve, [])], "a: next: expected the name of a step"),
        ([Wait("a", on_timeout=None)], "a: on_timeout: needs a timeout"),
        ([Wait("a", timeout="soon")], "a: timeout: "),
        ([Sleep("a", "soon")], "a: delay: "),
        ([Step("a", reserve, max_attempts=0)], "a: max_attempts: "),
        ([Step("a", keywords)], "expected a handler with named parameters, which it gets by position"),
        ([Step("a", reserve, undo=refund)], r"expected the parameters \(order_id\), got \(order_id, reserve, card\)"),
        ([Step("a", reserve, "b"), Step("b", other_type)], "b takes order_id as <class 'str'>, and another step as"),
        ([Step("a", NOT_A_HANDLER)], "expected a function or a task, got 7"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_right(hf: Holdfast, steps: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        hf.table("t", 1, steps)
    assert hf.tasks == {}


def test_the_tables_of_earlier_versions(hf: Holdfast) -> None:
    table = hf.table("t", 2, [Step("a", reserve)], earlier={1: [Step("b", notify)]}, queue="mail")
    assert table._definition.oldest == 1
    assert table._definition.at(1).arguments.names == ("order_id", "shipped")
    assert table._definition.queue == "mail"
    with pytest.raises(ConfigurationError, match="name: of a table, is given by position"):
        hf.table("u", 1, [Step("a", reserve)], name="v")
    with pytest.raises(ConfigurationError, match="is at version 1; expected an earlier one"):
        hf.table("u", 1, [Step("a", reserve)], earlier={1: [Step("a", reserve)]})


def test_a_task_is_a_handler(hf: Holdfast) -> None:
    @hf.task
    async def send(ctx: Context, order_id: int) -> None: ...

    assert hf.table("t", 1, [Step("send", send)])._definition.arguments.names == ("order_id",)
