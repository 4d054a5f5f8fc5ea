"""A worker of a Django project (examples/django) whose server restarts in the middle of handlers that use the ORM."""

import os
import subprocess
import sys
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pytest
from tests.support.pooler import direct
from tests.support.waiting import wait_until
from tests.support.workers import ROOT, Fleet, Worker

from holdfast.embedded import EmbeddedPostgres

pytestmark = pytest.mark.faults

ORDERS = 8
CONCURRENCY = 8


class Shop:
    """A Django project on the database of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.inbox = fleet, fleet.inbox
        parts = urlsplit(direct(self.inbox.url))
        self.environment = {
            "DJANGO_SETTINGS_MODULE": "examples.django.settings",
            "PGHOST": parts.hostname or "", "PGPORT": str(parts.port or ""), "PGUSER": unquote(parts.username or ""),
            "PGPASSWORD": unquote(parts.password or ""), "PGDATABASE": parts.path.lstrip("/"),
            "HOLDFAST_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",  # the project's settings count
        }  # fmt: skip
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "--run-syncdb", "-v", "0"],
            cwd=ROOT, env={**os.environ, **self.environment}, check=True,
        )  # fmt: skip
        self.inbox.rows(
            "insert into shop_order (email, paid, receipts) select 'a@b.c', true, 0 from generate_series(1, %s)", ORDERS
        )

    def start(self) -> Worker:
        return self.fleet.start(
            app="examples.django.hf:hf", lease=20, concurrency=CONCURRENCY, environment=self.environment
        )

    def enqueue(self, kind: str, max_attempts: int = 5, **arguments: Any) -> list[UUID]:
        """One job for each order."""
        rows = self.inbox.rows(
            "select holdfast.enqueue(%s, jsonb_build_object('order_id', id) || %s::jsonb, queue => 'mail', "
            "max_attempts => %s) as id from shop_order",
            kind, "{" + ", ".join(f'"{name}": {value}' for name, value in arguments.items()) + "}", max_attempts,
        )  # fmt: skip
        ids = [row["id"] for row in rows]
        self.inbox.enqueued += ids
        return ids

    def running(self) -> int:
        return int(self.inbox.one("select count(*) from holdfast.inbox where status = 'processing'"))

    def check(self, jobs: list[UUID], receipts: int) -> None:
        wait_until(lambda: self.inbox.count(jobs, "completed") + self.inbox.count(jobs, "dead_letter") == len(jobs), 60)
        assert self.inbox.count(jobs, "dead_letter") == 0
        assert self.inbox.one("select min(receipts) from shop_order") >= receipts


@pytest.fixture
def shop(own_fleet: Fleet) -> Shop:
    return Shop(own_fleet)


@pytest.mark.parametrize("kind", ["send_receipt", "send_reminder"])
def test_a_restart_in_the_middle_of_handlers(own_postgres: EmbeddedPostgres, shop: Shop, kind: str) -> None:
    shop.start()
    shop.check(shop.enqueue(kind), 1)
    jobs = shop.enqueue(kind, takes=3)  # long enough to be seen together
    wait_until(lambda: shop.running() == ORDERS)
    own_postgres.restart()
    jobs += shop.enqueue(kind)
    shop.check(jobs, 3)


@pytest.mark.parametrize("kind", ["send_receipt", "send_reminder"])
def test_a_restart_between_handlers_costs_no_attempt(own_postgres: EmbeddedPostgres, shop: Shop, kind: str) -> None:
    """Their connections stay open (CONN_MAX_AGE is None), and are checked before they are used again."""
    shop.start()
    shop.check(shop.enqueue(kind, takes=0.3), 1)
    own_postgres.restart()
    jobs = shop.enqueue(kind, max_attempts=1)
    shop.check(jobs, 2)


def test_async_handlers_leave_no_connection_behind(own_postgres: EmbeddedPostgres, shop: Shop) -> None:
    shop.start()
    shop.check(shop.enqueue("send_reminder"), 1)
    theirs = (
        "select count(*) from pg_stat_activity where datname is not null and application_name not like 'holdfast%%'"
    )
    wait_until(lambda: shop.inbox.one(theirs + " and pid <> pg_backend_pid()") == 0)
