"""What workflow instances wait for, run by a real worker."""

from collections.abc import AsyncIterator

import pytest
from tests.explain.real.conftest import QUICK, Scene
from tests.support.causes import cause

from holdfast import Backoff, Flow, Holdfast, Workflow, acting_as

Checkout = Workflow[[str], None]


async def broken() -> None:
    raise ValueError("no luck")


async def nothing() -> None:
    pass


@pytest.fixture
async def checkout(scene: Scene) -> AsyncIterator[Checkout]:
    """A workflow that goes the way it is told, and a worker that runs it."""

    @scene.hf.task(max_attempts=1)
    async def pay() -> None:
        raise ValueError("no luck")

    @scene.hf.workflow(version=1)
    async def checkout(flow: Flow, way: str) -> None:
        if way == "child":
            await flow.child("pay", pay)
        elif way == "retry":
            await flow.step("break", broken, retry=Backoff(base=3600, jitter=0))
        elif way == "undo":
            await flow.step("reserve", nothing, undo=broken)
        if way == "sleep":
            await flow.sleep("grace", "1h")
        else:
            await flow.wait("shipped", timeout="3d")

    async with scene.hf.worker(**QUICK):
        yield checkout


async def started(checkout: Checkout, way: str) -> str:
    id = f"checkout:{way}"
    await checkout.options(id=id).start(way)
    return id


@cause("waits_signal")
async def test_it_waits_for_a_signal(scene: Scene, checkout: Checkout) -> None:
    id = await started(checkout, "signal")
    found = await scene.until(id, "waits_signal")
    assert "checkout:signal waits for the signal shipped since 2" in found.answer.sentence
    assert found.answer.until is not None, "it waits for three days at most"
    await scene.obey(found.answer)
    await scene.until(id, "completed")


@cause("waits_timer", "waits_retry", "instance_paused")
async def test_it_sleeps_waits_for_a_retry_and_is_paused(scene: Scene, checkout: Checkout) -> None:
    asleep, retried = await started(checkout, "sleep"), await started(checkout, "retry")
    found = await scene.until(asleep, "waits_timer")
    assert "checkout:sleep sleeps in grace since 2" in found.answer.sentence and found.answer.until is not None
    found = await scene.until(retried, "waits_retry")
    assert "waits to retry its step break" in found.answer.sentence
    with acting_as("ann@example.org"):
        await scene.hf.pause_instance(asleep)
    found = await scene.until(asleep, "instance_paused")
    assert found.answer.sentence.endswith("Z, by ann@example.org")
    await scene.obey(found.answer)
    await scene.until(asleep, "waits_timer")


@cause("waits_child", "child_dead")
async def test_its_child_is_a_dead_letter(scene: Scene, checkout: Checkout) -> None:
    id = await started(checkout, "child")
    found = await scene.until(id, "child_dead", "waits_child")
    (child,) = await scene.hf.find_jobs(kind="pay", status="dead_letter")
    assert f"checkout:child waits for job {child}, which is a dead letter" in found.answer.sentence
    assert "waits for its child pay" in found.reasons[1].sentence
    await scene.hf.pause("default")
    await scene.obey(found.answer)  # revive it
    await scene.until(id, "paused", "waits_child")


@cause("undoing")
async def test_it_is_cancelled_and_undoes_its_steps(scene: Scene, checkout: Checkout) -> None:
    id = await started(checkout, "undo")
    await scene.until(id, "waits_signal")
    await scene.hf.cancel_instance(id)
    found = await scene.until(id, "undoing", "waits_retry")
    assert "and its finished steps are being undone" in found.answer.sentence


@cause("needs_attention")
async def test_new_code_does_not_fit_its_history(scene: Scene) -> None:
    old, fits = Holdfast(scene.inbox.url), Holdfast(scene.inbox.url)

    async def waits_first(flow: Flow) -> None:
        await flow.wait("shipped", timeout="3d")

    async def steps_first(flow: Flow) -> None:
        await flow.step("another", nothing)

    checkout = old.workflow(name="checkout", version=1)(waits_first)
    scene.hf.workflow(name="checkout", version=1)(steps_first)
    fits.workflow(name="checkout", version=1)(waits_first)
    try:
        async with old.worker(**QUICK):
            await checkout.options(id="checkout:1").start()
            await scene.until("checkout:1", "waits_signal")
        await scene.hf.signal("checkout:1", "shipped")
        async with scene.hf.worker(**QUICK):
            found = await scene.until("checkout:1", "needs_attention")
            assert "the code does not fit the history of checkout:1" in found.answer.sentence
        async with fits.worker(**QUICK):
            await scene.command("workflow", "resume", "checkout:1")
            assert "holdfast workflow resume checkout:1" in (found.answer.remedy or "")
            await scene.until("checkout:1", "completed")
    finally:
        await old.close()
        await fits.close()
