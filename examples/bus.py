"""A broker small enough to read: a file with one event per line. The examples use it, so that they need no server.

`BusFile` is a transport, `BusConsumer` a consumer. In your services, use those of NATS, RabbitMQ, Redis or Kafka.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from holdfast.transports import Away, Delivered, Message, Settle
from holdfast.transports.cloudevents import STRUCTURED, structured
from holdfast.transports.consuming import Incoming


class BusFile:
    """Appends each event to the file. An event is delivered when it is on the disk."""

    batch, parallel = 100, 1

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def shown(self) -> str:
        return str(self._path)

    async def open(self) -> None:
        try:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise Away(str(error)) from error

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        if self._file is None:
            raise Away(f"{self._path} is not open")
        lines = b"".join(structured(message) + b"\n" for message in batch)
        if os.write(self._file, lines) < len(lines):  # one call: processes that write at once do not mix their lines
            raise Away(f"{self._path}: the disk is full")
        os.fsync(self._file)
        for message in batch:
            settle(message, Delivered())

    async def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class BusConsumer:
    """Reads the file from where its group has acknowledged it."""

    def __init__(self, path: Path, group: str) -> None:
        self._path = path
        self._acknowledged = path.with_suffix(f".{group}")
        self._next = 0

    @property
    def shown(self) -> str:
        return str(self._path)

    async def open(self) -> None:
        self._next = int(self._acknowledged.read_text()) if self._acknowledged.exists() else 0

    async def fetch(self) -> Sequence[Incoming]:
        for _ in range(50):
            if found := self._read():
                self._next = found[-1].handle
                return found
            await asyncio.sleep(0.02)
        return []

    def _read(self) -> list[Incoming]:
        if not self._path.exists():
            return []
        found: list[Incoming] = []
        with self._path.open("rb") as file:
            at = file.seek(self._next)
            while len(found) < 100 and (line := file.readline()).endswith(b"\n"):
                found.append(Incoming({}, line, STRUCTURED, at + len(line), f"{self._path.name}:{at}"))
                at += len(line)
        return found

    async def acknowledge(self, messages: Sequence[Incoming]) -> None:
        written = self._acknowledged.with_name(f"{self._acknowledged.name}.{os.getpid()}")
        written.write_text(str(messages[-1].handle))
        written.replace(self._acknowledged)

    async def close(self) -> None: ...

    @property
    def behind(self) -> int:
        """How many bytes of the file are not acknowledged."""
        written = self._path.stat().st_size if self._path.exists() else 0
        return written - (int(self._acknowledged.read_text()) if self._acknowledged.exists() else 0)

    def rewind(self) -> None:
        """Let all messages come again, as a broker does after a restore or when an operator asks for it."""
        self._acknowledged.unlink(missing_ok=True)
