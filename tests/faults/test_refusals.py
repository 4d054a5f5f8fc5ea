"""A worker refuses what it could not keep its promises on: clearly, at once, and without trying for ever."""

import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Inbox, running_fleet

from holdfast.embedded import EmbeddedPostgres

pytestmark = pytest.mark.faults

CONFIGURATION = 78


def refused(fleet: Fleet, *words: str) -> None:
    worker = fleet.launch()
    assert worker.wait(30) == CONFIGURATION, worker.log
    for word in words:
        assert word in worker.log
    assert worker.log.count(words[0]) == 1, "said once, by one process"
    assert "Traceback" not in worker.log


def test_a_database_without_the_schema(database_url: str, tmp_path: Path) -> None:
    with running_fleet(database_url, tmp_path) as fleet:
        refused(fleet, "There is no schema", "holdfast migrate")


def test_a_schema_newer_than_this_release(fleet: Fleet) -> None:
    fleet.inbox.rows("insert into holdfast.migrations (version, name) values (9999, 'from the future')")
    refused(fleet, "at version 9999", "Install a newer holdfast")


def test_a_database_whose_commits_are_not_durable(fleet: Fleet) -> None:
    fleet.inbox.rows(
        "do $$ begin execute format('alter database %%I set synchronous_commit = off', current_database()); end $$"
    )
    refused(fleet, "synchronous_commit is off")


@pytest.mark.slow
def test_a_server_that_may_forget_a_commit(tmp_path: Path) -> None:
    with EmbeddedPostgres(settings={"fsync": "off"}) as server, running_fleet(server.url, tmp_path) as fleet:
        refused(fleet, "fsync is off")


def test_a_database_that_does_not_exist(fleet: Fleet) -> None:
    fleet.inbox.url += "_missing"
    refused(fleet, "does not exist", "createdb")


@pytest.fixture
def stranger(fleet: Fleet) -> Iterator[str]:
    """A role that may log in, and nothing else; the address under its name."""
    role, owner = f"stranger_{secrets.token_hex(4)}", fleet.inbox.url
    fleet.inbox.rows(f"create role {role} login password 'x'")
    place = urlsplit(owner).netloc.rpartition("@")[2]
    yield urlunsplit(urlsplit(owner)._replace(netloc=f"{role}:x@{place}"))
    Inbox(owner).rows(f"drop owned by {role}")
    Inbox(owner).rows(f"drop role {role}")


def test_a_role_without_rights_on_the_schema(fleet: Fleet, stranger: str) -> None:
    fleet.inbox.url = stranger
    refused(fleet, "permission denied for schema", "docs/sql.md#roles")


def test_a_role_that_may_only_look(fleet: Fleet, stranger: str) -> None:
    role = urlsplit(stranger).username
    fleet.inbox.rows(f"grant usage on schema holdfast to {role}")
    fleet.inbox.rows(f"grant select on all tables in schema holdfast to {role}")
    fleet.inbox.url = stranger
    refused(fleet, "permission denied for table", "docs/sql.md#roles")


def test_a_role_that_may_not_connect(fleet: Fleet, stranger: str) -> None:
    fleet.inbox.rows(
        "do $$ begin execute format('revoke connect on database %%I from public', current_database()); end $$"
    )
    fleet.inbox.url = stranger
    refused(fleet, "permission denied for database", "docs/sql.md#roles")


@pytest.mark.direct
@pytest.mark.parametrize("setting", ["nonsense", "shared_buffers"])
def test_options_that_the_server_does_not_take(fleet: Fleet, setting: str) -> None:
    fleet.inbox.url += f"?options=-c%20{setting}%3D1"
    refused(fleet, "rejected the URL's options", setting)


def test_a_server_that_comes_later(own_postgres: EmbeddedPostgres, own_fleet: Fleet) -> None:
    job = own_fleet.inbox.enqueue("effect")
    own_postgres.stop()
    worker = own_fleet.launch()
    wait_until(lambda: "cannot reach the server" in worker.log)
    own_postgres.start()
    own_fleet.inbox.wait(job)
    assert worker.drain() == 0
    assert "Traceback" not in worker.log


def test_a_worker_that_served_before_waits_for_the_schema_to_fit_again(fleet: Fleet) -> None:
    # During a deploy the schema may be ahead for a while; whoever was serving is not ended by that.
    worker = fleet.start()
    fleet.inbox.wait(fleet.inbox.enqueue("effect"))
    fleet.inbox.rows("insert into holdfast.migrations (version, name) values (9999, 'from the future')")
    os.kill(worker.child, signal.SIGKILL)
    wait_until(lambda: "Install a newer holdfast" in worker.log)
    fleet.inbox.rows("delete from holdfast.migrations where version = 9999")
    fleet.inbox.wait(fleet.inbox.enqueue("effect"))
    assert worker.drain() == 0
