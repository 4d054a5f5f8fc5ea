"""Webhooks: check a request before anything in it is believed.

A request that is rejected leaves no row. What is wrong with a signature is logged and not answered: each of these
requests gets the same 401.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from urllib.parse import unquote

from ..errors import ConfigurationError, InvalidInput, Rejected
from ..model.signature import ID, BadSignature, check_secret, verify_headers
from ..transports.cloudevents import Unreadable, has_attributes
from .arrivals import Arrival, Message, Source

Secrets = Sequence[str] | Callable[[], Sequence[str] | Awaitable[Sequence[str]]]
"""The secrets that may have signed a request, or a function that returns them, called for each request."""
Headers = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]
"""As a framework gives them, in upper or lower case."""

PREFIX = "ce-"


def check_secrets(secrets: object) -> Secrets:
    """Return secrets that can verify a signature, or the function that will return them."""
    if callable(secrets):
        return secrets
    if isinstance(secrets, (str, bytes)) or not isinstance(secrets, Sequence):
        raise ConfigurationError("secrets: expected a list of secrets, or a function that returns one")
    return _checked(secrets)


async def current(secrets: Secrets) -> Sequence[str]:
    """Return the secrets as they are now."""
    if not callable(secrets):
        return secrets
    found = secrets()
    return _checked(await found if inspect.isawaitable(found) else found)


def _checked(secrets: Sequence[str]) -> Sequence[str]:
    if not secrets:
        raise ConfigurationError("secrets: expected at least one; without a secret, no request can be verified")
    try:
        return [check_secret(secret, f"secrets[{number}]") for number, secret in enumerate(secrets)]
    except InvalidInput as error:
        raise ConfigurationError(str(error)) from None


def plain(headers: Headers) -> dict[str, str]:
    """Return headers by their names in lower case. Of a name that is there twice, the values are joined."""
    found: dict[str, str] = {}
    pairs: Iterable[tuple[str | bytes, str | bytes]] = headers.items() if hasattr(headers, "items") else headers
    for name, value in pairs:
        lower, text = _text(name).lower(), _text(value)
        found[lower] = f"{found[lower]}, {text}" if lower in found else text
    return found


def _text(value: str | bytes) -> str:
    return str.__str__(value) if isinstance(value, str) else value.decode("latin-1")  # no subclass: it is stored


def check_before_body(source: Source, headers: Mapping[str, str]) -> None:
    """Raise `Rejected` for a request whose headers alone say that it cannot be received."""
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > source.most_body:
        raise too_large(source)
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise Rejected(415, f"content-encoding: expected none, got {coding!r}")
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media.startswith("application/cloudevents-batch"):
        raise Rejected(415, "content-type: expected one event, got a batch")
    if media and media != "application/json" and not media.endswith("+json"):
        raise Rejected(415, f"content-type: expected application/json or application/cloudevents+json, got {media!r}")


def too_large(source: Source) -> Rejected:
    return Rejected(413, f"the body is larger than {source.most_body:,} bytes")


def verified(
    source: Source, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], binary: bool = False
) -> Arrival:
    """Return what becomes of a request; raises `Rejected` unless one of the secrets has signed it, and lately.

    `binary`: this sender puts the attributes of its events in headers, and the application trusts what is not signed.
    Then each request that is no structured event must have them, and otherwise none may: a request that is sent again
    with headers added or taken away must not become an event of another type.
    """
    check_before_body(source, headers)
    if len(body) > source.most_body:
        raise too_large(source)
    try:
        id = verify_headers(headers, body, secrets, time.time())
    except BadSignature as error:
        raise Rejected(401, error.reason) from None
    content_type = headers.get("content-type")
    beside = {name: value for name, value in headers.items() if name.startswith(PREFIX)}
    if has_attributes(body) or not (binary or beside):
        return source.read_request(Message(id, body, content_type))
    if not binary:
        raise Rejected(400, f"{PREFIX}…: expected no attributes in headers, which are not signed; see `binary`")
    if not beside:
        raise Rejected(400, f"{PREFIX}…: expected the attributes of an event in headers, because of `binary`")
    try:
        attributes = {name.removeprefix(PREFIX): _unquoted(value) for name, value in beside.items()}
    except Unreadable as error:
        return source.unreadable(Message(id, body, content_type, beside), str(error))
    if attributes.get("id") != id:  # the headers are not signed, and this one says which message it is
        raise Rejected(401, f"{PREFIX}id: expected the value of {ID}")
    return source.read_request(Message(id, body, content_type, attributes))


def _unquoted(value: str) -> str:
    """Return the text of an attribute: CloudEvents percent-encodes what a header cannot carry."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise Unreadable(f"a header is not percent-encoded UTF-8: {value[:100]!r}") from None
