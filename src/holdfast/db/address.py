"""The server's address: where it comes from, which parameters it may carry, and how it is shown without its secrets."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from ..errors import ConfigurationError

CARRIED_OUT = {
    "host", "port", "dbname", "database", "user", "password", "passfile", "service", "target_session_attrs",
    "sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl", "sslnegotiation",
    "ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname", "gsslib",
    "application_name", "options",
}  # fmt: skip
"""Parameters that asyncpg knows; the last two are the server's own."""
LEFT_OUT = {
    "connect_timeout", "tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count",
    "channel_binding", "gssencmode", "gssdelegation", "sslcompression", "sslsni", "fallback_application_name",
    "client_encoding", "load_balance_hosts", "min_protocol_version", "max_protocol_version",
}  # fmt: skip
"""Parameters that libpq knows and asyncpg does not, and without which the connection is the same: asyncpg would send
them to the server, which refuses them. Deadlines are ours; the encoding is always UTF-8. What names another server
(`hostaddr`) or demands a check that nobody would make (`require_auth`, `requirepeer`, `gssencmode=require`) is refused
instead, as everything unknown. Only `channel_binding=require` is let pass: a whole hosting service hands it out."""
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

GIVE_ONE = "No address was given: set HOLDFAST_DATABASE_URL, such as postgresql://user@host/name"


def resolve_url(url: str | None = None) -> str | None:
    """The address given, else HOLDFAST_DATABASE_URL, else DATABASE_URL, else None for libpq's PG* variables."""
    found = url or os.environ.get("HOLDFAST_DATABASE_URL") or os.environ.get("DATABASE_URL")
    if not found:
        return None
    scheme, separator, rest = found.partition("://")
    if not separator or scheme.split("+")[0] not in {"postgresql", "postgres"}:
        # What came is not quoted: it may hold a password.
        raise ConfigurationError("the database URL: expected postgresql://user@host/name, got something else")
    address = f"postgresql://{rest}"
    _check_address(address)
    return _with_known_parameters(address)


def resolve_pooler(pooler: bool | None = None) -> bool:
    """Whether there is a transaction pooler in between: what was said, else HOLDFAST_POOLER, else no."""
    if pooler is not None:
        return pooler
    word = os.environ.get("HOLDFAST_POOLER", "")
    if word.lower() not in _YES | _NO:
        raise ConfigurationError(f"HOLDFAST_POOLER: expected 1 or 0, got {word!r}")
    return word.lower() in _YES


_YES, _NO = {"1", "true", "yes", "on"}, {"", "0", "false", "no", "off"}


def _check_address(address: str) -> None:
    """Refuse what could only be misread; in words that quote nothing of it."""
    try:
        parts = urlsplit(address)
        _ = parts.port if "," not in parts.netloc else None
    except ValueError:
        misread = True
    else:
        cut_short = bool(parts.netloc) and not parts.path and "@" in parts.query  # by a ? in the password
        misread = bool(parts.fragment) or "@" in parts.path or cut_short
    if misread:
        raise ConfigurationError(
            "the database URL: expected postgresql://user:password@host:port/name, got one that cannot be read so; "
            "write / # ? @ : in a password as %2F %23 %3F %40 %3A"
        )


def _with_known_parameters(address: str) -> str:
    """The address without what the driver would mistake for a setting of the server."""
    place, _, query = address.partition("?")
    kept = []
    for parameter in filter(None, query.split("&")):
        name, _, value = parameter.partition("=")
        if name in CARRIED_OUT and value:
            kept.append(parameter)
        elif name not in CARRIED_OUT | LEFT_OUT or parameter == "gssencmode=require":
            raise ConfigurationError(_unknown(name))
        if name == "sslmode" and value and unquote(value) not in SSL_MODES:
            raise ConfigurationError(f"the database URL: sslmode: expected one of {', '.join(SSL_MODES)}; got another")
    return f"{place}?{'&'.join(kept)}" if kept else place


def _unknown(name: str) -> str:
    shown = repr(name) if re.fullmatch(r"\w{1,40}", name) else "one that is not a name"
    return (
        f"the database URL: after ? expected parameters of libpq, such as sslmode=require; got {shown}. Leave it out; "
        "a setting of the server is written options=-c%20name%3Dvalue"
    )


def hide_password(url: str) -> str:
    """For messages and logs."""
    scheme, separator, rest = url.partition("?")[0].partition("://")
    netloc, slash, path = rest.partition("/")
    login, at, place = netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{separator}{user}{':***' if colon else ''}{at}{place}{slash}{path}"


def shown(url: str | None) -> str:
    """The address without its secrets; libpq's variables when there is none."""
    if url:
        return hide_password(url)
    given = [
        f"{name}={os.environ[name]}" for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER") if name in os.environ
    ]
    return " ".join(given) or "the local socket or localhost:5432"


def advice(url: str | None) -> str:
    """What to add to a message about a server that was not reached, or was the wrong one."""
    nothing = not url and not os.environ.get("PGHOST")
    return f". {GIVE_ONE}" if nothing else ""
