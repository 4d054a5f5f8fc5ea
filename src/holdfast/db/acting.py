"""Who acts. The journal names the actor of everything that people do to an installation."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from ..errors import InvalidInput
from ..model.limits import check_text

MOST = 200
"""Characters of a name."""

_named: ContextVar[str | None] = ContextVar("holdfast actor", default=None)


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Name who acts in this block: the journal has the name with everything that is done to the installation.

    Without it, that is the user and the host of this process. Cancels and signals, which applications send as part of
    their work, are in the journal only if somebody is named.

    ```python
    with acting_as("ann@example.org"):
        await hf.pause("mail")
    ```
    """
    if not 1 <= len(check_text("name", name)) <= MOST or not name.isprintable():
        raise InvalidInput("name", f"expected 1 to {MOST} printable characters, got {name!r}")
    token = _named.set(name)
    try:
        yield
    finally:
        _named.reset(token)


def named() -> str | None:
    """Who acts, if somebody was named."""
    return _named.get()


def actor() -> str:
    """Who acts: who was named, or the user and the host of this process."""
    return _named.get() or own_name()


@cache
def own_name() -> str:
    """The user and the host of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # this uid has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"[:MOST]
