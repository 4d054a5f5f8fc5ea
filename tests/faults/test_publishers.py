"""SIGKILL to a process that publishes, around its commit: the event and its delivery are stored together, or neither.

The commit is held back by a trigger that runs in it, and waits for a lock of the test.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.apps.publisher import NAME
from tests.support.pooler import direct
from tests.support.waiting import wait_until
from tests.support.workers import ROOT, Inbox

pytestmark = pytest.mark.faults

HELD_BACK = """
create function public.wait_for_the_test() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(4711);
    return null;
end
$$;
create constraint trigger wait_for_the_test after insert on holdfast.inbox deferrable initially deferred
    for each row execute function public.wait_for_the_test();
"""
WAITING = "select count(*) from pg_locks where locktype = 'advisory' and objid = 4711 and not granted"


@pytest.mark.parametrize("how", ["call", "transaction"])
@pytest.mark.parametrize("dies", ["before the server has committed", "before it knows of the commit"])
def test_a_publisher_dies_at_its_commit(inbox: Inbox, how: str, dies: str) -> None:
    event = uuid4()
    with commits_held_back(inbox) as let_go, publishing(inbox, how, event) as publisher:
        wait_until(lambda: inbox.one(WAITING) == 1, 60)
        if dies == "before the server has committed":
            kill(publisher)
        else:
            publisher.send_signal(signal.SIGSTOP)
            os.waitpid(publisher.pid, os.WUNTRACED)
        assert stored(inbox, event) == (0, 0)
        let_go()
        wait_until(lambda: stored(inbox, event) != (0, 0))
        kill(publisher)
        assert publisher.communicate()[0] == b"", "it has not heard of the commit"
    assert stored(inbox, event) == (1, 1)
    assert publish(inbox, how, event) == "existed"
    assert stored(inbox, event) == (1, 1)


def test_a_publisher_dies_before_it_commits(inbox: Inbox, tmp_path: Path) -> None:
    event, marker = uuid4(), tmp_path / "published"
    with publishing(inbox, "transaction", event, str(marker)) as publisher:
        wait_until(marker.exists, 60)
        kill(publisher)
    wait_until(lambda: inbox.one("select count(*) from pg_stat_activity where application_name = %s", NAME) == 0)
    assert stored(inbox, event) == (0, 0)
    assert publish(inbox, "transaction", event) == "new"
    assert stored(inbox, event) == (1, 1)


def stored(inbox: Inbox, event: UUID) -> tuple[int, int]:
    """How many events there are of this id, and deliveries of it."""
    events = inbox.one("select count(*) from holdfast.events where id = %s", event)
    return events, inbox.one("select count(*) from holdfast.outbox where event = %s and route = 'bus'", event)


@contextmanager
def commits_held_back(inbox: Inbox) -> Iterator[Callable[[], object]]:
    """Until what it yields is called."""
    inbox.rows(HELD_BACK)
    with psycopg.connect(direct(inbox.url), autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(4711)")
        yield lambda: holder.execute("select pg_advisory_unlock(4711)")


@contextmanager
def publishing(inbox: Inbox, how: str, event: UUID, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.apps.publisher", how, str(event), direct(inbox.url), *more]
    variables = {**os.environ, "HOLDFAST_DATABASE_URL": inbox.url}
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            kill(process)


def publish(inbox: Inbox, how: str, event: UUID) -> str:
    """Publish it to the end; what the publisher says."""
    with publishing(inbox, how, event) as publisher:
        said, _ = publisher.communicate(timeout=60)
        assert publisher.returncode == 0
    return said.decode().strip()


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait(30)
