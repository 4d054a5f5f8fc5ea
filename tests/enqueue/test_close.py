"""close() while other threads are in a synchronous call: each gets its job, or is told that the outcome is unknown."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import psycopg
import pytest
from tests.support.pooler import direct
from tests.support.waiting import wait_until

from holdfast import Holdfast, Job, Unreachable
from holdfast.db import portal

T = TypeVar("T")

BLOCKED = """
    select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
"""


def in_a_thread(work: Callable[[], T]) -> Future[T]:
    """Of the future, so that what hangs does not keep the tests from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def waits(connection: psycopg.Connection[Any]) -> None:
    """Return when somebody waits for a lock."""
    with psycopg.connect(connection.info.dsn, password=connection.info.password, autocommit=True) as other:
        wait_until(lambda: bool(other.execute(BLOCKED).fetchone()[0]))  # type: ignore[index]


def test_a_call_under_way_ends_first(migrated_url: str) -> None:
    hf = Holdfast(migrated_url)
    job = hf.task(name="job")(lambda: None)
    with psycopg.connect(direct(migrated_url)) as holder:
        holder.execute("lock table holdfast.inbox in exclusive mode")
        call = in_a_thread(job.enqueue_sync)
        waits(holder)
        closing = in_a_thread(hf.close_sync)
        with pytest.raises(TimeoutError):
            closing.result(0.2)
    assert isinstance(call.result(30), Job)
    closing.result(30)
    with psycopg.connect(direct(migrated_url)) as connection:
        assert connection.execute("select count(*) from holdfast.inbox").fetchone() == (1,)


def test_a_call_that_does_not_end_is_told_so(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portal, "GRACE", 0.2)
    hf = Holdfast(migrated_url)
    job = hf.task(name="job")(lambda: None)
    with psycopg.connect(direct(migrated_url)) as holder:
        holder.execute("lock table holdfast.inbox in exclusive mode")
        call = in_a_thread(job.enqueue_sync)
        waits(holder)
        in_a_thread(hf.close_sync).result(30)
        with pytest.raises(Unreachable, match=r"close\(\) ended this call .* unknown"):
            call.result(30)


def test_threads_that_go_on_while_others_close(migrated_url: str) -> None:
    hf = Holdfast(migrated_url)
    job = hf.task(name="job")(lambda: None)

    def enqueue() -> list[Job]:
        return [job.enqueue_sync() for _ in range(50)]

    def close() -> None:
        for _ in range(25):
            hf.close_sync()

    calls = [in_a_thread(enqueue) for _ in range(4)]
    closing = [in_a_thread(close) for _ in range(2)]
    made = {job.id for call in calls for job in call.result(60)}
    for one in closing:
        one.result(60)
    hf.close_sync()
    with psycopg.connect(direct(migrated_url), autocommit=True) as connection:
        assert {id for (id,) in connection.execute("select id from holdfast.inbox")} == made
        sessions = "select count(*) = 0 from pg_stat_activity where application_name = 'holdfast calls'"
        wait_until(lambda: bool(connection.execute(sessions).fetchone()[0]))  # type: ignore[index]
