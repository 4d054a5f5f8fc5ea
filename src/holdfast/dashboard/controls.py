"""What a demo lends to its dashboard: buttons for its own processes. No other dashboard has them."""

from __future__ import annotations

from typing import Any, Protocol


class Controls(Protocol):
    """Each button returns what it did, in words, or raises a HoldfastError that says why not. Without the name of a
    worker, the demo chooses one."""

    def shown(self) -> dict[str, Any]:
        """What the page shows of the demo, as JSON."""
        ...

    async def kill(self, worker: str | None) -> str: ...

    async def add(self) -> str: ...

    async def drain(self, worker: str | None) -> str: ...

    async def pin(self) -> str:
        """Keep a transaction open, which holds back the xmin horizon."""
        ...

    async def release(self) -> str:
        """End that transaction."""
        ...
