"""What the pages share: whose installation it is, how to read it, how to act on it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import msgspec
from starlette.requests import Request

from ..app import Holdfast
from ..db.acting import acting_as
from ..errors import InvalidInput
from .access import Session
from .masking import masked
from .reading import Reading
from .settings import Settings

if TYPE_CHECKING:
    from .pages.doctor import Examiner

PAGE = 50
"""Rows of a list."""


@dataclass(frozen=True, slots=True)
class Desk:
    app: Holdfast
    reading: Reading
    settings: Settings
    examiner: Examiner

    def shown(self, value: Any) -> Any:
        """Return a JSON value as viewers may see it."""
        return masked(value, self.settings.mask)

    def text(self, stored: Any) -> str | None:
        """Return a stored JSON value as text to show. The page gets no numbers of it, which JavaScript would round."""
        if stored is None:
            return None
        value = msgspec.json.decode(stored) if isinstance(stored, (str, bytes)) else stored
        return json.dumps(self.shown(value), indent=2, ensure_ascii=False, default=str)

    @contextmanager
    def acting(self, request: Request) -> Iterator[Holdfast]:
        """Act as who is logged in: the journal gets the name."""
        session: Session = request.scope["holdfast_session"]
        with acting_as(session.user):
            yield self.app


Asked = Callable[[Desk, Request], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint of a page."""

    method: str
    path: str
    asked: Asked


def get(path: str, asked: Asked) -> Route:
    return Route("GET", path, asked)


def post(path: str, asked: Asked) -> Route:
    return Route("POST", path, asked)


def word(request: Request, name: str) -> str | None:
    """Return a parameter of the query; None if it is missing or empty."""
    return request.query_params.get(name) or None


def whole(request: Request, name: str, default: int, most: int) -> int:
    text = word(request, name)
    if text is None:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise InvalidInput(name, f"expected a number from 1 to {most}, got {text!r}")
    return int(text)


def uuid_of(text: object, name: str = "id") -> UUID:
    try:
        return UUID(str(text))
    except ValueError:
        raise InvalidInput(name, f"expected an id, such as 0190d0c8-….; got {text!r}") from None


def page(found: Sequence[asyncpg.Record], key: str = "id") -> tuple[list[asyncpg.Record], UUID | None]:
    """Return the rows of a page, and where the next begins: after its last row, or the last that was looked at."""
    listed = [each for each in found if each[key] is not None]
    if len(listed) == PAGE:
        return listed, UUID(str(listed[-1][key]))
    return listed, next((each["reach"] for each in found if each[key] is None), None)


def row(record: Mapping[str, Any] | asyncpg.Record, *without: str) -> dict[str, Any]:
    return {name: value for name, value in dict(record).items() if name not in without}
