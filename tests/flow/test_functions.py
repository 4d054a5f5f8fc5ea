"""What can be a step, and that its result is the same live and replayed."""

import asyncio
import gc
import weakref
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, wraps
from typing import Any
from uuid import UUID

import pydantic
import pytest

from holdfast import Holdfast
from holdfast.context import Context
from holdfast.errors import ConfigurationError
from holdfast.flow.flow import Flow
from holdfast.model.outcome import Fail, Snooze
from tests.flow.memory import Instance

hf = Holdfast()
variable: ContextVar[str] = ContextVar("variable", default="unset")


@dataclass
class Point:
    x: int
    at: datetime


class Model(pydantic.BaseModel):
    name: str
    ids: set[int]


def point() -> Point:
    return Point(1, datetime(2026, 1, 1, tzinfo=UTC))


def points() -> dict[str, list[Point]]:
    return {"a": [point()]}


def ids() -> set[UUID]:
    return {UUID(int=1), UUID(int=2)}


def model() -> Model:
    return Model(name="x", ids={1, 2})


def nothing() -> None: ...


def maybe() -> Point | Snooze | None:
    return point()


def plain():  # type: ignore[no-untyped-def]
    return {"a": (1, 2.5)}


@pytest.mark.parametrize("function", [point, points, ids, model, nothing, maybe, plain])
async def test_a_result_is_the_same_live_and_replayed(function: Any) -> None:
    seen: list[Any] = []

    async def code(flow: Flow) -> None:
        seen.append(await flow.step("get", function))
        await flow.wait("go")

    instance = Instance(code)
    await instance.parked()
    await instance.parked()
    assert seen[0] == seen[1] and type(seen[0]) is type(seen[1])
    if function is not plain:
        assert seen[0] == function() and type(seen[0]) is type(function())


class Shop:
    def method(self, number: int) -> int:
        return number + 1

    async def async_method(self, ctx: Context, number: int) -> int:
        assert ctx is not None
        return number + 1

    @staticmethod
    def static(number: int) -> int:
        return number + 1


class Callee:
    async def __call__(self, ctx: Context, number: int) -> int:
        assert ctx is not None
        return number + 1


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, number: int) -> int:
        return number + 1


@hf.task
async def task(ctx: Context, number: int) -> int:
    return number + 1


async def with_context(ctx: Context, number: int, step: int = 1) -> int:
    assert isinstance(ctx, Context)
    return number + step


def decorated(function: Any) -> Any:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    "function",
    [
        Shop().method,
        Shop().async_method,
        Shop.static,
        Callee(),
        Unhashable(),
        task,
        lambda number: number + 1,
        with_context,
        partial(with_context, step=1),
        partial(lambda step, number: number + step, 1),
        partial(partial(Shop().method)),
        decorated(with_context),
        (1).__add__,
    ],
)
async def test_what_can_be_a_step(function: Any) -> None:
    async def code(flow: Flow) -> Any:
        return [await flow.step("add", function, 1), await flow.step("add", function, 2)]

    assert await Instance(code).result() == [2, 3]


def yields() -> Any:
    yield 1


async def yields_async() -> Any:
    yield 1


@pytest.mark.parametrize("function", [yields, yields_async, int, 5, None, "text"])
async def test_what_cannot_be_a_step(function: Any) -> None:
    async def code(flow: Flow) -> None:
        for options in ({}, {"undo": function}):
            with pytest.raises(ConfigurationError, match="step"):
                await flow.step("do", nothing if options else function, **options)

    if function is None:
        return
    instance = Instance(code)
    await instance.result()
    assert not instance.called


async def test_functions_that_only_stop() -> None:
    def stops() -> Snooze | Fail:
        return Fail("no")

    async def code(flow: Flow) -> Any:
        try:
            await flow.step("do", stops)
        except Fail as fail:
            return fail.reason

    assert await Instance(code).result() == "no"


@pytest.mark.parametrize("value", [object(), float("nan"), b"\xff", datetime(2026, 1, 1), 2**70])  # noqa: DTZ001
async def test_unstorable_results(value: Any) -> None:
    def get() -> Any:
        return value

    def lies() -> int:
        return value  # type: ignore[no-any-return]

    async def code(flow: Flow) -> None:
        await flow.step("do", get if value != b"\xff" else lies)

    instance = Instance(code)
    end = await instance.stopped()
    assert end.error == "UnstorableResult" and "step do" in end.message


async def test_errors_like_those_of_results_are_the_steps_own() -> None:
    import msgspec

    def parse() -> int:
        return msgspec.json.decode(b'"x"', type=int)

    async def code(flow: Flow) -> None:
        await flow.step("parse", parse)

    assert (await Instance(code).parked()).waits == ("retry:parse",)


async def test_context_variables_of_the_code() -> None:
    async def code(flow: Flow) -> list[str]:
        async def branch(name: str) -> str:
            variable.set(name)
            await flow.step(name, asyncio.sleep, 0)
            return variable.get()

        variable.set("main")
        return [*await flow.gather(branch("a"), branch("b")), variable.get(), await flow.step("in", variable.get)]

    assert await Instance(code).result() == ["a", "b", "main", "main"]
    assert variable.get() == "unset"


async def test_functions_made_in_the_code_are_not_kept() -> None:
    class Big:
        pass

    kept: list[weakref.ref[Big]] = []

    async def code(flow: Flow) -> None:
        big = Big()
        kept.append(weakref.ref(big))

        def uses() -> bool:
            return big is not None

        await flow.step("uses", uses)
        await flow.step("partial", partial(lambda given: given is not None, big))

    await Instance(code).result()
    gc.collect()
    assert kept[0]() is None


async def test_a_step_that_a_decorator_makes_in_each_run_is_not_kept() -> None:
    """It has the name of a function of a module, and refers to what it was made with."""

    class Big: ...

    kept: list[weakref.ref[Big]] = []

    def with_it(big: Big) -> Any:
        @wraps(point)
        def decorated() -> Point:
            assert big is not None
            return point()

        return decorated

    async def code(flow: Flow) -> None:
        big = Big()
        kept.append(weakref.ref(big))
        await flow.step("a", with_it(big))

    for _ in range(3):
        await Instance(code).run()
    gc.collect()
    assert [ref() for ref in kept] == [None] * 3
