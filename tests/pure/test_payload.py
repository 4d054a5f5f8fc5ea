"""What goes in comes out, or is refused by name before anything is stored (P17)."""

import enum
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Holdfast, InvalidInput, InvalidPayload, Limits, Task
from holdfast.making import Maker
from holdfast.model.payload import encode, encode_value

app = Holdfast("postgresql://nobody@nowhere/none")


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


@dataclass
class Item:
    name: str
    price: Decimal


class Tagged(msgspec.Struct, tag="tagged", rename="camel"):
    unit_count: int


@app.task
def anything(value: Any) -> None: ...


@app.task
def typed(
    item: Item,
    struct: Tagged,
    when: datetime,
    day: date,
    id: UUID,
    price: Decimal,
    colour: Colour,
    size: Size,
    wait: timedelta,
    pair: tuple[int, str],
    by_id: dict[UUID, int],
    maybe: int | None = None,
) -> None: ...


def stored(task: Task[..., Any], *arguments: Any, **keywords: Any) -> str:
    """The payload that an enqueue would send."""
    return Maker(app.limits, task._definition, {}).one(arguments, keywords).payload


endless: list[Any] = []
endless.append(endless)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


REFUSED: dict[str, tuple[Any, str, str]] = {
    "nan": (math.nan, "value", "nan"),
    "infinity": ([1.0, math.inf], "value[1]", "inf"),
    "decimal NaN": (Decimal("NaN"), "value", "NaN"),
    "NUL": ({"text": "a\0b"}, "value.text", "NUL"),
    "NUL in a name": ({"a\0": 1}, "value.a\\x00", "NUL"),
    "bytes": ([{"raw": b"x"}], "value[0].raw", "base64"),
    "bytearray": (bytearray(b"x"), "value", "base64"),
    "lone surrogate in a name": ({"\ud800": 1}, "value.\\ud800", "surrogate"),
    "lone surrogate": ("\ud800", "value", "surrogate"),
    "set": ({1, 2}, "value", "sorted list"),
    "frozenset": (frozenset({1}), "value", "sorted list"),
    "depth": (nested(100), "value", "deeper than 100"),
    "contains itself": (endless, "value", "contains itself"),
    "name that is no text": ({1: 2}, "value.1", "not text"),
    "naive datetime": (datetime(2030, 1, 1), "value", "time zone"),  # noqa: DTZ001 - the point
    "naive datetime in a dataclass": (Item("x", datetime(2030, 1, 1)), "value.price", "time zone"),  # type: ignore[arg-type]  # noqa: DTZ001
    "an object": (object(), "value", "object"),
    "a class": (Item, "value", "type"),
    "a function": (print, "value", "builtin"),
    "a very large number": (2**64, "value", "64 bits"),
    "size": ("x" * 1024 * 1024, "payload", "1,048,576"),
}


@pytest.mark.parametrize(("value", "field", "word"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_stored_is_refused_by_name(value: Any, field: str, word: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        stored(anything, value)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")
    assert word in str(refused.value)


@app.task
def order(order_id: int, when: datetime | None = None, items: list[Item] | None = None) -> None: ...


MISFITS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "unknown argument": ((1,), {"colour": "red"}, "colour"),
    "missing argument": ((), {}, "order_id"),
    "given twice": ((1,), {"order_id": 1}, "order_id"),
    "too many": ((1, None, None, 4), {}, "arguments"),
    "text for a number": (("1",), {}, "order_id"),
    "a boolean for a number": ((True,), {}, "order_id"),
    "a fraction for a number": ((1.5,), {}, "order_id"),
    "no date": ((1,), {"when": "tomorrow"}, "when"),
    "deep inside": ((1,), {"items": [{"name": "a", "price": 1}, {"name": 2, "price": 1}]}, "items[1].name"),
    "missing inside": ((1,), {"items": [{"name": "a"}]}, "items[0]"),
}


@pytest.mark.parametrize(("arguments", "keywords", "field"), MISFITS.values(), ids=MISFITS.keys())
def test_what_the_task_does_not_take_is_refused_by_name(
    arguments: tuple[Any, ...], keywords: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidPayload) as refused:
        stored(order, *arguments, **keywords)
    assert refused.value.field == field


def test_the_deepest_and_the_largest_still_fit() -> None:
    assert stored(anything, nested(99))
    frame = len(encode("anything", {"value": ""}))
    assert len(stored(anything, "x" * (1024 * 1024 - frame))) == 1024 * 1024


def test_bytes_are_counted_not_characters() -> None:
    small = Limits(payload_bytes=60)
    assert encode("k", {"v": "x" * 30}, small)
    with pytest.raises(InvalidPayload, match="limit is 60"):
        encode("k", {"v": "é" * 30}, small)
    with pytest.raises(InvalidPayload, match=r"result: .*limit is 60"):
        encode_value("result", "é" * 30, small)


def test_typed_arguments_come_back_as_they_went() -> None:
    arguments = {
        "item": Item("pen", Decimal("1.10")),
        "struct": Tagged(unit_count=2),
        "when": datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        "day": date(2030, 1, 1),
        "id": UUID(int=7),
        "price": Decimal("0.10"),
        "colour": Colour.RED,
        "size": Size.LARGE,
        "wait": timedelta(minutes=90),
        "pair": (1, "a"),
        "by_id": {UUID(int=1): 1},
    }
    assert typed._definition.decode(stored(typed, **arguments), 1) == arguments | {"maybe": None}


@dataclass
class Folder:
    path: Path
    digests: frozenset[bytes]


@app.task
def soft(
    tags: set[str],
    raw: bytes,
    path: Path,
    folder: Folder | None = None,
    paths: list[PurePosixPath] | None = None,
    ids: set[UUID] | None = None,
) -> None: ...


def test_sets_bytes_and_paths_come_back_as_they_went() -> None:
    arguments = {
        "tags": {"b", "a", "c"},
        "raw": b"\0\xff",
        "path": Path("/srv/a.csv"),
        "folder": Folder(Path("b"), frozenset({b"y", b"x"})),
        "paths": [PurePosixPath("c")],
        "ids": {UUID(int=2), UUID(int=1)},
    }
    assert soft._definition.decode(stored(soft, **arguments), 1) == arguments
    assert soft._definition.decode(stored(soft, set(), b"", Path()), 1)["folder"] is None
    assert stored(soft, {"b", "a"}, b"x", Path("p")) == '{"type":"soft","tags":["a","b"],"raw":"eA==","path":"p"}'


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"raw": "not base64!"}, "raw"),
        ({"path": 7}, "path"),
        ({"tags": {1}}, "tags[0]"),
        ({"path": b"p"}, "path"),
        ({"tags": b"abc"}, "tags"),
        ({"folder": object()}, "folder"),
    ],
)
def test_what_does_not_fit_them_is_refused_by_name(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        stored(soft, **({"tags": set(), "raw": b"", "path": Path("p")} | wrong))
    assert refused.value.field.startswith(field)


def test_bytes_are_no_text() -> None:
    @app.task(name="takes_text")
    def takes_text(text: str) -> None: ...

    with pytest.raises(InvalidPayload, match="text: is bytes"):
        stored(takes_text, b"abc")


class Order(pydantic.BaseModel):
    id: int


@app.task
def ruled(
    cents: Annotated[int, pydantic.Field(gt=0)] = 1,
    few: list[Annotated[str, pydantic.Field(max_length=3)]] | None = None,
    short: Annotated[str, msgspec.Meta(max_length=3)] = "",
    positive: pydantic.PositiveInt = 1,
    raw: Annotated[bytes, pydantic.Field(max_length=2)] = b"",
    when: Annotated[datetime | None, pydantic.Field(description="then")] = None,
    tags: Annotated[set[str], pydantic.Field(min_length=1)] = frozenset("a"),  # type: ignore[assignment]
    orders: Annotated[list[Order], pydantic.Field(max_length=1)] = [],  # noqa: B006 - never changed
) -> None: ...


def test_rules_of_pydantic_and_of_msgspec_hold() -> None:
    arguments = {
        "cents": 5, "few": ["abc"], "short": "abc", "positive": 2, "raw": b"\xff\xfe", "tags": {"b", "a"},
        "when": datetime(2030, 1, 1, tzinfo=UTC), "orders": [Order(id=1)],
    }  # fmt: skip
    assert ruled._definition.decode(stored(ruled, **arguments), 1) == arguments


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cents": 0}, "greater than 0"),
        ({"cents": "5"}, "valid integer"),
        ({"few": ["abcd"]}, "at most 3 characters"),
        ({"short": "abcd"}, "length <= 3"),
        ({"positive": -1}, "greater than 0"),
        ({"raw": b"abc"}, "at most 2 bytes"),
        ({"tags": set()}, "at least 1 item"),
        ({"orders": [Order(id=1)] * 2}, "at most 1 item"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_name(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidPayload, match=said) as refused:
        stored(ruled, **wrong)
    assert refused.value.field == next(iter(wrong))
    plain = msgspec.json.encode({"type": "ruled"} | {name: to_plain(value) for name, value in wrong.items()}).decode()
    with pytest.raises(InvalidPayload, match=said):
        ruled._definition.decode(plain, 1)


def to_plain(value: Any) -> Any:
    return [each.model_dump() for each in value] if isinstance(value, list) and isinstance(value[0], Order) else value


def test_results_may_be_sets_bytes_and_paths() -> None:
    assert encode_value("result", {"a": {2, 1}, "b": b"x", "c": [Path("p")]}) == '{"a":[1,2],"b":"eA==","c":["p"]}'
    with pytest.raises(InvalidPayload, match=r"result\.a: is a object"):
        encode_value("result", {"a": object(), "b": {1}})


def test_the_payload_has_the_seeds_shape() -> None:
    assert stored(order, 7) == '{"type":"order","order_id":7}'
    later = stored(order, 7, datetime(2030, 1, 1, tzinfo=UTC))
    assert later == '{"type":"order","order_id":7,"when":"2030-01-01T00:00:00Z"}'


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_strict_json_comes_back_as_it_went(value: Any) -> None:
    assert anything._definition.decode(stored(anything, value), 1) == {"value": value}


ANYTHING_AT_ALL = st.recursive(
    st.none()
    | st.floats()
    | st.text()
    | st.binary()
    | st.integers()
    | st.datetimes()
    | st.decimals()
    | st.sets(st.integers()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@given(ANYTHING_AT_ALL)
def test_whatever_comes_is_stored_or_refused_and_never_anything_else(value: Any) -> None:
    try:
        text = stored(anything, value)
    except InvalidInput as refused:
        assert refused.field
        assert "\0" not in str(refused)
        str(refused).encode()  # it can be logged and stored
    else:
        assert "\0" not in text
        text.encode()
