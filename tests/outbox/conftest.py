"""A destination inside the test, which does what the test says."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from holdfast.model.event import Delivered, Message, Verdict
from holdfast.transports import Settle


class Sink:
    """Keeps what it is sent. `judge` says what becomes of a message: a verdict, or None for an unknown fate."""

    batch, parallel, shown = 100, 2, "sink"

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.batches: list[int] = []
        self.away = False
        self.opened = 0
        self.sending = 0
        """How often it was asked to send."""
        self.closed = 0
        self.judge: Callable[[Message], Verdict | None] = lambda message: Delivered()
        self.gate = asyncio.Event()
        self.gate.set()

    async def open(self) -> None:
        if self.away:
            raise ConnectionRefusedError("nobody is at home")
        self.opened += 1

    async def close(self) -> None:
        self.closed += 1

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        self.sending += 1
        await self.gate.wait()
        if self.away:
            raise ConnectionResetError("gone")
        self.batches.append(len(batch))
        for message in batch:
            verdict = self.judge(message)
            if verdict is None:
                raise ConnectionResetError("lost")
            self.messages.append(message)
            settle(message, verdict)

    @property
    def types(self) -> list[str]:
        return [message.type for message in self.messages]

    @property
    def numbers(self) -> list[int]:
        return [int(message.data.partition(b'n":')[2].strip(b" }")) for message in self.messages]


@pytest.fixture
def sink() -> Sink:
    return Sink()
