"""Append-only logs of JSON lines: durable when written, readable while they grow."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any


class Journal:
    """A log whose lines are on disk when `write` returns. Concurrent writes share one fsync."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._waiting: list[bytes] = []
        self._turn = asyncio.Lock()

    async def write(self, what: str, **facts: Any) -> None:
        line = json.dumps({"what": what, "t": round(time.time(), 3), **facts}).encode() + b"\n"
        self._waiting.append(line)
        async with self._turn:
            if self._waiting and line in self._waiting:
                lines, self._waiting = self._waiting, []
                await asyncio.to_thread(self._store, b"".join(lines))

    def _store(self, data: bytes) -> None:
        os.write(self._fd, data)
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class Tail:
    """Reads what was appended since the last read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def read(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
