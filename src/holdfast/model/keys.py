"""Keys and their buckets: the same in SQL (`holdfast.bucket`), here and in any other language."""

from __future__ import annotations

import hashlib

from ..errors import InvalidInput
from .limits import check_int, check_key, check_text

BUCKETS = 1024
HASH_VERSION = 1
"""Both are also settings in the database: with another count or hash, a release would put keys into other buckets."""


def bucket(key: str) -> int:
    """Return the first ten bits of the SHA-256 of the key's UTF-8 bytes."""
    digest = hashlib.sha256(key.encode()).digest()
    return digest[0] << 2 | digest[1] >> 6


def substream(key: str, part: str | int, of: int = 8) -> str:
    """Return one of `of` sub-streams of a hot key, such as `tenant:42#3`; always the same one for the same part.

    Jobs then run in order and one at a time within each sub-stream only. As the part, choose what must stay in order:
    for example, the number of the order if the key is the tenant. With another `of`, parts go to other sub-streams, so
    change it only when no jobs of the key are waiting.

    ```python
    key = holdfast.substream("tenant:42", part=9182, of=8)
    await send_receipt.options(key=key).enqueue(9182)
    ```
    """
    check_key("key", key)
    if isinstance(part, bool) or not isinstance(part, str | int):
        raise InvalidInput("part", f"expected text or a whole number, got {type(part).__name__}")
    check_int("of", of, 1, BUCKETS)
    digest = hashlib.sha256(check_text("part", str(part)).encode()).digest()
    return check_key("key", f"{key}#{int.from_bytes(digest[:8], 'big') % of}")
