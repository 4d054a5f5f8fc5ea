"""The server refuses one host and serves the others: what that host cannot renew for a lease is lost to them."""

import re
import secrets
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Inbox

pytestmark = [pytest.mark.faults, pytest.mark.direct]  # a pooler logs in for all of them

LEASE = 1.5


@pytest.fixture
def role(fleet: Fleet) -> Iterator[str]:
    """A role that may do what a worker does."""
    role = f"guest_{secrets.token_hex(4)}"
    inbox = Inbox(fleet.inbox.url)
    inbox.rows(f"create role {role} login password 'x'")
    for objects in ("tables", "sequences", "functions"):
        inbox.rows(f"grant all on all {objects} in schema holdfast to {role}")
    inbox.rows(f"grant usage on schema holdfast to {role}")
    yield role
    for worker in fleet.workers:
        worker.end()
    inbox.rows(f"drop owned by {role}")
    inbox.rows(f"drop role {role}")


def too_many_connections(inbox: Inbox, role: str) -> None:
    inbox.rows(f"alter role {role} connection limit 0")


def read_only(inbox: Inbox, role: str) -> None:
    inbox.rows(f"alter role {role} set default_transaction_read_only = on")


def timed_out(inbox: Inbox, role: str) -> None:
    """What this role writes takes a second, and it has less."""
    inbox.rows(
        "create function slow() returns trigger language plpgsql as $$ begin"
        f" if current_user = '{role}' then perform pg_sleep(1); end if; return null; end $$"
    )
    inbox.rows("create trigger slow before update on holdfast.inbox for each statement execute function slow()")
    inbox.rows(f"alter role {role} set statement_timeout = '100ms'")


@pytest.mark.parametrize(
    ("refuse", "words"),
    [
        (too_many_connections, "too many connections"),
        (read_only, "in a read-only transaction"),
        (timed_out, "canceling statement due to statement timeout"),
    ],
)
def test_a_host_that_the_server_refuses_gives_its_jobs_up(
    fleet: Fleet, role: str, refuse: Callable[[Inbox, str], None], words: str
) -> None:
    place = urlsplit(fleet.inbox.url).netloc.rpartition("@")[2]
    url = urlunsplit(urlsplit(fleet.inbox.url)._replace(netloc=f"{role}:x@{place}"))
    refused = fleet.start(url=url, lease=LEASE)
    job = fleet.inbox.enqueue("lost_async")
    fleet.wait_seen(job, "started")
    fleet.start(lease=LEASE)
    refuse(fleet.inbox, role)
    fleet.inbox.rows("select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", role)
    wait_until(lambda: re.search(f"leases could not be renewed: .*{words}", refused.log) is not None)
    fleet.wait_seen(job, "started", times=2)  # the other host has swept it, and runs it
    fleet.wait_seen(job, "LeaseLost")
    fleet.inbox.wait(job)
    assert fleet.inbox.job(job)["lease_generation"] == 2
