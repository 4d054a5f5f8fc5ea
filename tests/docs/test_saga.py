"""The example of a saga: each order ends paid or cancelled, and no item and no cent is lost, whatever dies."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import asyncpg
import pytest
from examples.saga import orders, payments
from examples.saga.demo import ACCOUNTS, prepare, report, settled, worker
from tests.support.pages import ROOT
from tests.support.pooler import direct

from holdfast.testing import use_database

pytestmark = [pytest.mark.faults, pytest.mark.direct, pytest.mark.timeout(300)]

KILLED = ("tx.before_commit", "relay.after_send")
Connections = tuple[asyncpg.Connection, asyncpg.Connection]


@pytest.fixture
async def both(
    migrated_url: str, second_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Connections]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("BUS_FOLDER", str(tmp_path))
    monkeypatch.setenv("ORDERS_DATABASE_URL", migrated_url)
    monkeypatch.setenv("PAYMENTS_DATABASE_URL", second_url)
    orders_db, payments_db = await asyncpg.connect(direct(migrated_url)), await asyncpg.connect(direct(second_url))
    async with use_database(orders.hf, migrated_url), use_database(payments.hf, second_url):
        await prepare(orders_db, payments_db)
        yield orders_db, payments_db
    await orders_db.close()
    await payments_db.close()


async def place(orders_db: asyncpg.Connection, numbers: Iterable[int]) -> None:
    for number in numbers:
        await orders.place(orders_db, number, "lamp", list(ACCOUNTS)[number % 3], 100 * number)


def killed(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if " " in path.name}


async def test_each_service_is_killed_at_each_point(both: Connections, tmp_path: Path) -> None:
    probes = {
        side: ",".join(f"{name}=kill@{tmp_path / f'{side} {name}'}" for name in KILLED) for side in ("one", "two")
    }
    with (
        worker("examples.saga.orders:hf", HOLDFAST_PROBES=probes["one"]),
        worker("examples.saga.payments:hf", HOLDFAST_PROBES=probes["two"]),
    ):
        await place(both[0], range(1, 31))
        await settled(*both)
    assert killed(tmp_path) == {f"{side} {name}" for side in probes for name in KILLED}
    assert await report(*both) == [
        "orders  20 paid + 10 cancelled = 30",
        "items   80 free + 20 sold = 100",
        "money   9000 in accounts + 31000 taken = 40000; orders of 31000 are paid",
    ]
    # A step and the event of the next one are one commit: none is missing, and none of a step that rolled back.
    types = "select type || ' ' || count(*) from holdfast.events group by type order by type"
    assert [row[0] for row in await both[0].fetch(types)] == ["order.cancelled 10", "order.placed 30"]
    assert [row[0] for row in await both[1].fetch(types)] == ["payment.accepted 20", "payment.refused 10"]


async def test_without_an_answer_orders_are_cancelled_and_late_payments_paid_back(
    both: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "DEADLINE", "500ms")
    with worker("examples.saga.orders:hf"):
        await place(both[0], [1, 3, 4])
        while await both[0].fetchval("select count(*) from orders where status = 'waiting'"):
            await asyncio.sleep(0.05)
        with worker("examples.saga.payments:hf"):
            await settled(*both)
    assert await report(*both) == [
        "orders  0 paid + 3 cancelled = 3",
        "items   100 free + 0 sold = 100",
        "money   40000 in accounts + 0 taken = 40000; orders of 0 are paid",
    ]
    assert await both[1].fetchval("select count(*) from payments where status = 'paid back'") == 3
