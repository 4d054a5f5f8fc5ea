"""The server goes away and comes back. A pause, not an exit: nothing lost, nothing doubled through `ctx.tx`."""

import threading
from collections.abc import Callable
from uuid import UUID

import psycopg
import pytest
from tests.support.links import Proxy
from tests.support.pooler import direct, wants_pooler
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

from holdfast.embedded import EmbeddedPostgres

pytestmark = pytest.mark.faults


class Producer(threading.Thread):
    """Enqueues under ids of its own until told to stop; notes what was acknowledged, and repeats what was not.

    Every other job writes through `ctx.tx`.
    """

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(daemon=True)
        self.fleet = fleet
        self.acknowledged: list[UUID] = []
        self.over = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            id = UUID(int=number)
            while not self._enqueue(id):
                self.over.wait(0.05)
            self.acknowledged.append(id)

    def _enqueue(self, id: UUID) -> bool:
        try:
            with psycopg.connect(direct(self.fleet.inbox.url), connect_timeout=5) as connection:
                kind = "tx_effect" if id.int % 2 else "quick"
                connection.execute("select holdfast.enqueue(%s, '{}', id => %s)", [kind, id])
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> list[UUID]:
        self.over.set()
        self.join(60)
        self.fleet.inbox.enqueued = list(self.acknowledged)
        return self.acknowledged


def under_load(fleet: Fleet, fault: Callable[[], None], times: int) -> None:
    """Strike `times` times while work is enqueued and done, then see that everything ends, once."""
    workers = [fleet.start(lease=2), fleet.start(lease=2)]
    children = [worker.child for worker in workers]
    producer = Producer(fleet)
    producer.start()
    for _ in range(times):
        goal = len(producer.acknowledged) + 30
        wait_until(lambda goal=goal: len(producer.acknowledged) >= goal)  # type: ignore[misc]
        fault()
    goal = len(producer.acknowledged) + 30
    wait_until(lambda: len(producer.acknowledged) >= goal)
    jobs = producer.stop()
    fleet.inbox.wait(jobs)
    fleet.inbox.check_promises()
    written = sum(1 for job in jobs if job.int % 2)
    assert fleet.inbox.one("select count(*) = count(distinct job) and count(*) = %s from effects", written)
    assert [worker.child for worker in workers] == children, "no process had to be started again"


def test_the_server_is_killed_and_restarted_under_load(own_postgres: EmbeddedPostgres, own_fleet: Fleet) -> None:
    def crash() -> None:
        own_postgres.kill()
        own_postgres.start()

    under_load(own_fleet, crash, times=3)


def test_the_server_is_restarted_politely_under_load(own_postgres: EmbeddedPostgres, own_fleet: Fleet) -> None:
    under_load(own_fleet, own_postgres.restart, times=2)


def test_every_connection_of_the_workers_is_cut_under_load(fleet: Fleet) -> None:
    def cut() -> None:
        rows = fleet.inbox.rows(
            "select split_part(application_name, ' ', 2) as purpose, pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'holdfast%%'"
        )
        cut_once.update(row["purpose"] for row in rows)

    cut_once: set[str] = set()
    under_load(fleet, cut, times=5)
    # Behind a pooler they are the pooler's, and have no purpose of their own.
    expected = {"claim", "write", "keeper", "housekeeping", "handler", "listen"}
    assert cut_once >= ({""} if wants_pooler() else expected)


def test_jobs_that_run_through_an_outage_keep_their_lease(own_postgres: EmbeddedPostgres, own_fleet: Fleet) -> None:
    # The outage outlasts the lease; the work goes on, and when the server is back its keeper comes before the sweep.
    fleet = own_fleet
    job = fleet.inbox.enqueue("sleep_async", seconds=6)
    fleet.start(lease=1.5)
    fleet.start(lease=1.5)
    fleet.wait_seen(job, "started")
    own_postgres.stop()
    began = fleet.seen(job, "started")
    wait_until(lambda: any("could not be renewed" in worker.log for worker in fleet.workers))
    threading.Event().wait(2)  # the outage itself: longer than the lease
    own_postgres.start()
    fleet.inbox.wait(job)
    assert fleet.seen(job, "started") == began, "it ran once"
    assert fleet.inbox.job(job)["attempts"] == 1
    fleet.inbox.check_promises()


@pytest.mark.parametrize("processes", [1, 3])
def test_an_outage_that_holds_the_first_calls_back_and_refuses_the_others(fleet: Fleet, processes: int) -> None:
    def all_leases(are: str) -> bool:
        statement = "select count(*) from holdfast.inbox where status = 'processing' and lease_expires_at "
        return bool(fleet.inbox.one(statement + are) == processes)

    gate = fleet.folder / "gate"
    with Proxy(fleet.inbox.url) as proxy:
        worker = fleet.start(url=proxy.url, lease=1.5, concurrency=1, processes=processes)
        jobs = [fleet.inbox.enqueue("hold", gate=str(gate)) for _ in range(processes)]
        wait_until(lambda: all_leases("> claimed_at + interval '1.6 s'"))  # the keeper has a link
        proxy.silence(refuse=True)
        wait_until(lambda: "leases could not be renewed: cannot reach the server" in worker.log)
        wait_until(lambda: all_leases("< now() - interval '0.5 s'"))  # the outage outlasts the leases
        proxy.speak()
        wait_until(lambda: all_leases("> now()"))
        gate.touch()
        fleet.inbox.wait(jobs)
        for job in jobs:
            assert len(fleet.seen(job, "started")) == 1, "it ran once"
            assert fleet.inbox.job(job)["attempts"] == 1
        fleet.inbox.check_promises()
