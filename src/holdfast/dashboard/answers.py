"""Answers as JSON, and errors as answers that say what to do."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..db.link import translate
from ..errors import (
    ConfigurationError,
    Contended,
    HoldfastError,
    InvalidInput,
    NotFound,
    SchemaError,
    Unreachable,
)
from ..schema import migrate

log = logging.getLogger("holdfast.dashboard")

Endpoint = Callable[[Request], Awaitable[Any]]
_STATUSES: tuple[tuple[type[BaseException], int], ...] = (
    (NotFound, 404), (InvalidInput, 400), (SchemaError, 503), (Unreachable, 503), (Contended, 503),
    (ConfigurationError, 409), (HoldfastError, 409),
)  # fmt: skip


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def answer(value: Any, status: int = 200) -> Response:
    return Response(encoded(value), status, {"cache-control": "no-store"}, "application/json")


def refused(status: int, problem: str) -> Response:
    return answer({"problem": problem}, status)


def answering(endpoint: Endpoint, schema: str) -> Endpoint:
    """Return an endpoint whose value is sent as JSON, and whose errors are sent in words."""

    async def asked(request: Request) -> Response:
        try:
            value = await endpoint(request)
        except Exception as error:
            status, words = in_words(error, schema)
            if status == 500:
                log.exception("%s %s", request.method, request.url.path)
            return refused(status, words)
        return value if isinstance(value, Response) else answer(value)

    return asked


def in_words(error: BaseException, schema: str) -> tuple[int, str]:
    """Return the status of the answer to an error, and what it says."""
    if isinstance(error, asyncpg.QueryCanceledError):
        return 504, "The database took longer than 2 s to answer. Choose a narrower filter, or look at: holdfast doctor"
    if isinstance(error, (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError, asyncpg.InvalidSchemaNameError)):
        return 503, f"The schema {schema!r} is missing or older than this release. Run: {migrate.command(schema)}"
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return 503, f"The dashboard's role lacks a privilege: {error}. See docs/dashboard.md, A role that only reads"
    error = translate(error)
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    return status, str(error) if status != 500 else "An error of the dashboard; its log has the details"


async def body(request: Request) -> dict[str, Any]:
    """Return the JSON object that came with a request."""
    try:
        found = msgspec.json.decode(await request.body())
    except msgspec.DecodeError as error:
        raise InvalidInput("body", f"expected JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput("body", "expected a JSON object")
    return found


def text_of(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidInput(name, "expected a text")
    return value
