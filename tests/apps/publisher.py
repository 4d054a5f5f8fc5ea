"""Publishes one event in a process of its own: `python -m tests.apps.publisher HOW ID SERVER [MARKER]`.

HOW is `call`, on a connection of Holdfast's own, or `transaction`, on one to the server at this address, without a
pooler. With a marker, it makes that file after the publish call, and stands still before the commit. In the end it
prints whether the event is new.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import asyncpg

from holdfast import Holdfast
from holdfast.transports import Message, Settle

NAME = "publisher"
"""What the session of its transaction is called."""


class Nowhere:
    """A destination that nobody opens."""

    batch, parallel, shown = 1, 1, "nowhere"

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def send(self, batch: Sequence[Message], settle: Settle) -> None: ...


hf = Holdfast()
hf.relay("order.*", to=Nowhere(), name="bus")


async def publish_in_transaction(id: UUID, server: str, marker: str | None) -> bool:
    connection = await asyncpg.connect(server, server_settings={"application_name": NAME})
    async with connection.transaction():
        published = await hf.on(connection).publish("order.paid", {"n": 1}, id=id)
        if marker is not None:
            stand_still(marker)
    await connection.close()
    return published.existed


def stand_still(marker: str) -> None:
    Path(marker).touch()
    os.kill(os.getpid(), signal.SIGSTOP)


async def main(how: str, id: str, server: str, marker: str | None = None) -> None:
    if how == "transaction":
        existed = await publish_in_transaction(UUID(id), server, marker)
    else:
        existed = (await hf.publish("order.paid", {"n": 1}, id=UUID(id))).existed
    await hf.close()
    print("existed" if existed else "new")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
