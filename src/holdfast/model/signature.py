"""Signatures of webhooks, as Standard Webhooks describes them: shared by the sender and the receiver.

A request has three headers: `webhook-id`, `webhook-timestamp` (seconds since 1970) and `webhook-signature`, a list of
signatures with spaces in between, such as `v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=`. Each is the HMAC-SHA256 of
`id.timestamp.body` under one secret. While a secret is being replaced, both the old and the new one sign.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets as randomness
from collections.abc import Iterable, Mapping

from ..errors import InvalidInput

PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
TOLERANCE = 300.0
"""Seconds by which the timestamp of a request may differ from the receiver's clock."""
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"

_DIGITS = re.compile(r"[0-9]{1,15}", re.ASCII)
_MOST_SIGNATURES = 32  # a rotation needs two; more would be work that an attacker gives us


class BadSignature(Exception):
    """The request is not signed by one of the secrets, or not lately. `reason` is for logs, not for the sender."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def new_secret() -> str:
    """A new secret: 32 random bytes."""
    return PREFIX + base64.b64encode(randomness.token_bytes(32)).decode()


def check_secret(secret: object, field: str = "secret") -> str:
    """Return the secret, checked. The error does not show it."""
    if not isinstance(secret, str) or not secret.startswith(PREFIX):
        raise InvalidInput(field, f"expected text that starts with {PREFIX}; see holdfast endpoint rotate")
    if _key(secret) is None:
        raise InvalidInput(field, f"expected {PREFIX} and then the base64 of 24 to 64 bytes")
    return secret


def sign(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """The signature of a request under one secret: `v1,` and base64."""
    key = _key(secret)
    if key is None:
        check_secret(secret)
        raise AssertionError("a secret without a key passed its check")
    return "v1," + base64.b64encode(_digest(key, id.encode(), str(timestamp).encode(), body)).decode()


def verify(
    id: str | None,
    timestamp: str | None,
    body: bytes,
    signatures: str | None,
    secrets: Iterable[str],
    now: float,
    tolerance: float = TOLERANCE,
) -> None:
    """Raise `BadSignature` unless one of the secrets has signed exactly these bytes, at about this time.

    The first three arguments and `signatures` come from the network: whatever they are, no other exception is raised.
    Every signature is compared with that of every secret, each in constant time, so the time that this takes tells
    nothing about the secrets.
    """
    if not isinstance(id, str) or not id:
        raise BadSignature(f"{ID}: is missing")
    if not isinstance(timestamp, str) or not _DIGITS.fullmatch(timestamp):
        raise BadSignature(f"{TIMESTAMP}: expected digits")
    if not isinstance(signatures, str):
        raise BadSignature(f"{SIGNATURE}: is missing")
    age = now - int(timestamp)
    if not abs(age) <= tolerance:
        raise BadSignature(
            f"{TIMESTAMP}: {abs(age):.0f} s {'ago' if age > 0 else 'ahead'}, expected at most {tolerance:g}"
        )
    try:
        signed = id.encode()
    except UnicodeEncodeError:
        raise BadSignature(f"{ID}: is not text") from None
    given = [found for found in map(_signature, signatures.split(" ")) if found is not None]
    if not given:
        raise BadSignature(f"{SIGNATURE}: has no signature of version v1")
    if len(given) > _MOST_SIGNATURES:
        raise BadSignature(f"{SIGNATURE}: has {len(given)} signatures, expected at most {_MOST_SIGNATURES}")
    matches = False
    for secret in secrets:
        key = _key(secret)
        if key is None:
            raise BadSignature(f"a secret is not {PREFIX} and the base64 of 24 to 64 bytes")
        expected = _digest(key, signed, timestamp.encode(), body)
        for each in given:
            matches |= hmac.compare_digest(each, expected)
    if not matches:
        raise BadSignature(f"{SIGNATURE}: no signature matches this request")


def verify_headers(
    headers: Mapping[str, str], body: bytes, secrets: Iterable[str], now: float, tolerance: float = TOLERANCE
) -> str:
    """As `verify`, for headers whose names are in lower case. Returns the id of the message."""
    id = headers.get(ID)
    verify(id, headers.get(TIMESTAMP), body, headers.get(SIGNATURE), secrets, now, tolerance)
    assert id is not None
    return id


def _digest(key: bytes, id: bytes, timestamp: bytes, body: bytes) -> bytes:
    mac = hmac.new(key, id + b"." + timestamp + b".", hashlib.sha256)
    mac.update(body)
    return mac.digest()


def _signature(text: str) -> bytes | None:
    version, _, encoded = text.partition(",")
    return _decoded(encoded) if version == "v1" else None


def _key(secret: object) -> bytes | None:
    if not isinstance(secret, str) or not secret.startswith(PREFIX):
        return None
    key = _decoded(secret.removeprefix(PREFIX))
    return key if key is not None and len(key) in SECRET_BYTES else None


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        return None
