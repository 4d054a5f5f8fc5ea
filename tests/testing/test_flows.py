"""Workflows in tests: `drain` runs them on the real tables, the clock moves over their sleeps, workers die at steps."""

import pytest
from tests.support.workers import Inbox

from holdfast import Backoff, Fail, Flow, Holdfast, InvalidInput, JobFailed, Signalled, Snooze, TxContext
from holdfast.testing import die_at, drain, drain_sync, frozen_clock, run_until_parked, run_until_parked_sync
from holdfast.testing.flows import NeverDied


class Shop:
    """The steps of a checkout, and what they did."""

    def __init__(self, hf: Holdfast) -> None:
        self.done: list[str] = []
        self.problem: Exception | None = None

        @hf.workflow(version=1)
        async def checkout(flow: Flow, order_id: int) -> str:
            await flow.step("reserve", self.reserve, order_id, undo=self.release)
            await flow.step("charge", self.charge, order_id, undo=self.refund, retry=Backoff(base=60, jitter=0))
            await flow.sleep("grace", "15m")
            shipped = await flow.wait("shipped", dict, timeout="3d")
            await flow.step("notify", self.notify, order_id)
            return "shipped" if shipped else "late"

        self.checkout = checkout

    async def reserve(self, order_id: int) -> None:
        self.done.append("reserve")

    def charge(self, order_id: int) -> int:
        if self.problem is not None:
            raise self.problem
        self.done.append("charge")
        return 100

    async def notify(self, order_id: int) -> None:
        self.done.append("notify")

    async def release(self, order_id: int) -> None:
        self.done.append("release")

    async def refund(self, order_id: int) -> None:
        self.done.append("refund")


@pytest.fixture
def shop(hf: Holdfast) -> Shop:
    return Shop(hf)


async def test_an_instance_runs_to_its_end_without_waiting(hf: Holdfast, shop: Shop) -> None:
    async with frozen_clock(hf) as clock:
        instance = await shop.checkout.options(id="checkout:1").start(order_id=1)
        drained = await drain(hf)
        assert [(ran.ending, ran.waits) for ran in drained] == [("parked", ("timer:grace",))]
        assert drained.left == 1
        await clock.advance("14m")
        assert len(await drain(hf)) == 0, "it never wakes early"
        await clock.advance("1m")
        state = await run_until_parked(hf, instance)
        assert (state.state, state.waits) == ("waiting", ("signal:shipped",))
        assert await hf.signal("checkout:1", "shipped", {"carrier": "DHL"}) is Signalled.WOKEN
        (ran,) = await drain(hf)
        assert (ran.ending, ran.result) == ("completed", "shipped")
    assert shop.done == ["reserve", "charge", "notify"]
    assert await instance.result() == "shipped"
    ended = await hf.instance(instance)
    assert (ended.state, ended.ended, ended.result) == ("completed", True, "shipped")
    assert [step.name for step in ended.steps] == ["reserve", "charge", "grace", "shipped", "notify"]
    assert await hf.signal(instance, "shipped") is Signalled.ENDED


async def test_the_clock_moves_to_the_next_timer(hf: Holdfast, shop: Shop) -> None:
    async with frozen_clock(hf) as clock:
        instance = await shop.checkout.start(order_id=1)
        began = clock.now
        while (await drain(hf)).left and await clock.skip() is not None:
            pass
        assert (clock.now - began).total_seconds() == 15 * 60 + 3 * 86400
        assert await clock.skip() is None
    assert await instance.result() == "late"


async def test_a_signal_that_comes_early_is_kept(hf: Holdfast, shop: Shop) -> None:
    async with frozen_clock(hf) as clock:
        instance = await shop.checkout.options(id="checkout:2").start(order_id=2)
        assert await hf.signal("checkout:2", "shipped", {"by": "air"}, signal_id="a") is Signalled.KEPT
        assert await hf.signal(instance, "shipped", {"by": "air"}, signal_id="a") is Signalled.KNOWN
        await drain(hf)
        await clock.advance("15m")
        await drain(hf)
    assert await instance.result() == "shipped"


@pytest.mark.parametrize(("when", "times"), [("before", 1), ("after", 2), ("recorded", 1)])
async def test_a_worker_dies_at_a_step(hf: Holdfast, shop: Shop, when: str, times: int) -> None:
    await shop.checkout.options(id="checkout:3").start(order_id=3)
    with die_at("reserve", when) as death:  # type: ignore[arg-type]
        drained = await drain(hf)
    assert death.died
    assert [ran.ending for ran in drained] == ["died", "parked"]
    assert shop.done.count("reserve") == times
    assert shop.done.count("charge") == 1


@pytest.mark.parametrize("when", ["before", "after", "recorded"])
async def test_a_step_with_a_transaction_has_one_effect(hf: Holdfast, inbox: Inbox, when: str) -> None:
    inbox.rows("create table written (n int)")

    async def write(ctx: TxContext, n: int) -> None:
        await ctx.tx.execute("insert into written values ($1)", n)

    @hf.workflow
    async def writes(flow: Flow) -> None:
        await flow.step("write", write, 1)
        await flow.sleep("nap", "1h")

    await writes.start()
    with die_at("write", when):  # type: ignore[arg-type]
        await drain(hf)
    assert inbox.rows("select n from written") == [{"n": 1}]


async def test_a_step_at_which_no_worker_died(hf: Holdfast, shop: Shop) -> None:
    with pytest.raises(NeverDied, match=r"die_at\('nothing'\): expected that this step runs"), die_at("nothing"):
        await drain(hf)
    with pytest.raises(InvalidInput, match="expected 'before', 'after' or 'recorded', got 'later'"):
        die_at("charge", "later")  # type: ignore[arg-type]


async def test_the_error_of_a_step_is_raised(hf: Holdfast, shop: Shop) -> None:
    shop.problem = ValueError("the card was declined")
    instance = await shop.checkout.start(order_id=4)
    with pytest.raises(ValueError, match="declined") as raised:
        await drain(hf)
    assert "Raised by step charge of checkout" in raised.value.__notes__[0]
    async with frozen_clock(hf) as clock:
        await clock.advance("1m")
        drained = await drain(hf, errors="retry")
        assert [(ran.ending, ran.waits) for ran in drained] == [("parked", ("retry:charge",))]
        shop.problem = None
        await clock.advance("3m")
        await drain(hf)
    state = await hf.instance(instance)
    (charge,) = [step for step in state.steps if step.name == "charge"]
    assert (charge.status, charge.attempts, charge.result) == ("done", 3, 100)
    assert [error["message"] for error in charge.errors] == ["the card was declined"] * 2


async def test_a_step_out_of_attempts(hf: Holdfast, shop: Shop) -> None:
    shop.problem = ValueError("the card was declined")
    instance = await shop.checkout.options(id="checkout:5").start(order_id=5)
    async with frozen_clock(hf) as clock:
        for _ in range(5):
            await drain(hf, errors="retry")
            await clock.advance("1d")
        state = await hf.instance(instance)
        assert state.state == "dead letter"
        with pytest.raises(JobFailed, match="declined"):
            await instance.result()
        shop.problem = None
        assert await hf.resume_instance(instance)
        await drain(hf)
        assert shop.done == ["reserve", "charge"], "recorded steps are not run again"


async def test_cancelling_undoes_the_steps(hf: Holdfast, shop: Shop) -> None:
    instance = await shop.checkout.options(id="checkout:6").start(order_id=6)
    await drain(hf)
    assert await hf.cancel_instance(instance, "withdrawn") == "processing"
    (ran,) = await drain(hf)
    assert ran.ending == "cancelled"
    assert shop.done == ["reserve", "charge", "refund", "release"]
    assert (await hf.instance(instance)).state == "cancelled"


async def test_cancelling_in_the_last_step_undoes_that_too(hf: Holdfast, shop: Shop) -> None:
    async def withdraw(id: str) -> None:
        shop.done.append("withdraw")
        assert await hf.cancel_instance(id) == "processing"

    @hf.workflow
    async def short(flow: Flow) -> str:
        await flow.step("reserve", shop.reserve, 1, undo=shop.release)
        await flow.step("withdraw", withdraw, flow.id, undo=lambda id: shop.done.append("undone"))
        return "done"

    instance = await short.options(id="short:1").start()
    await drain(hf)
    assert shop.done == ["reserve", "withdraw", "undone", "release"]
    assert (await hf.instance(instance)).state == "cancelled"


async def test_fail_and_snooze_are_no_errors(hf: Holdfast) -> None:
    answers = [Snooze("1h"), Fail("no such order")]

    async def ask() -> None:
        raise answers.pop(0)

    @hf.workflow
    async def asks(flow: Flow) -> None:
        await flow.step("ask", ask)

    await asks.start()
    async with frozen_clock(hf) as clock:
        assert [ran.ending for ran in await drain(hf)] == ["parked"]
        await clock.advance("1h")
        assert [ran.ending for ran in await drain(hf)] == ["failed"]


async def test_neither_are_those_that_a_step_in_a_transaction_returns(hf: Holdfast) -> None:
    async def ask(ctx: TxContext, answer: str) -> Snooze | Fail:
        return Snooze("1h") if answer == "later" else Fail("no such order")

    @hf.workflow
    async def asks(flow: Flow, answer: str) -> None:
        await flow.step("ask", ask, answer)

    await asks.start(answer="later")
    await asks.start(answer="never")
    assert [ran.ending for ran in await drain(hf)] == ["parked", "failed"]


async def test_children(hf: Holdfast) -> None:
    @hf.task
    async def double(n: int) -> int:
        return 2 * n

    @hf.workflow
    async def one(flow: Flow, n: int) -> int:
        return int(await flow.step("double", double, n))

    @hf.workflow
    async def sums(flow: Flow) -> int:
        numbers = await flow.map("double", double, [{"n": n} for n in range(3)])
        return int(sum(numbers) + await flow.child("one", one, 10))

    instance = await sums.start()
    await drain(hf)
    assert await instance.result() == 26


async def test_a_child_with_a_transaction(hf: Holdfast) -> None:
    @hf.task
    async def double(ctx: TxContext, n: int) -> int:
        return int(await ctx.tx.fetchval("select 2 * $1::int", n))

    @hf.workflow
    async def waits(flow: Flow) -> int:
        return int(await flow.child("double", double, 4))

    instance = await waits.start()
    await drain(hf)
    assert await instance.result(timeout=30) == 8


async def test_an_instance_that_is_not_parked(hf: Holdfast) -> None:
    @hf.workflow
    async def ends(flow: Flow) -> None: ...

    instance = await ends.options(id="a").start()
    with pytest.raises(AssertionError, match="'a' is completed"):
        await run_until_parked(hf, instance)


def test_without_awaiting(hf: Holdfast, shop: Shop) -> None:
    instance = shop.checkout.options(id="checkout:7").start_sync(7)
    assert run_until_parked_sync(hf, instance).waits == ("timer:grace",)
    with frozen_clock(hf) as clock:
        clock.advance_sync("15m")
        assert hf.signal_sync("checkout:7", "shipped", {"by": "air"}) is Signalled.KEPT
        drain_sync(hf)
    assert instance.result_sync() == "shipped"
