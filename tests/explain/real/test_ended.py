"""Jobs that nothing will change: each has come to its end in the way that users have."""

from uuid import uuid4

import psycopg
from tests.explain.real.conftest import QUICK, Scene
from tests.support.causes import cause
from tests.support.pooler import direct

from holdfast import Fail, acting_as


@cause("unknown")
async def test_a_job_whose_enqueue_has_not_committed_is_unknown(scene: Scene) -> None:
    async with await psycopg.AsyncConnection.connect(direct(scene.inbox.url)) as producer:
        cursor = await producer.execute("select holdfast.enqueue('job')")
        ((id,),) = await cursor.fetchall()
        found = await scene.why(id)
        assert (found.id, found.answer.code) == (None, "unknown")
        assert "its enqueue has not committed" in found.answer.sentence
        await producer.commit()
        assert (await scene.why(id)).answer.code == "no_worker"
    assert await scene.codes(uuid4()) == await scene.codes("checkout:404") == ["unknown"]


@cause("completed", "failed", "cancelled")
async def test_jobs_that_a_worker_ran_or_somebody_cancelled(scene: Scene) -> None:
    @scene.hf.task
    async def ends(how: str) -> None:
        if how == "badly":
            raise Fail("the card was stolen")

    later = await ends.options(delay="1h").enqueue("never")
    with acting_as("ann@example.org"):
        await scene.hf.cancel(later.id, "ordered twice")
    async with scene.hf.worker(**QUICK) as worker:
        well, badly = await ends.enqueue("well"), await ends.enqueue("badly")
        found = await scene.until(well.id, "completed")
        assert found.answer.sentence.endswith(f"Z on worker {worker.name}") and found.answer.remedy is None
        found = await scene.until(badly.id, "failed")
        assert "the card was stolen" in found.answer.sentence
    found = await scene.until(later.id, "cancelled")
    assert "by ann@example.org (ordered twice)" in found.answer.sentence


@cause("has_expired", "expired")
async def test_a_job_that_nobody_started_in_time(scene: Scene) -> None:
    @scene.hf.task(expires="50ms")
    async def urgent() -> None: ...

    job = await urgent.enqueue()
    found = await scene.until(job.id, "has_expired", "no_worker")
    assert "the next claim, or housekeeping, ends it" in found.answer.sentence
    async with scene.hf.worker(**QUICK):
        found = await scene.until(job.id, "expired")
    assert "before it started" in found.answer.sentence


@cause("dead_letter", "discarded")
async def test_dead_letters_that_failed_alike_and_what_becomes_of_them(scene: Scene) -> None:
    works = False

    @scene.hf.task(max_attempts=1)
    async def charge(card: int) -> None:
        if not works:
            raise ValueError(f"card {card} was refused")

    async with scene.hf.worker(**QUICK):
        one, other = await charge.enqueue(1), await charge.enqueue(2)
        await scene.until(other.id, "dead_letter")
        found = await scene.until(one.id, "dead_letter")
        assert "after 1 of 1 attempts (1 other dead letter has the same error)" in found.answer.sentence
        assert "ValueError: card 1 was refused" in found.answer.sentence
        works = True
        await scene.obey(found.answer)  # revive
        await scene.until(one.id, "completed")
    with acting_as("ann@example.org"):
        await scene.hf.discard([other.id])
    found = await scene.until(other.id, "discarded")
    assert "by ann@example.org" in found.answer.sentence and "card 2 was refused" in found.answer.sentence


@cause("no_type")
async def test_a_producer_in_sql_forgets_the_type(scene: Scene) -> None:
    """Producers may write rows by hand: docs/sql.md. This one is such a producer, with a mistake."""

    @scene.hf.task
    async def send() -> None: ...

    id = scene.inbox.one(
        """insert into holdfast.inbox (partition_key, partition_bucket, payload)
           values ('order:1', holdfast.bucket('order:1'), '{"order_id": 1}') returning id"""
    )
    async with scene.hf.worker(**QUICK):
        found = await scene.until(id, "no_type")
        assert 'its payload has no "type"' in found.answer.sentence
        await scene.obey(found.answer)
        await scene.until(id, "cancelled")
