"""Attempts whose transaction cannot begin: their handler was not called, and they cost nothing."""

import threading
import time
from contextlib import ExitStack
from uuid import UUID

import psycopg
import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

from holdfast.embedded import EmbeddedPostgres

pytestmark = pytest.mark.faults

SAID = "handlers cannot start a transaction"


def enqueue(fleet: Fleet, count: int) -> list[UUID]:
    rows = fleet.inbox.rows(
        "select holdfast.enqueue('only_try', max_attempts => 1) as id from generate_series(1, %s)", count
    )
    fleet.inbox.enqueued += [row["id"] for row in rows]
    return [row["id"] for row in rows]


def test_an_outage_costs_no_attempt_that_had_not_begun(own_postgres: EmbeddedPostgres, own_fleet: Fleet) -> None:
    fleet = own_fleet
    worker = fleet.start(app="tests.apps.locks:hf", lease=5, concurrency=8)
    jobs = enqueue(fleet, 600)
    for times in (1, 2):
        wait_until(lambda times=times: len(fleet.seen(what="started")) >= 60 * times)  # type: ignore[misc]
        own_postgres.stop()
        threading.Event().wait(1)  # the outage itself
        own_postgres.start()
    wait_until(lambda: fleet.inbox.count(jobs, "pending") + fleet.inbox.count(jobs, "processing") == 0)
    begun = {seen.job for seen in fleet.seen(what="started")}
    dead = [row["id"] for row in fleet.inbox.rows("select id from holdfast.inbox where status = 'dead_letter'")]
    assert [id for id in dead if id not in begun] == [], "dead without having been tried"
    assert len(dead) <= 2 * 8, "at most what was running"
    assert worker.log.count(SAID) <= 2, "one line per outage"
    fleet.inbox.check_promises()


@pytest.mark.direct
def test_a_server_out_of_connections_is_waited_for(own_postgres: EmbeddedPostgres, own_fleet: Fleet) -> None:
    fleet = own_fleet
    fleet.inbox.rows("alter system set max_connections = 30")
    own_postgres.restart()
    worker = fleet.start(app="tests.apps.locks:hf", lease=5)
    with ExitStack() as stack:
        held = psycopg.connect(own_postgres.url, autocommit=True)
        stack.enter_context(held)
        over = time.monotonic() + 2  # by then, nobody who was still starting gives a connection back
        while time.monotonic() < over:
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                while True:
                    stack.enter_context(psycopg.connect(own_postgres.url))
            time.sleep(0.1)
        row = held.execute("select holdfast.enqueue('only_try', max_attempts => 1)").fetchone()
        assert row is not None
        job = row[0]

        def generation() -> int:
            found = held.execute("select lease_generation from holdfast.inbox where id = %s", [job]).fetchone()
            assert found is not None, "it is still waiting"
            return int(found[0])

        wait_until(lambda: generation() >= 3)  # handed back and claimed again
        threading.Event().wait(2)
        assert generation() < 20, "no hot loop"
        assert worker.log.count(SAID) == 1
    fleet.inbox.enqueued.append(job)
    fleet.inbox.wait(job)
    ended = fleet.inbox.job(job)
    assert (ended["attempts"], ended["errors"]) == (1, None)
    wait_until(lambda: worker.log.count("handlers can start transactions again") == 1)
