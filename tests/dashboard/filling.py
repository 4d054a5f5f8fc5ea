"""An installation in which there is something to see on every page."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.workers import Inbox

from holdfast import Flow, Holdfast
from holdfast.testing import run_until_parked

HOSTILE = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>"\'`{{7*7}}${7*7}'
SECRET = "hunter2-hunter2"
WORKERS = ("web-1-411-aa", "web-1-412-bb", "web-2-77-cc")


def fill(inbox: Inbox, dead: int = 12) -> None:
    """All but workflows: jobs in every state, dead letters, workers, numbers, a journal."""
    rows = inbox.rows
    for name, count, queue in (("send_receipt", 40, "mail"), ("resize", 9, "images"), ("charge", 3, "ledger")):
        rows("select holdfast.enqueue(%s, jsonb_build_object('order', n), queue => %s) from generate_series(1, %s) n",
             name, queue, count)  # fmt: skip
    rows("select holdfast.enqueue('nightly', '{}', delay => interval '2 hours', queue => 'reports')")
    rows(
        "update holdfast.inbox set attempts = 2, available_at = now() + interval '90 seconds', errors = %s::jsonb,"
        " last_error = 'Timeout: slow'"
        " where id in (select id from holdfast.inbox where kind = 'send_receipt' limit 5)",
        errors(2),
    )
    rows(
        "update holdfast.inbox set status = 'processing', attempts = 1, claimed_by = %s, lease_generation = 1,"
        " claimed_at = now() - interval '4 s', lease_expires_at = now() + interval '30 s',"
        " fence = nextval('holdfast.fence')"
        " where id in (select id from holdfast.inbox where kind = 'resize' limit 4)",
        WORKERS[0],
    )
    bury(inbox, dead)
    for _ in range(3):
        rows("select holdfast.enqueue('credit', '{}', queue => 'ledger', key => 'account:7', ordered => true)")
    register(inbox)
    remember(inbox)
    rows("insert into holdfast.queues (name, paused_at) values ('images', now() - interval '12 minutes')")
    rows("insert into holdfast.queues (name, owned) values ('mail', true)")


def errors(count: int, error: str = "ConnectionError: mail.example:25 refused") -> str:
    name, _, message = error.partition(": ")
    return json.dumps(
        [
            {
                "error": name,
                "message": message,
                "trace": f"Traceback …\n  send()\n{error}",
                "attempt": n + 1,
                "generation": n + 1,
                "worker": WORKERS[0],
                "at": (datetime.now(UTC) - timedelta(minutes=30 - 10 * n)).isoformat(),
            }
            for n in range(count)
        ]
    )


def bury(inbox: Inbox, count: int, kind: str = "send_receipt", error: str = "ConnectionError: mail.example:25 refused",
         group: str = "g1", queue: str = "mail") -> None:  # fmt: skip
    """Dead letters, as fast as the server can."""
    inbox.rows(
        "insert into holdfast.inbox (id, partition_key, partition_bucket, queue, payload, kind, status, attempts,"
        " max_attempts, dead_at, last_error, errors, error_group, created_at)"
        " select x.id, x.id::text, 1, %s,"
        " jsonb_build_object('type', %s::text, 'order', x.n, 'card', jsonb_build_object('token', %s::text)),"
        " %s, 'dead_letter', 5, 5, now() - x.n * interval '1 s', %s, %s::jsonb, %s, now() - interval '1 hour'"
        " from (select holdfast.uuidv7() as id, n from generate_series(1, %s) n) x",
        queue, kind, SECRET, kind, error, errors(2, error), group, count,
    )  # fmt: skip


def register(inbox: Inbox) -> None:
    for n, name in enumerate(WORKERS):
        facts = {
            "version": "0.1.0", "host": name[:5], "pid": 400 + n, "concurrency": 10,
            "queues": ["mail", "images", "ledger"],
            "kinds": {kind: [1, 1] for kind in ("send_receipt", "resize", "charge", "nightly", "credit")},
            "counters": {"running": n + 1, "completed": 1200 * n, "lease_lost": n, "retried": 3, "listening": 1},
        }  # fmt: skip
        inbox.rows(
            "insert into holdfast.workers (id, status, started_at, last_seen_at, metadata)"
            " values (%s, 'alive', now() - interval '3 hours', now() + interval '1 hour', %s::jsonb)",
            name, json.dumps(facts),
        )  # fmt: skip


def remember(inbox: Inbox) -> None:
    """An hour of attempts, with a dip."""
    inbox.rows(
        "insert into holdfast.minutes (at, queue, kind, started, completed, retried, dead, run, pickup, run_sum,"
        " pickup_sum)"
        " select date_trunc('minute', now()) - n * interval '1 min', 'mail', 'send_receipt', 600, 560,"
        " 30 + (n %% 9), 2,"
        " array[0,0,0,10,50,200,250,80,10]::bigint[], array[100,200,200,80,20]::bigint[], 60, 4"
        " from generate_series(0, 60) n"
    )
    inbox.rows(
        "insert into holdfast.minutes (at, queue, kind, depth, claim_age)"
        " select date_trunc('minute', now()) - n * interval '1 min', 'mail', '', 4000 + (3000 * sin(n / 7.0))::int,"
        " 3 + 2 * sin(n / 5.0) + case when n between 20 and 26 then 38 else 0 end from generate_series(0, 60) n"
    )
    for minutes, what, subject, actor in (
        (26, "worker.died", WORKERS[1], None),
        (12, "queue.paused", "images", "ops@web-1"),
    ):
        inbox.rows(
            "insert into holdfast.journal (at, what, subject, actor)"
            " values (now() - make_interval(mins => %s), %s, %s, %s)",
            minutes, what, subject, actor,
        )  # fmt: skip


class Nowhere:
    """A transport that nobody runs."""

    batch, parallel, shown = 100, 1, "nowhere"

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, batch: Any, settle: Any) -> None: ...


def fill_rest(url: str) -> None:
    """Workflows, schedules, routes, endpoints and events, through the doors."""
    asyncio.run(_rest(url))


async def _rest(url: str) -> None:
    hf = Holdfast(url)

    @hf.task
    async def report(region: str) -> None: ...

    @hf.workflow(version=1)
    async def checkout(flow: Flow, order_id: int) -> str:
        await flow.step("reserve", _step, order_id)
        await flow.step("charge", _step, order_id)
        shipped: Any = await flow.wait("shipped", dict, timeout="3d")
        return str(shipped)

    hf.relay("order.*", to=Nowhere(), name="audit")
    try:
        await hf.schedule("report eu", report, cron="0 7 * * 1-5", tz="Europe/Berlin", args={"region": "eu"})
        await hf.schedule("report us", report, every="10m", args={"region": "us"})
        await hf.pause_schedule("report us")
        instance = await checkout.options(id="checkout:17").start(order_id=17)
        await run_until_parked(hf, instance)
        added = await hf.add_endpoint("https://hooks.example/orders", types=["order.*"])
        await hf.pause_endpoint(added.id)
        await hf.publish("order.paid", {"order": 17, "token": SECRET}, key="17")
    finally:
        await hf.close()


async def _step(order_id: int) -> dict[str, int]:
    return {"order": order_id}
