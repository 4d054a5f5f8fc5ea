"""Transactions for handlers: what is said while they cannot begin, and once they can again."""

import logging

import pytest
from tests.support.pooler import database_at
from tests.support.waiting import until

from holdfast.model.occurrences import Occurrences
from holdfast.worker.attempts.transactions import Transactions
from holdfast.worker.log_lines import LogLines
from holdfast.worker.settings import WorkerSettings


async def test_an_outage_in_which_some_still_begin_is_one_outage(
    migrated_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    # As while a server shuts down: it ends its sessions one by one.
    caplog.set_level(logging.INFO, "holdfast.worker")
    transactions = Transactions(database_at(migrated_url), WorkerSettings(queues=("default",)), Occurrences(LogLines()))
    for _ in range(3):
        transactions._unbegun(OSError("gone"))
        transactions._begun()
    assert [record.message.partition(":")[0] for record in caplog.records] == ["handlers cannot start a transaction"]
    await until(lambda: len(caplog.records) == 2)
    assert caplog.records[1].message == "handlers can start transactions again, after 3 that failed to start"
    await transactions.close()
