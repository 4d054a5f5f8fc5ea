"""Buckets and ids, as published."""

import time
from uuid import RFC_4122

import pytest

from holdfast.model.ids import new_id
from holdfast.model.keys import bucket

VECTORS = {
    "": 910,
    "a": 810,
    "order:9182": 683,
    "ключ": 119,
    "naïve café": 163,
    "鍵": 113,
    "🔑": 791,
}
"""Keys and their buckets, as docs/sql.md has them: for whoever writes a producer in another language."""


@pytest.mark.parametrize(("key", "expected"), VECTORS.items())
def test_the_published_buckets(key: str, expected: int) -> None:
    assert bucket(key) == expected


def test_keys_spread_over_all_buckets() -> None:
    seen = {bucket(f"order:{n}") for n in range(20_000)}
    assert seen == set(range(1024))


def test_ids_are_of_version_7_and_carry_the_time() -> None:
    before = time.time_ns() // 1_000_000
    ids = [new_id() for _ in range(1000)]
    after = time.time_ns() // 1_000_000
    assert len(set(ids)) == 1000
    assert {(id.version, id.variant) for id in ids} == {(7, RFC_4122)}
    assert all(before <= id.int >> 80 <= after for id in ids)
