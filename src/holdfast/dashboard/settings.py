"""What a dashboard is told: where it listens, who may use it, what it hides."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.requests import Request

Auth = Callable[["Request"], "str | Awaitable[str | None] | None"]
"""Says who makes a request: the name for the journal; None: nobody who may."""

SHORTEST_TOKEN = 32
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
MASKED = (
    "password", "passwd", "secret", "token", "api_key", "apikey", "access_key", "private_key", "authorization",
    "cookie", "credential", "credentials", "card_number", "cvc", "ssn", "iban",
)  # fmt: skip
"""Fields that are hidden unless the settings name others."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked when they are made."""

    token: str | None = None
    """What people type to log in."""
    auth: Auth | None = None
    """Instead of a token: who makes this request."""
    hosts: frozenset[str] = frozenset(LOCAL_NAMES)
    """Values of the header Host, without a port, that are answered."""
    mask: frozenset[str] = frozenset(MASKED)
    """Names of fields whose values are hidden, at any depth."""
    read_only: bool = False
    secure: bool = False
    """Is the page always behind HTTPS? Then the cookie says so even if the proxy does not."""
    user: str = field(default="dashboard")
    """Who acts if nobody has to log in."""

    @property
    def open(self) -> bool:
        """May everybody who reaches it use it?"""
        return self.token is None and self.auth is None


def settings(
    *,
    token: str | None = None,
    auth: Auth | None = None,
    allowed_hosts: Iterable[str] = (),
    mask: Iterable[str] | None = None,
    read_only: bool = False,
    secure: bool = False,
    user: str = "dashboard",
) -> Settings:
    """Return the settings, or raise ConfigurationError."""
    if isinstance(allowed_hosts, str) or isinstance(mask, str):
        raise ConfigurationError("Expected a list of names in allowed_hosts and mask, got one text")
    if token is not None and auth is not None:
        raise ConfigurationError("Pass a token or auth=, not both")
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(
            f"The dashboard's token has {len(token)} characters; expected at least {SHORTEST_TOKEN}. "
            "Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return Settings(
        token=token,
        auth=auth,
        hosts=frozenset((*LOCAL_NAMES, *(named(host) for host in allowed_hosts))),
        mask=frozenset(name.lower() for name in (MASKED if mask is None else mask)),
        read_only=read_only,
        secure=secure,
        user=user,
    )


def named(host: str) -> str:
    """Return a value of the header Host as it is compared: lower case, without its port."""
    text = host.strip().lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    if text.count(":") > 1:  # an IPv6 address as a person types it
        return f"[{text}]"
    return text.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Does only this machine reach a server that listens there?"""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_address(host: str, given: Settings) -> None:
    """Raise if others could use the dashboard without saying who they are."""
    if given.open and not is_loopback(host):
        raise ConfigurationError(
            f"The dashboard does not listen on {host} without authentication: everybody who reaches it could read "
            "payloads and cancel jobs. Set HOLDFAST_DASHBOARD_TOKEN or --token-file, or listen on 127.0.0.1 and use a "
            "tunnel: ssh -L 8321:127.0.0.1:8321 this-host"
        )
