"""`make_context`: a handler by itself, without a database."""

from typing import Any
from uuid import UUID

import pytest

from holdfast import Cancelled, ConfigurationError, Context, Holdfast, InvalidInput, LeaseLost, TxContext
from holdfast.testing import make_context

hf = Holdfast("postgresql://nobody@nowhere/none")
charged: list[int] = []


@hf.task(queue="mail", max_attempts=3)
async def charge(ctx: Context, order_id: int) -> str:
    async with ctx.once(f"charge:{order_id}") as first:
        if first:
            charged.append(order_id)
    ctx.progress(0.5, "half")
    ctx.progress(2)
    return f"{ctx.kind} {ctx.queue} {ctx.attempt}/{ctx.max_attempts} {ctx.idempotency_key}"


async def test_a_handler_by_itself() -> None:
    ctx = make_context(charge, attempt=2, idempotency_key="k")
    assert await charge(ctx, 7) == "charge mail 2/3 k"
    assert await charge(ctx, 7) == "charge mail 2/3 k"
    assert charged == [7]
    assert ctx.done == {"charge:7"}
    assert ctx.reported[:2] == [(0.5, "half"), (1.0, "")]
    await charge(make_context(done=["charge:8"]), 8)
    assert charged == [7]


def test_a_sync_handler() -> None:
    @hf.task
    def work(ctx: Context) -> Any:
        with ctx.once("a") as first:
            return first

    ctx = make_context(work)
    assert (work(ctx), work(ctx)) == (True, False)
    with pytest.raises(ZeroDivisionError), ctx.once("b"):
        raise ZeroDivisionError
    assert ctx.done == {"a"}


def test_what_it_knows() -> None:
    id = UUID(int=5)
    ctx = make_context(
        job_id=id, kind="k", queue="q", key="order:1", attempt=3, max_attempts=4, generation=9, fence=77,
        headers={"trace": "1"}, state={"client": 1},
    )  # fmt: skip
    assert (ctx.job_id, ctx.kind, ctx.queue, ctx.key, ctx.attempt, ctx.max_attempts) == (id, "k", "q", "order:1", 3, 4)
    assert (ctx.generation, ctx.fence, ctx.headers, ctx.state) == (9, 77, {"trace": "1"}, {"client": 1})
    assert ctx.idempotency_key == str(id)
    assert isinstance(ctx, Context)
    assert not isinstance(ctx, TxContext)
    plain = make_context()
    assert (plain.key, plain.attempt, plain.generation, plain.headers) == (str(plain.job_id), 1, 1, {})
    with pytest.raises(ConfigurationError, match=r"pass make_context\(state=…\)"):
        _ = plain.state
    with pytest.raises(InvalidInput, match=r"attemps: is not an option of make_context\(\); it takes task, tx, job_id"):
        make_context(attemps=1)  # type: ignore[call-overload]


def test_it_can_be_told_to_stop() -> None:
    ctx = make_context()
    ctx.check()
    ctx.stop()
    assert ctx.stopping
    with pytest.raises(Cancelled, match="cancelled by the test"):
        ctx.check()
    other = make_context()
    other.stop(LeaseLost("gone"))
    with pytest.raises(LeaseLost):
        other.check()
    assert other.wait_stopping(0)


async def test_a_transaction() -> None:
    class Recorder:
        said: list[Any] = []  # noqa: RUF012

        async def execute(self, *arguments: Any) -> None:
            self.said.append(arguments)

    @hf.task
    async def book(ctx: TxContext, cents: int) -> None:
        await ctx.tx.execute("insert into ledger values ($1)", cents)

    tx: Any = Recorder()
    ctx = make_context(tx=tx)
    assert isinstance(ctx, TxContext)
    await book(ctx, 5)
    assert Recorder.said == [("insert into ledger values ($1)", 5)]
