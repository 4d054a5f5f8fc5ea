"""Who is asking: the token, the session's cookie, the secret of its forms.

The cookie holds a random name of the session, when it ends, and who it is, signed with HMAC-SHA256. The key is derived
from the token, so that a restart, or a second process, keeps the sessions; without a token it is random. The CSRF
secret is another HMAC over the same session: pages get it by a request that other sites cannot read.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass

LASTS = 12 * 3600
"""Seconds of a session."""
MOST_NAME = 80


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who may use the dashboard."""

    id: str
    user: str
    until: int


class Sessions:
    """Makes and reads cookies, with one key."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        seed = token.encode() if token is not None else secrets.token_bytes(32)
        self._key = hashlib.scrypt(seed, salt=b"holdfast dashboard", n=2**12, r=8, p=1, dklen=32)
        self.cookie = f"holdfast_{self._digest(b'name').hex()[:8]}"
        """Its name. Cookies do not know ports: two dashboards on one host must not overwrite each other's."""

    def knows(self, token: str) -> bool:
        """Is this the token? Takes as long for a wrong one."""
        expected = self._token or ""
        return hmac.compare_digest(token.encode(), expected.encode()) and bool(expected)

    def begin(self, user: str) -> Session:
        """Return a new session of this user."""
        return Session(secrets.token_urlsafe(18), user[:MOST_NAME], int(time.time()) + LASTS)

    def seal(self, session: Session) -> str:
        """Return the session as a cookie's value."""
        body = json.dumps([session.id, session.until, session.user], separators=(",", ":")).encode()
        return f"{_text(body)}.{_text(self._digest(b'session' + body))}"

    def unseal(self, value: str) -> Session | None:
        """Return the session of a cookie; None if it is not ours, was changed, or has ended."""
        body, _, signature = value.partition(".")
        try:
            raw, signed = _bytes(body), _bytes(signature)
        except ValueError:
            return None
        if not hmac.compare_digest(signed, self._digest(b"session" + raw)):
            return None
        id, until, user = json.loads(raw)
        return Session(id, user, until) if until > time.time() else None

    def csrf(self, session: Session) -> str:
        """Return what a write of this session must bring."""
        return _text(self._digest(b"csrf" + session.id.encode()))

    def _digest(self, message: bytes) -> bytes:
        return hmac.new(self._key, message, hashlib.sha256).digest()


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
