"""What transports share about names: templates such as `shop.{type}`, URLs without passwords, missing libraries."""

from __future__ import annotations

import importlib
import re
from typing import Any
from urllib.parse import urlsplit

from ..errors import ConfigurationError
from ..model.event import Message

FIELDS = ("type", "source", "key", "tenant")


class Template:
    """A name with fields of the message: `shop.{type}`, `tenant.{tenant}`."""

    def __init__(self, text: str, what: str) -> None:
        """`what` it names (`subject`), for errors."""
        parts = re.split(r"\{(\w*)\}", text)
        self.text = text
        self.what = what
        self._literals, self._fields = parts[::2], parts[1::2]
        unknown = [name for name in self._fields if name not in FIELDS]
        if unknown or not text or "{" in "".join(self._literals) or "}" in "".join(self._literals):
            raise ConfigurationError(
                f"{what}: expected a name with fields such as shop.{{type}}, got {text!r}; "
                f"the fields are {', '.join(FIELDS)}"
            )

    def of(self, message: Message) -> str:
        """Return the name for this message. Raises ValueError if it lacks a field."""
        if not self._fields:
            return self.text
        found = [self._literals[0]]
        for field, literal in zip(self._fields, self._literals[1:], strict=True):
            value = getattr(message, field)
            if value is None:
                raise ValueError(f"the {self.what} {self.text} needs a {field}, and the event has none")
            found += (value, literal)
        return "".join(found)


def check_url(url: str, schemes: tuple[str, ...]) -> None:
    """Reject a URL of another kind. The error quotes nothing of it: it may contain a password."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in schemes and "://" in url and bool(parts.hostname or parts.path) and "@" not in parts.path
        _ = parts.port
    except ValueError:
        fits = False
    if not fits:
        raise ConfigurationError(
            f"the URL: expected {schemes[0]}://host:port, got something else; "
            "write / # ? @ : in a password as %2F %23 %3F %40 %3A"
        )


def hide_secrets(url: str) -> str:
    """Return the URL without user, password and parameters, for messages and logs."""
    scheme, separator, rest = re.split(r"[?#]", url, maxsplit=1)[0].rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def library(name: str, extra: str) -> Any:
    """Import a client library, or say which extra has it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"{name} could not be imported ({error}). Install it: pip install 'holdfast[{extra}]'"
        ) from None
