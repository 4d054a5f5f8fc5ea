"""Keys and their buckets: the same in SQL (`holdfast.bucket`), here and in any other language."""

from __future__ import annotations

import hashlib

BUCKETS = 1024
HASH_VERSION = 1
"""Both are also settings in the database; a release that counted or hashed otherwise would put keys elsewhere."""


def bucket(key: str) -> int:
    """The first ten bits of sha256 over the key's UTF-8 bytes."""
    digest = hashlib.sha256(key.encode()).digest()
    return digest[0] << 2 | digest[1] >> 6
