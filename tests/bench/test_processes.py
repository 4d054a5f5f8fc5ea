"""A benchmark whose worker is gone says so at once."""

import asyncio
from typing import Any

import pytest

from bench.draining import until_archived
from bench.processes import WorkerEnded, worker


async def test_a_worker_that_ends_at_its_start_is_not_waited_for(migrated_url: str, one: Any) -> None:
    with worker(migrated_url, app="nothing_of_this_name"):
        async with asyncio.timeout(30):
            with pytest.raises(WorkerEnded, match=r"ended with code 78; its output is above"):
                await until_archived(one.connection, 1)
