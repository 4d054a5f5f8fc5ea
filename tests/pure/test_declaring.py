"""Declaring tasks: what cannot be stored or called later is refused when the task is registered."""

import inspect
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn, Protocol, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pytest

from holdfast import ConfigurationError, Context, Fail, Holdfast, InvalidInput, InvalidPayload, Snooze, TxContext
from holdfast.definitions import Runs
from holdfast.model.job import Claim


@pytest.fixture
def hf() -> Holdfast:
    return Holdfast("postgresql://nobody@nowhere/none")


def test_a_task_stays_the_function_it_was(hf: Holdfast) -> None:
    @hf.task
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    @hf.task(name="waits")
    async def waits(ctx: Context, a: int) -> int:
        return a

    assert add(1) == 3
    assert add.__doc__ == "Adds."
    assert str(inspect.signature(add)) == "(a: int, b: int = 2) -> int"
    nothing: Any = None
    coroutine = waits(nothing, 1)
    assert inspect.iscoroutine(coroutine)
    coroutine.close()


def test_the_context_is_found_by_its_type(hf: Holdfast) -> None:
    @hf.task
    async def plain(order_id: int) -> None: ...

    @hf.task
    async def told(context: Context, order_id: int) -> None: ...

    @hf.task
    async def writes(ctx: TxContext, order_id: int) -> None: ...

    @hf.task(process=True)
    def computes(order_id: int) -> None: ...

    @hf.task
    def waits(ctx: Context, order_id: int) -> None: ...

    wants = [(task._definition.wants_context, task._definition.runs) for task in (plain, told, writes, computes, waits)]
    assert wants == [
        (False, Runs.ON_LOOP),
        (True, Runs.ON_LOOP),
        (True, Runs.IN_TRANSACTION),
        (False, Runs.IN_PROCESS),
        (True, Runs.IN_THREAD),
    ]
    assert [task._definition.arguments.struct.__struct_fields__ for task in (plain, told, writes)] == [
        ("type_", "order_id")
    ] * 3


def takes_type(type: str) -> None: ...
def takes_many(*many: int) -> None: ...
def takes_any(**anything: int) -> None: ...
def takes_positions(a: int, /) -> None: ...
def takes_bytes_writer(a: memoryview) -> None: ...
def takes_a_mystery(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - the point
def takes_a_transaction(ctx: TxContext) -> None: ...
async def takes_its_context_second(order_id: int, ctx: Context) -> None: ...
async def may_take_a_context(ctx: Context | None, order_id: int) -> None: ...
def takes_a_connection(order_id: int, connection: socket.socket) -> None: ...
def takes_a_function(call: Callable[[], None] | None = None) -> None: ...
def takes_one_deep_inside(items: list[dict[str, tuple[complex, ...]]]) -> None: ...
def takes_numbers_as_keys(prices: dict[int, str]) -> None: ...
def takes_pairs_as_keys(prices: dict[tuple[int, int], str]) -> None: ...
def takes_flags_as_keys(prices: dict[bool, str]) -> None: ...
def returns_a_connection(order_id: int) -> socket.socket: ...  # type: ignore[empty-body]
def returns_one_deep_inside() -> list[dict[str, complex]] | Snooze: ...  # type: ignore[empty-body]
def returns_numbers_as_keys() -> dict[int, str]: ...  # type: ignore[empty-body]
def takes_a_field(cents: int = pydantic.Field(gt=0)) -> None: ...
def takes_two_kinds_of_rules(a: Annotated[int, pydantic.Field(gt=0), msgspec.Meta(lt=9)]) -> None: ...


def yields(order_id: int) -> Iterator[int]:
    yield order_id


async def yields_later(order_id: int) -> AsyncIterator[int]:
    yield order_id


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (takes_type, "'type'.*carries the kind"),
        (takes_many, r"named parameters only, got \*many"),
        (takes_any, r"named parameters only, got \*\*anything"),
        (takes_positions, "named parameters only"),
        (takes_a_mystery, "'Nowhere' is not defined.*import that name at run time"),
        (takes_a_transaction, "TxContext must be async"),
        (takes_its_context_second, "parameter 'ctx' is a Context, which must come first"),
        (may_take_a_context, "ctx: expected Context or TxContext as its annotation"),
        (
            takes_a_connection,
            "connection cannot be stored: a socket cannot be read from JSON; take what",
        ),
        (takes_a_function, "call cannot be stored"),
        (takes_one_deep_inside, "items cannot be stored: a complex"),
        (takes_numbers_as_keys, "prices cannot be stored: the keys of JSON objects are text"),
        (takes_pairs_as_keys, "prices cannot be stored: the keys of JSON objects are text"),
        (takes_flags_as_keys, "prices cannot be stored: the keys of JSON objects are text"),
        (
            returns_a_connection,
            "its result cannot be stored: a socket cannot be written as JSON; return what is needed",
        ),
        (returns_one_deep_inside, "its result cannot be stored: a complex"),
        (returns_numbers_as_keys, "its result cannot be stored: the keys of JSON objects are text"),
        (takes_a_field, r"cents has a pydantic Field as its default; write Annotated\[…, Field"),
        (takes_two_kinds_of_rules, "a has rules of msgspec and of pydantic"),
        (yields, "yields: a handler must return, and this one yields"),
        (yields_later, "yields_later: a handler must return, and this one yields"),
        (lambda: None, "pass name="),
        (partial(takes_many), "pass name="),
        ("greet", r"expected a function, got text; write @hf.task\(name='greet'\)"),
        (dict, "expected a function, sync or async, got the class dict"),
        (7, "expected a function, sync or async, got a int"),
    ],
)
def test_what_cannot_work_is_refused_at_once(hf: Holdfast, function: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        hf.task(function)


class Shape(Protocol):
    sides: int


class Names(Counter[str]): ...


class Order(pydantic.BaseModel):
    id: int


@pytest.mark.parametrize(
    "result",
    [
        None, Any, object, NoReturn, int | None, None | Snooze | Fail, dict[str, int] | Snooze, set[bytes], Path, UUID,
        Shape, Names, Order, list[Order], Mapping[date, int], Annotated[int, pydantic.Field(gt=0)], TypeVar("T"), "int",
    ],
)  # fmt: skip
def test_what_can_be_a_result(hf: Holdfast, result: Any) -> None:
    def returns() -> None: ...

    returns.__annotations__["return"] = result
    hf.task(returns)


def test_a_task_has_time_to_run(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput, match="timeout: expected a duration above zero, got '0s'"):
        hf.task(name="a", timeout="0s")(lambda: None)


def test_a_schema_is_checked_at_once() -> None:
    with pytest.raises(ConfigurationError, match="schema: expected"):
        Holdfast(schema="drop table")


def test_names_are_told_apart(hf: Holdfast) -> None:
    hf.task(name="a")(lambda: None)
    with pytest.raises(ConfigurationError, match="already a task 'a'; pass name"):
        hf.task(name="a")(lambda: None)


def test_payloads_of_earlier_versions_are_brought_up_to_date(hf: Holdfast) -> None:
    @hf.task(version=3)
    def pay(cents: int, currency: str) -> None: ...

    @pay.upcast(from_version=2)
    def add_currency(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "currency": "EUR"}

    assert pay._definition.oldest == 2
    assert pay._definition.decode('{"type": "pay", "cents": 1}', 2) == {"cents": 1, "currency": "EUR"}

    @pay.upcast(from_version=1)
    def to_cents(payload: dict[str, Any]) -> dict[str, Any]:
        return {"cents": payload["euros"] * 100}

    assert pay._definition.oldest == 1
    assert pay._definition.decode('{"type": "pay", "euros": 1}', 1) == {"cents": 100, "currency": "EUR"}
    for wrong in (0, 3, 4):
        with pytest.raises(ConfigurationError, match="from_version"):
            pay.upcast(from_version=wrong)(to_cents)
    with pytest.raises(ConfigurationError, match="already has an upcast"):
        pay.upcast(from_version=1)(to_cents)
    with pytest.raises(InvalidPayload, match="does not fit pay"):
        pay._definition.decode('{"type": "pay", "cents": "many", "currency": "EUR"}', 3)


def test_a_default_is_left_to_the_function_that_runs(hf: Holdfast) -> None:
    """Not stored at enqueue: a default that changes with a release holds for jobs in flight, too."""

    @hf.task
    def note(text: str = "hello", tags: list[str] = []) -> None: ...  # noqa: B006 - the point

    assert note._definition.decode('{"type": "note"}', 1) == {"text": "hello", "tags": []}


def test_a_context_tells_its_job() -> None:
    claim = Claim(
        worker="w1",
        id=None, generation=3, fence=9, attempt=2, max_attempts=5, kind="k", version=1, payload="{}", queue="q",  # type: ignore[arg-type]
        key="key", headers='{"a": "b"}', idempotency_key=None,
    )  # fmt: skip
    context = Context(claim, None)  # type: ignore[arg-type]
    assert (context.generation, context.fence, context.attempt, context.max_attempts) == (3, 9, 2, 5)
    assert context.headers == {"a": "b"}
    assert not context.stopping
    context.check()
    with pytest.raises(InvalidInput, match="key: expected 1 to 512 bytes"):
        context.once("x" * 513)


@pytest.mark.parametrize("keep", [7, 7.5, True, "a week", "0s", timedelta(0), "-1d", "731d", timedelta(days=1000), ()])
def test_keep_is_a_duration_or_nothing(hf: Holdfast, keep: Any) -> None:
    """A number would be seconds, as elsewhere, and look like days."""

    def mark() -> None: ...

    with pytest.raises(InvalidInput, match=r"keep: expected a duration"):
        hf.task(keep=keep)(mark)
    assert (hf.task(mark)._definition.kept, hf.task(name="other", keep=None)(mark)._definition.kept) == (True, False)


@pytest.mark.parametrize(
    ("keep", "days"),
    [
        ("archive_days", None), (None, 0), ("1ms", 1), ("1d", 1), ("25h", 2), ("4d", 5), ("7d", 7),
        (timedelta(weeks=1), 7), ("7d1s", 10), ("31d", 45), ("366d", 730), ("730d", 730),
    ],
)  # fmt: skip
def test_keep_is_rounded_up(hf: Holdfast, keep: Any, days: int | None) -> None:
    def mark() -> None: ...

    definition = hf.task(keep=keep)(mark)._definition
    assert (definition.keep, definition.kept) == (days, keep is not None)
