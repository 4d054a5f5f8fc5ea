"""Database URLs: where they come from, what is refused, and that no message tells a secret."""

import inspect
import re

import asyncpg.connect_utils
import pytest

from holdfast import ConfigurationError, Holdfast
from holdfast.db.database import Database
from holdfast.db.urls import APPLIED, IGNORED, hide_password, resolve_url

SECRET = "canary"


@pytest.fixture(autouse=True)
def no_url_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)


def test_the_order_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_url() is None
    monkeypatch.setenv("DATABASE_URL", "postgres://b/x")
    assert resolve_url() == "postgresql://b/x"
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "postgresql+asyncpg://a/x")
    assert resolve_url() == "postgresql://a/x"
    assert resolve_url("postgresql://given/x") == "postgresql://given/x"


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "")
    assert resolve_url() is None


def test_parameters_that_only_libpq_knows_are_left_out() -> None:
    hosted = "postgresql://h/x?sslmode=require&channel_binding=require&connect_timeout=10&keepalives_idle=30"
    assert resolve_url(hosted) == "postgresql://h/x?sslmode=require"
    assert resolve_url("postgresql://h/x?connect_timeout=10") == "postgresql://h/x"
    assert resolve_url("postgresql:///x?host=%2Ftmp&user=a%40b") == "postgresql:///x?host=%2Ftmp&user=a%40b"


def test_what_the_driver_knows_is_passed_on() -> None:
    """asyncpg takes what it does not know for a setting of the server; so the list is held against its own source."""
    source = inspect.getsource(asyncpg.connect_utils)
    asked = set(re.findall(r"'(\w+)' in query", source))
    assert asked
    assert asked | {"application_name", "options"} == APPLIED
    assert not APPLIED & IGNORED


@pytest.mark.parametrize(
    "parameter", ["foo=bar", "hostaddr=10.0.0.1", "require_auth=scram-sha-256", "gssencmode=require", "foo"]
)
def test_an_unknown_parameter_is_named(parameter: str) -> None:
    with pytest.raises(ConfigurationError, match=f"got '{parameter.partition('=')[0]}'. Leave it out"):
        resolve_url(f"postgresql://u:{SECRET}@h/x?sslmode=require&{parameter}")


def test_an_unknown_sslmode() -> None:
    with pytest.raises(ConfigurationError, match=r"sslmode: expected one of disable, .* verify-full"):
        resolve_url("postgresql://h/x?sslmode=always")


def test_what_is_shown_without_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER"):
        monkeypatch.delenv(name, raising=False)
    assert "set HOLDFAST_DATABASE_URL" in str(Database(None).unreachable(OSError("no")))
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    said = str(Database(None).unreachable(OSError("no")))
    assert said == "cannot reach the server at PGHOST=db.example: OSError: no"
    assert "HOLDFAST_DATABASE_URL" not in str(Database("postgresql://h/x").unreachable(OSError("no")))


def test_the_schema_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SCHEMA", "work_b")
    assert Holdfast()._database.schema == "work_b"
    assert Holdfast(schema="given")._database.schema == "given"
    monkeypatch.setenv("HOLDFAST_SCHEMA", "")
    assert Holdfast()._database.schema == "holdfast"


@pytest.mark.parametrize(
    "url",
    [
        f"password={SECRET} host=x",
        f"mysql://u:{SECRET}@h/x",
        f"postgresql://u:a/{SECRET}@h/x",
        f"postgresql://u:a#{SECRET}@h/x",
        f"postgresql://u:{SECRET}?b@h/x",
        f"postgresql://u:12?{SECRET}=@h/x",
        f"postgresql://u:{SECRET}@h:port/x",
        f"postgresql://u:{SECRET}@[::1/x",
    ],
)
def test_a_refusal_tells_nothing_of_the_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match="the database URL: expected") as refused:
        resolve_url(url)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None or SECRET not in str(refused.value.__cause__)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://u:{SECRET}@h:5432/x", "postgresql://u:***@h:5432/x"),
        (f"postgresql://u:a%2F{SECRET}@h1:1,h2:2/x?password={SECRET}", "postgresql://u:***@h1:1,h2:2/x"),
        ("postgresql://h/x", "postgresql://h/x"),
        ("postgresql:///x?host=/tmp", "postgresql:///x"),
    ],
)
def test_what_is_shown_holds_no_password(url: str, shown: str) -> None:
    assert hide_password(url) == shown
