"""Version-7 UUIDs made by the producer, outside any retry, so that repeating with the same id is safe.

They sort roughly by time, which keeps the primary key's index compact. They give no order: `seq` does.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import NewType

JobId = NewType("JobId", uuid.UUID)


def new_id() -> JobId:
    """48 bits of milliseconds, then 74 random bits."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | random
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return JobId(uuid.UUID(int=value))
