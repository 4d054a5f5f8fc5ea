"""`holdfast dashboard`: one process, one event loop, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import uvicorn

from ..errors import ConfigurationError
from .application import Dashboard

GRACE = 2
"""Seconds that open requests have at the end: viewers of the live state never finish by themselves."""


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen there; port 0: any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((host.strip("[]"), port))
        except OSError as error:
            raise ConfigurationError(f"Cannot listen on {host}:{port}: {error.strerror}. Try --port") from None
        yield taken


def serve(dashboard: Dashboard, taken: socket.socket, started: Callable[[], None] = lambda: None) -> None:
    """Serve until a signal comes."""
    asyncio.run(serving(dashboard, taken, started))


async def serving(dashboard: Dashboard, taken: socket.socket, started: Callable[[], None] = lambda: None) -> None:
    """The same, on this event loop."""
    server = uvicorn.Server(_config(dashboard, "warning"))
    started()
    try:
        await server.serve(sockets=[taken])
    finally:
        await dashboard.close()


@contextlib.asynccontextmanager
async def beside(dashboard: Dashboard, taken: socket.socket) -> AsyncIterator[None]:
    """Serve during this block, beside what this program does. It writes nothing to the program's terminal."""
    server = _Guest(_config(dashboard, "critical"))
    serving = asyncio.create_task(server.serve(sockets=[taken]), name="holdfast dashboard")
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if serving.done():
            serving.result()
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        await dashboard.close()


class _Guest(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them to the program."""
        yield


def _config(dashboard: Dashboard, level: str) -> uvicorn.Config:
    return uvicorn.Config(
        dashboard, log_level=level, access_log=False, lifespan="off", server_header=False,
        timeout_graceful_shutdown=GRACE, proxy_headers=False,
    )  # fmt: skip
