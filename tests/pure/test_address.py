"""Database addresses: where they come from, what is refused, and that no message tells a secret."""

import pytest

from holdfast import ConfigurationError
from holdfast.db.database import hide_password, resolve_url

SECRET = "canary"


@pytest.fixture(autouse=True)
def no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)


def test_the_order_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_url() is None
    monkeypatch.setenv("DATABASE_URL", "postgres://b/x")
    assert resolve_url() == "postgresql://b/x"
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "postgresql+asyncpg://a/x")
    assert resolve_url() == "postgresql://a/x"
    assert resolve_url("postgresql://given/x") == "postgresql://given/x"


@pytest.mark.parametrize(
    "address",
    [
        f"password={SECRET} host=x",
        f"mysql://u:{SECRET}@h/x",
        f"postgresql://u:a/{SECRET}@h/x",
        f"postgresql://u:a#{SECRET}@h/x",
        f"postgresql://u:{SECRET}?b@h/x",
        f"postgresql://u:{SECRET}@h:port/x",
        f"postgresql://u:{SECRET}@[::1/x",
    ],
)
def test_a_refusal_tells_nothing_of_the_address(address: str) -> None:
    with pytest.raises(ConfigurationError, match="the database URL: expected") as refused:
        resolve_url(address)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None or SECRET not in str(refused.value.__cause__)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"postgresql://u:{SECRET}@h:5432/x", "postgresql://u:***@h:5432/x"),
        (f"postgresql://u:a%2F{SECRET}@h1:1,h2:2/x?password={SECRET}", "postgresql://u:***@h1:1,h2:2/x"),
        ("postgresql://h/x", "postgresql://h/x"),
    ],
)
def test_what_is_shown_holds_no_password(address: str, shown: str) -> None:
    assert hide_password(address) == shown
