"""Ten producers of unique jobs in one process, until it is killed: `python -m tests.apps.producers URL SEED`.

Each notes in the transaction of its enqueue what the enqueue said, so what is noted is what was committed.
"""

import asyncio
import contextlib
import random
import sys
from typing import Any

import asyncpg

from holdfast import Holdfast
from tests.support.pooler import direct

PRODUCERS = 10
KEYS = "abcdef"

hf = Holdfast()


@hf.task
def send(n: int) -> None: ...


async def produce(url: str, chance: random.Random) -> None:
    while True:
        connection: Any = await asyncpg.connect(direct(url), server_settings={"application_name": "producer"})
        with contextlib.suppress(Exception):  # the driver has many ways to say that its session was ended
            while True:
                await enqueue(connection, chance)
        connection.terminate()


async def enqueue(connection: Any, chance: random.Random) -> None:
    """One transaction: committed, rolled back, or cut off anywhere."""
    transaction = connection.transaction()
    await transaction.start()
    key = chance.choice(KEYS)
    replace: Any = chance.choice([None, "arguments", "time"])
    done = chance.random() < 0.3
    job = await send.on(connection, unique_key=key, replace=replace, unique_done=done).enqueue(1)
    await connection.execute("insert into produced values ($1, $2, $3)", job.id, key, job.existed)
    await asyncio.sleep(chance.random() * 0.005)
    await (transaction.rollback() if chance.random() < 0.3 else transaction.commit())


async def main(url: str, seed: int) -> None:
    await asyncio.gather(*(produce(url, random.Random(seed * PRODUCERS + n)) for n in range(PRODUCERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
