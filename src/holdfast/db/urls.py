"""The database URL: where it comes from, which parameters it can have, and how it is shown without its secrets."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from ..errors import ConfigurationError

APPLIED = {
    "host", "port", "dbname", "database", "user", "password", "passfile", "service", "target_session_attrs",
    "sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl", "sslnegotiation",
    "ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname", "gsslib",
    "application_name", "options",
}  # fmt: skip
"""Parameters that asyncpg knows; the last two are settings of the server."""
IGNORED = {
    "connect_timeout", "tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count",
    "channel_binding", "gssencmode", "gssdelegation", "sslcompression", "sslsni", "fallback_application_name",
    "client_encoding", "load_balance_hosts", "min_protocol_version", "max_protocol_version",
}  # fmt: skip
"""Parameters that libpq knows and asyncpg does not: asyncpg would send them to the server, which rejects them. The
connection is the same without them. We set timeouts ourselves; the encoding is always UTF-8. Parameters that name
another server (`hostaddr`) or demand a check that would not happen (`require_auth`, `requirepeer`,
`gssencmode=require`) are rejected, like unknown ones. `channel_binding=require` demands one, too, but is ignored,
because a large hosting service puts it into every URL."""
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

GIVE_ONE = "No database URL was given: set HOLDFAST_DATABASE_URL, such as postgresql://user@host/name"


def resolve_url(url: str | None = None) -> str | None:
    """Return the given URL, or HOLDFAST_DATABASE_URL, or DATABASE_URL; None means libpq's PG* variables."""
    found = url or os.environ.get("HOLDFAST_DATABASE_URL") or os.environ.get("DATABASE_URL")
    if not found:
        return None
    scheme, separator, rest = found.partition("://")
    if not separator or scheme.split("+")[0] not in {"postgresql", "postgres"}:
        # The value is not quoted: it may contain a password.
        raise ConfigurationError("the database URL: expected postgresql://user@host/name, got something else")
    normal = f"postgresql://{rest}"
    _check_url(normal)
    return _with_known_parameters(normal)


def resolve_pooler(pooler: bool | None = None) -> bool:
    """Return whether there is a transaction pooler in between: the argument, or HOLDFAST_POOLER, or False."""
    if pooler is not None:
        return pooler
    word = os.environ.get("HOLDFAST_POOLER", "")
    if word.lower() not in _YES | _NO:
        raise ConfigurationError(f"HOLDFAST_POOLER: expected 1 or 0, got {word!r}")
    return word.lower() in _YES


_YES, _NO = {"1", "true", "yes", "on"}, {"", "0", "false", "no", "off"}


def _check_url(url: str) -> None:
    """Reject a URL that would be misread. The error quotes nothing of it."""
    try:
        parts = urlsplit(url)
        _ = parts.port if "," not in parts.netloc else None
    except ValueError:
        misread = True
    else:
        cut_short = bool(parts.netloc) and not parts.path and "@" in parts.query  # by a ? in the password
        misread = bool(parts.fragment) or "@" in parts.path or cut_short
    if misread:
        raise ConfigurationError(
            "the database URL: expected postgresql://user:password@host:port/name, got one that cannot be parsed; "
            "write / # ? @ : in a password as %2F %23 %3F %40 %3A"
        )


def _with_known_parameters(url: str) -> str:
    """Return the URL without the parameters that the driver would send to the server as settings."""
    place, _, query = url.partition("?")
    kept = []
    for parameter in filter(None, query.split("&")):
        name, _, value = parameter.partition("=")
        if name in APPLIED and value:
            kept.append(parameter)
        elif name not in APPLIED | IGNORED or parameter == "gssencmode=require":
            raise ConfigurationError(_unknown(name))
        if name == "sslmode" and value and unquote(value) not in SSL_MODES:
            raise ConfigurationError(f"the database URL: sslmode: expected one of {', '.join(SSL_MODES)}, got another")
    return f"{place}?{'&'.join(kept)}" if kept else place


def _unknown(name: str) -> str:
    shown = repr(name) if re.fullmatch(r"\w{1,40}", name) else "something that is not a name"
    return (
        f"the database URL: after ? expected parameters of libpq, such as sslmode=require, got {shown}. Leave it out; "
        "write a setting of the server as options=-c%20name%3Dvalue"
    )


def hide_password(url: str) -> str:
    """Return the URL without password and parameters, for messages and logs."""
    scheme, separator, rest = url.partition("?")[0].partition("://")
    netloc, slash, path = rest.partition("/")
    login, at, place = netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{separator}{user}{':***' if colon else ''}{at}{place}{slash}{path}"


def shown(url: str | None) -> str:
    """Return the URL without its secrets, or libpq's variables if there is no URL."""
    if url:
        return hide_password(url)
    given = [
        f"{name}={os.environ[name]}" for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER") if name in os.environ
    ]
    return " ".join(given) or "the local socket or localhost:5432"


def advice(url: str | None) -> str:
    """Return what to add to an error about a server that was not reached, or was the wrong one."""
    nothing = not url and not os.environ.get("PGHOST")
    return f". {GIVE_ONE}" if nothing else ""
