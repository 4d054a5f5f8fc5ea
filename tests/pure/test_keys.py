"""Keys and their sub-streams: requirement 76."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import InvalidInput, substream
from holdfast.model.keys import bucket

keys = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)


def test_published_sub_streams() -> None:
    # Other languages make the same: the first eight bytes of sha256(part), as an unsigned number, modulo `of`.
    assert substream("tenant:42", "order:9182") == "tenant:42#6"
    assert substream("tenant:42", 9182) == substream("tenant:42", "9182") == "tenant:42#5"
    assert substream("tenant:42", 9182, of=64) == "tenant:42#21"
    assert substream("tenant:42", 9182, of=1) == "tenant:42#0"


@given(keys, keys, st.integers(1, 1024))
def test_one_part_one_sub_stream(key: str, part: str, of: int) -> None:
    name = substream(key, part, of)
    assert substream(key, part, of) == name
    start, _, number = name.rpartition("#")
    assert start == key
    assert 0 <= int(number) < of


def test_parts_spread_over_sub_streams_and_those_over_buckets() -> None:
    counts = Counter(substream("tenant:42", n) for n in range(8000))
    assert len(counts) == 8
    assert all(850 < count < 1150 for count in counts.values())
    assert len({bucket(name) for name in counts}) > 4


@pytest.mark.parametrize(
    ("key", "part", "of", "field"),
    [
        ("", "a", 8, "key"), ("x" * 511, "a", 8, "key"), ("a\0b", "a", 8, "key"), (7, "a", 8, "key"),
        ("k", None, 8, "part"), ("k", True, 8, "part"), ("k", 1.5, 8, "part"), ("k", "\ud800", 8, "part"),
        ("k", "a", 0, "of"), ("k", "a", 1025, "of"), ("k", "a", True, "of"), ("k", "a", "8", "of"),
    ],
)  # fmt: skip
def test_bad_input_is_named(key: object, part: object, of: object, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        substream(key, part, of)  # type: ignore[arg-type]
    assert caught.value.field == field
