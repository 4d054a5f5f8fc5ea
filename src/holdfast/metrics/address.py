"""Where to listen, as users write it."""

from __future__ import annotations

import socket

from ..errors import ConfigurationError


def address(where: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; an IPv6 address stands in brackets."""
    host, colon, port = where.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"metrics: expected HOST:PORT, such as 127.0.0.1:9464; got {where!r}")
    if ":" in bare and bare == host:
        raise ConfigurationError(f"metrics: expected an IPv6 address in brackets, such as [::1]:9464; got {where!r}")
    return bare, int(port)


def listen(where: str) -> socket.socket:
    """Listen at this `HOST:PORT`. ConfigurationError: it cannot."""
    host, port = address(where)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=64)
    except OSError as error:
        raise ConfigurationError(
            f"metrics: cannot listen at {where}: {error.strerror or error}. Choose another address with --metrics"
        ) from None
