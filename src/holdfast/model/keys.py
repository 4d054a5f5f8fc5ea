"""Keys and their buckets: the same in SQL (`holdfast.bucket`), here and in any other language."""

from __future__ import annotations

import hashlib

from ..errors import InvalidInput
from .limits import check_int, check_key, check_text

BUCKETS = 1024
HASH_VERSION = 1
"""Both are also settings in the database; a release that counted or hashed otherwise would put keys elsewhere."""


def bucket(key: str) -> int:
    """The first ten bits of sha256 over the key's UTF-8 bytes."""
    digest = hashlib.sha256(key.encode()).digest()
    return digest[0] << 2 | digest[1] >> 6


def substream(key: str, part: str | int, of: int = 8) -> str:
    """One of `of` sub-streams of a hot key, such as `tenant:42#3`, always the same one for the same part.

    Order, and one at a time, then hold inside each sub-stream only: choose as part what must stay in order, such as the
    order's number where the key is the tenant's. Another `of` puts parts into other sub-streams; change it when none of
    the key's jobs are waiting.
    """
    check_key("key", key)
    if isinstance(part, bool) or not isinstance(part, str | int):
        raise InvalidInput("part", f"expected text or a whole number, got {type(part).__name__}")
    check_int("of", of, 1, BUCKETS)
    digest = hashlib.sha256(check_text("part", str(part)).encode()).digest()
    return check_key("key", f"{key}#{int.from_bytes(digest[:8], 'big') % of}")
