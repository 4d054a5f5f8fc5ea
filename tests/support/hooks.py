"""Webhooks as a sender makes them, and an HTTP server that receives them."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import uvicorn
from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # the one of the specification
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def fresh_id() -> str:
    return f"msg_{secrets.token_hex(8)}"


def signed(
    body: bytes, id: str | None = None, secret: str = SECRET, at: float | None = None, **headers: str
) -> dict[str, str]:
    """The headers of a request, signed by another implementation than ours."""
    id = id if id is not None else fresh_id()
    instant = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    signature = Webhook(secret).sign(id, instant, body.decode("utf-8", "surrogateescape"))
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(instant.timestamp())),
        "webhook-signature": signature,
        "content-type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }


def plain_body(type: str = "order.paid", **data: Any) -> bytes:
    return json.dumps({"type": type, "timestamp": "2026-11-16T15:00:00Z", "data": data}).encode()


def structured(id: str, type: str = "order.paid", **attributes: Any) -> bytes:
    event = {"specversion": "1.0", "id": id, "source": "shop", "type": type, "data": {"order_id": 1}, **attributes}
    return json.dumps(event).encode()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """A server on a free port of the loopback; its URL."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="on"))
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(25):
            while not server.started:
                assert not task.done(), "the server ended"
                await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task
