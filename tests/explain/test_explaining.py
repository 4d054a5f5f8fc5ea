"""What explain says, in which words and in which order, about rows that are written for the purpose.

Each cause is brought about for real in `real/`. Here are the combinations and the words that would take long there.
"""

import json
import re
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
from tests.explain.conftest import Place
from tests.support.pooler import direct

from holdfast import Fail, Holdfast, Retry, Snooze, acting_as
from holdfast.model.ring import Ring
from holdfast.schema.migrate import newest
from holdfast.testing import drain_sync

# 1. What nothing will change


def test_unknown(place: Place) -> None:
    id = uuid4()
    found = place.why(id)
    assert (found.id, found.answer.code, found.asked) == (None, "unknown", str(id))
    assert str(id) in found.answer.sentence
    assert place.codes("checkout:404") == ["unknown"]


def test_the_schema_is_newer(place: Place) -> None:
    id = place.enqueue()
    assert place.codes(id) == ["no_worker"]
    place.rows("insert into holdfast.migrations (version, name, oldest) values (9001, 'later', 8000)")
    try:
        assert place.codes(id) == ["schema_newer", "no_worker"]
        assert "migration 9001 is not compatible" in place.why(id).answer.sentence
        place.rows("update holdfast.migrations set oldest = %s where version = 9001", newest())
        assert place.codes(id) == ["no_worker"], "it says that it is compatible"
    finally:
        place.rows("delete from holdfast.migrations where version = 9001")


def test_the_schema_is_older(place: Place) -> None:
    id = place.enqueue()
    (row,) = place.rows("delete from holdfast.migrations where version = %s returning name, oldest", newest())
    try:
        found = place.why(id)
        assert [reason.code for reason in found.reasons] == ["schema_older", "no_worker"]
        assert found.answer.remedy == "holdfast migrate"
    finally:
        place.rows(
            "insert into holdfast.migrations (version, name, oldest) values (%s, %s, %s)", newest(), *row.values()
        )


async def test_there_is_no_schema(database_url: str) -> None:
    hf = Holdfast(database_url)
    try:
        found = await hf.explain(uuid4())
        assert found.answer.code == "schema_older"
        assert "is missing" in found.answer.sentence
    finally:
        await hf.close()


def test_ended(place: Place) -> None:
    app = Holdfast(place.url)

    @app.task(name="ends", queue=place.queue)
    def ends(how: str) -> None:
        if how == "fail":
            raise Fail("the card was stolen")

    good, bad = ends.enqueue_sync("well"), ends.enqueue_sync("fail")
    stopped = ends.options(delay="1h").enqueue_sync("never")
    drain_sync(app, queues=[place.queue])
    assert place.codes(good.id) == ["completed"]
    assert place.codes(bad.id) == ["failed"]
    assert "the card was stolen" in place.why(bad.id).answer.sentence
    with acting_as("ann@example.org"):
        app.cancel_sync(stopped.id, "ordered twice")
    app.close_sync()
    found = place.why(stopped.id)
    assert (found.answer.code, found.status) == ("cancelled", "cancelled")
    assert "(ordered twice)" in found.answer.sentence
    assert "by ann@example.org" in found.answer.sentence


def test_expired_and_discarded(place: Place) -> None:
    late = place.set(place.enqueue(), expires_at="now() - interval '1 s'")
    assert place.codes(late)[0] == "has_expired"
    place.rows("select * from holdfast.expire_jobs(array[%s])", late)
    assert place.codes(late) == ["expired"]
    dead = place.set(place.enqueue(), status="'dead_letter'", dead_at="now()")
    with acting_as("ann@example.org"):
        place.hf.discard_sync([dead])
    assert place.codes(dead) == ["discarded"]
    assert "by ann@example.org" in place.why(dead).answer.sentence


def test_dead_letters_and_those_alike(place: Place) -> None:
    app = Holdfast(place.url)

    @app.task(name="breaks", queue=place.queue, max_attempts=1)
    def breaks() -> None:
        raise ValueError("no luck")

    dead = breaks.enqueue_sync()
    drain_sync(app, queues=[place.queue], errors="retry")
    app.close_sync()
    found = place.why(dead.id)
    assert found.answer.code == "dead_letter"
    assert "after 1 of 1 attempts" in found.answer.sentence and "ValueError: no luck" in found.answer.sentence
    assert f"holdfast dead revive {dead.id}" in (found.answer.remedy or "")
    place.set(dead.id, error_group="'g1'")
    for _ in range(2):
        place.set(place.enqueue(), status="'dead_letter'", dead_at="now()", error_group="'g1'")
    assert "(2 other dead letters have the same error)" in place.why(dead.id).answer.sentence
    place.hf.revive_sync([dead.id])
    assert place.codes(dead.id) == ["no_worker"]


# 2. What happens to it now. A worker that is stopped for real is in test_stopped.py.


def held(place: Place, lease: str, **columns: str) -> UUID:
    return place.set(
        place.enqueue(), status="'processing'", claimed_by="'w1'", claimed_at="now()", attempts="1",
        lease_generation="1", lease_expires_at=f"now() + interval '{lease}'", **columns,
    )  # fmt: skip


def test_its_owner_is_not_in_the_registry(place: Place) -> None:
    id = held(place, "1 h")
    assert "which was not in the registry" in place.why(id).answer.sentence
    place.worker()
    assert place.codes(id) == ["runs"]
    place.hf.cancel_sync(id)
    assert "told to stop" in place.why(id).answer.sentence


def test_the_lease_is_over(place: Place) -> None:
    id = held(place, "-5 s")
    assert place.codes(id) == ["nobody_sweeps"]
    place.worker("another")
    found = place.why(id)
    assert found.answer.code == "lease_over"
    assert "nothing was ever swept" in found.answer.sentence and "it is retried" in found.answer.sentence
    place.set(id, attempts="5")
    assert "it becomes a dead letter" in place.why(id).answer.sentence
    place.rows("insert into holdfast.chores (name, ran_at, result) values ('sweep', now(), '{\"error\": \"denied\"}')")
    assert place.codes(id) == ["sweep_fails"]


def test_a_session_locks_the_row(place: Place) -> None:
    id = held(place, "-3 m")
    place.worker("another")
    place.rows("insert into holdfast.chores (name, ran_at, result) values ('sweep', now(), '{}')")
    with psycopg.connect(direct(place.url)) as holder:
        holder.execute("select from holdfast.inbox where id = %s for update", [id])
        assert place.codes(id) == ["row_locked"], "and explain itself waits for nobody"


# 3. What somebody must do


def test_no_type_and_no_attempt_left(place: Place) -> None:
    id = place.set(place.enqueue(), kind="null", payload="'{}'")
    assert place.codes(id) == ["no_type"]
    spent = place.set(place.enqueue(), attempts="5")
    assert place.codes(spent)[0] == "no_attempt_left"


def test_paused(place: Place) -> None:
    id = place.enqueue()
    place.worker()
    assert place.codes(id) == ["due"]
    with acting_as("ann@example.org"):
        place.hf.pause_sync(place.queue)
    found = place.why(id)
    assert [reason.code for reason in found.reasons] == ["paused"]
    assert found.answer.remedy == f"holdfast queue resume {place.queue}"
    assert found.answer.sentence.endswith("Z, by ann@example.org")
    place.hf.resume_sync(place.queue)
    assert place.codes(id) == ["due"]


def test_no_worker_of_any_sort(place: Place) -> None:
    id = place.set(place.enqueue(), payload_version="3")
    assert place.codes(id) == ["no_worker"]
    place.worker(silent=45)
    assert re.search(r"w1 was last seen (4[5-9]|5\d)\b", place.why(id).answer.sentence)
    place.worker(queues=["elsewhere"])
    assert place.codes(id) == ["no_worker_on_queue"]
    place.worker(kinds={"other": [1, 1]})
    assert place.codes(id) == ["no_worker_for_kind"]
    place.worker(kinds={"job": [1, 2]})
    assert place.codes(id) == ["no_worker_for_version"]
    assert "they know versions 1 to 2" in place.why(id).answer.sentence
    place.worker(kinds={"job": [1, 3]}, status="draining")
    assert place.codes(id) == ["all_draining"]
    place.worker(kinds={"job": [1, 3]})
    assert place.codes(id) == ["due"]


def test_a_registry_that_was_written_by_hand_is_no_error(place: Place) -> None:
    id = place.enqueue()
    for kinds in ('{"job": "all"}', '{"job": [1]}', '{"job": ["a", "b"]}', "[]", "3"):
        place.worker(kinds=json.loads(kinds), concurrency="many")
        assert place.codes(id) == ["no_worker_for_kind"]
    place.worker(concurrency="many", counters=[])
    assert place.codes(id) == ["due"]


# 4. What it waits for


def test_scheduled(place: Place) -> None:
    place.worker()
    id = place.set(place.enqueue(), available_at="now() + interval '1 h'")
    found = place.why(id)
    assert found.answer.code == "scheduled"
    assert found.answer.until is not None and found.answer.until - found.at > timedelta(minutes=59)
    place.hf.run_now_sync([id])
    assert place.codes(id) == ["due"]


def test_retried_and_snoozed(place: Place) -> None:
    place.worker(kinds={"stumbles": [1, 1]})
    app = Holdfast(place.url)
    endings = [Snooze("1h"), Retry("1h"), Snooze("1h")]

    @app.task(name="stumbles", queue=place.queue)
    def stumbles() -> None:
        raise endings.pop(0)

    job = stumbles.enqueue_sync()
    seen = []
    for _ in range(3):
        drain_sync(app, queues=[place.queue], errors="retry")
        seen.append(place.codes(job.id))
        app.run_now_sync([job.id])
    app.close_sync()
    assert seen == [["snoozed"], ["retry"], ["snoozed"]]


def ordered(place: Place, **columns: str) -> UUID:
    id = place.enqueue(key="order:1", ordered=True)
    return place.set(id, **columns) if columns else id


def test_behind_the_head_of_its_key(place: Place) -> None:
    place.worker()
    first = ordered(place, available_at="now() + interval '1 h'", attempts="1", lease_generation="1")
    second, third = ordered(place), ordered(place)
    assert [head.id for head in [place.why(third).head] if head] == [first], "not the one before it"
    place.rows("delete from holdfast.inbox where id = %s", third)
    found = place.why(second)
    assert [reason.code for reason in found.reasons] == ["behind"]
    assert found.head is not None and (found.head.id, found.head.answer.code) == (first, "retry")
    assert str(first) in found.answer.sentence and found.answer.until == found.head.answer.until
    place.set(first, status="'processing'", claimed_by="'w1'", lease_expires_at="now() + interval '1 m'")
    place.set(second, status="'blocked'")
    found = place.why(second)
    assert found.head is not None and found.head.answer.code == "runs"
    place.rows("delete from holdfast.inbox where id = %s", first)
    assert place.codes(second) == ["unblocks"]
    place.set(second, status="'pending'")
    assert place.codes(second) == ["due"]


def test_the_owner_of_its_bucket(place: Place) -> None:
    id = place.set(place.enqueue(), owned="true", partition_bucket="17")
    place.worker("w1")
    place.worker("w2")
    owner = Ring(["w1", "w2"]).owner(17) or ""
    assert f"in a bucket of worker {owner}" in place.why(id).answer.sentence
    place.worker(owner, silent=20)
    assert place.codes(id) == ["owner_quiet"]
    place.worker(owner, kinds={"other": [1, 1]})
    found = place.why(id)
    assert found.answer.code == "owner_cannot"
    assert f"holdfast workers drain {owner}" in (found.answer.remedy or "")
    place.worker(owner, silent=31)
    assert place.codes(id) == ["due"], "the other one owns it now"


def test_it_runs_alone(place: Place) -> None:
    place.worker()
    assert place.codes(place.set(place.enqueue(), crashes="1")) == ["isolation"]


# 5. It is due


def test_due_and_all_hands_busy(place: Place) -> None:
    earlier = [place.enqueue() for _ in range(3)]
    id = place.enqueue()
    place.worker(counters={"running": 1})
    found = place.why(id)
    assert "3 jobs of its priority are ahead of it, and 1 of 4 handler slots are in use" in found.answer.sentence
    assert "it is next in its queue, at its priority" in place.why(earlier[0]).answer.sentence
    place.worker(counters={"running": 4})
    found = place.why(id)
    assert found.answer.code == "hands_busy"
    assert "all 4 handler slots of the one worker that can run it are in use" in found.answer.sentence
    assert "--concurrency" in (found.answer.remedy or "")


# Workflows and events are in test_waiting.py
