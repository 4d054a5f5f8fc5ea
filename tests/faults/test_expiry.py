"""Expiry with real workers: nothing starts late, nothing runs and expires, also when a worker dies or stands still."""

import os
import signal
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.faults

LEFT = 1.0
SOON = f"""
    create function expire_soon() returns trigger language plpgsql as $$
    begin
        new.expires_at := clock_timestamp() + interval '{LEFT} seconds';
        return new;
    end $$;
    create trigger soon before update on holdfast.inbox for each row
        when (old.status = 'pending' and new.status = 'processing' and new.lease_generation = 1)
        execute function expire_soon()
"""
"""Jobs have a second left when they are first claimed, however long the worker takes to start."""
TOLERATED = 0.5
"""Seconds. A start is noted as the beginning of the handler's transaction: after that, its expiry is checked again."""


@pytest.mark.parametrize("what", ["wakes", "killed", "host killed"])
def test_rows_that_expire_in_the_hands_of_a_worker_never_start(fleet: Fleet, tmp_path: Path, what: str) -> None:
    fleet.inbox.rows(SOON)
    jobs = [fleet.inbox.enqueue("effect") for _ in range(4)]
    marker = tmp_path / "claimed"
    worker = fleet.launch(probes=f"claim.after=stop@{marker}", lease=20 if what != "host killed" else 1.5)
    wait_until(marker.exists, 60)
    if what == "host killed":
        worker.end()  # at once: its supervisor would hand back what is in the hands of a process that stands still
    # Those of a process that stands still may be handed back already, and be ended by its supervisor.
    wait_until(lambda: bool(fleet.inbox.one("select coalesce(bool_and(expires_at < now()), true) from holdfast.inbox")))
    match what:
        case "wakes":
            os.kill(worker.child, signal.SIGCONT)
        case "killed":
            os.kill(worker.child, signal.SIGKILL)
        case _:
            fleet.start()
    fleet.inbox.wait(jobs, "expired")
    assert fleet.seen() == []
    rows = [fleet.inbox.job(id) for id in jobs]
    # An expired lease is a failed attempt, as for any job: its worker may have started it.
    assert {row["attempts"] for row in rows} == {int(what == "host killed")}
    assert {"LeaseExpired" in row["last_error"] for row in rows} == {what == "host killed"}
    fleet.inbox.check_promises()


def test_expiry_racing_the_claims_of_workers(fleet: Fleet) -> None:
    """Each job runs once or expires once, and none starts late by the database's clock."""
    fleet.inbox.rows("alter table effects add column at timestamptz default now()")
    for _ in range(2):
        fleet.start(processes=2, housekeeping=0.1, lease=20)
    fleet.inbox.rows(
        "create table planned as select holdfast.enqueue('tx_effect', expires_at => soon.at) as id, soon.at from "
        "(select clock_timestamp() + random() * interval '1.5 s' as at from generate_series(1, 2000) offset 0) soon"
    )
    wait_until(lambda: not fleet.inbox.one("select exists (select from holdfast.inbox)"), 60)
    rows = fleet.inbox.rows(
        "select p.id, j.status::text, j.attempts, p.at, count(e.job) as starts, max(e.at) as started "
        "from planned p join holdfast.jobs j using (id) left join effects e on e.job = p.id group by 1, 2, 3, 4"
    )
    assert len(rows) == 2000
    assert {(row["status"], row["attempts"], row["starts"]) for row in rows} == {("completed", 1, 1), ("expired", 0, 0)}
    late = [(row["started"] - row["at"]).total_seconds() for row in rows if row["starts"]]
    assert max(late) < TOLERATED, "no attempt starts after its expiry"
    assert 0 < len(late) < 2000, "it was a race"


def test_a_paused_queue_and_an_ordered_key_with_an_expired_head(fleet: Fleet) -> None:
    def enqueue(kind: str, options: str) -> UUID:
        id: UUID = fleet.inbox.one(f"select holdfast.enqueue('{kind}', {options})")
        fleet.inbox.enqueued.append(id)
        return id

    fleet.inbox.rows("insert into holdfast.queues (name, paused_at) values ('paused', now())")
    paused = enqueue("effect", "queue => 'paused', expires => '1 s'")
    unknown = enqueue("nobody_knows", "expires => '1 s'")
    head = enqueue("nobody_knows", "key => 'k', ordered => true, expires => '1 s'")
    behind = [enqueue("effect", "key => 'k', ordered => true") for _ in range(3)]
    worker = fleet.start(options=("-q", "default", "-q", "paused"))
    fleet.inbox.wait([paused, unknown, head], "expired")
    fleet.inbox.wait(behind)
    assert [seen.job for seen in fleet.seen(what="effect")] == behind
    wait_until(
        lambda: "2 jobs of nobody_knows on queue default expired" in worker.log or worker.log.count("nobody_knows") >= 2
    )
    fleet.inbox.check_promises()
