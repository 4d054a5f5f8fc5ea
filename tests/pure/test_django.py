"""DATABASES of Django as a database URL: what is mapped, what is left out, what is refused."""

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from holdfast import CallNext, ConfigurationError, Context
from holdfast.contrib.django import DjangoHoldfast, url_of
from holdfast.db.urls import hide_password, resolve_url


def url(**database: Any) -> str:
    made = resolve_url(url_of({"NAME": "shop", **database}))
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        ({}, "postgresql:///shop"),
        ({"USER": "me", "HOST": "db", "PORT": 5433}, "postgresql://me@db:5433/shop"),
        ({"USER": "me", "HOST": "::1", "PORT": "5433"}, "postgresql://me@[::1]:5433/shop"),
        ({"USER": "me", "HOST": "a,b", "PORT": "1,2"}, "postgresql://me@a:1,b:2/shop"),
        ({"HOST": "a,b", "PORT": "1"}, "postgresql://a:1,b:1/shop"),
        ({"USER": "me", "HOST": "/run/pg", "PORT": "5433"}, "postgresql://me@/shop?host=%2Frun%2Fpg&port=5433"),
        ({"PORT": "5433"}, "postgresql:///shop?port=5433"),
        ({"NAME": None}, "postgresql:///postgres"),
        ({"NAME": "", "OPTIONS": {"service": "shop"}}, "postgresql:///?service=shop"),
        ({"NAME": "shop", "OPTIONS": {"service": "x", "dbname": "other"}}, "postgresql:///other?service=x"),
        ({"OPTIONS": {"passfile": "/run/my pass"}}, "postgresql:///shop?passfile=%2Frun%2Fmy%20pass"),
        ({"OPTIONS": {"sslmode": "verify-full", "sslrootcert": "/ca"}}, "postgresql:///shop?sslmode=verify-full&sslrootcert=%2Fca"),
        ({"OPTIONS": {"options": "-c search_path=shop,public"}}, "postgresql:///shop?options=-c%20search_path%3Dshop%2Cpublic"),
        ({"OPTIONS": {"assume_role": "the owner"}}, "postgresql:///shop?options=-c%20role%3Dthe%5C%20owner"),
        ({"OPTIONS": {"pool": True, "isolation_level": 3, "server_side_binding": True}}, "postgresql:///shop"),
        ({"OPTIONS": {"connect_timeout": 5, "client_encoding": "UTF8"}}, "postgresql:///shop"),
    ],
)  # fmt: skip
def test_what_is_mapped(database: dict[str, Any], expected: str) -> None:
    assert url(**database) == expected


def test_a_password_of_any_letters_is_kept_and_not_shown() -> None:
    made = url(USER="m/e@", PASSWORD="c4n:ary/#?@%", HOST="db")
    parts = urlsplit(made)
    assert (unquote(parts.username or ""), unquote(parts.password or "")) == ("m/e@", "c4n:ary/#?@%")
    assert hide_password(made) == "postgresql://m%2Fe%40:***@db/shop"


@pytest.mark.parametrize(
    ("database", "said"),
    [
        ({"NAME": ""}, "DATABASES['replica']: has no NAME"),
        ({"OPTIONS": {"hostaddr": "c4nary"}}, "DATABASES['replica']['OPTIONS']: Holdfast cannot apply 'hostaddr'. L"),
        ({"OPTIONS": {"sslmode": ["c4nary"]}}, "DATABASES['replica']['OPTIONS']['sslmode']: expected text, got list"),
    ],
)  # fmt: skip
def test_what_is_refused(database: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        url_of({"NAME": "shop", **database}, "replica")
    assert str(refused.value).startswith(said)
    assert "c4nary" not in str(refused.value)


def test_its_own_middleware_covers_nothing_of_yours() -> None:
    hf = DjangoHoldfast()

    @hf.task
    def in_thread() -> None: ...

    assert hf._surrounded()["in_thread"].function is not in_thread._definition.function

    @hf.middleware
    async def timed(ctx: Context, call_next: CallNext) -> None: ...

    with pytest.raises(ConfigurationError, match="in_thread is a sync handler, and no middleware runs around it"):
        hf._surrounded()
