"""A link that went silent without being closed: only a deadline on our side ends the wait."""

import pytest
from tests.support.links import Proxy
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_calls_hit_their_deadline_and_the_worker_recovers_with_the_link(fleet: Fleet) -> None:
    with Proxy(fleet.inbox.url) as proxy:
        worker = fleet.start(url=proxy.url, lease=1.5)
        fleet.inbox.wait(fleet.inbox.enqueue_many("tx_effect", 20))
        child = worker.child
        running = fleet.inbox.enqueue("lost_async")
        fleet.wait_seen(running, "started")
        proxy.silence()
        jobs = fleet.inbox.enqueue_many("tx_effect", 20)
        wait_until(lambda: "no answer within the deadline" in worker.log)
        # Another worker, on a good link, takes over what the silent one can no longer renew.
        other = fleet.start(lease=1.5)
        fleet.inbox.wait([running, *jobs])
        assert other.drain() == 0
        fleet.wait_seen(running, "LeaseLost")
        proxy.speak()
        more = fleet.inbox.enqueue_many("tx_effect", 20)
        fleet.inbox.wait(more)
        assert worker.child == child
        fleet.inbox.check_promises()
