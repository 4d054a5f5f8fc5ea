"""What is checked before anything connects."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.brokers import program
from tests.support.messages import message

from holdfast import ConfigurationError
from holdfast.transports import Transport
from holdfast.transports.consuming import Consumer
from holdfast.transports.naming import Template, hide_secrets
from holdfast.transports.nats import Nats, NatsConsumer
from holdfast.transports.nats.link import _login
from holdfast.transports.redis import RedisConsumer, RedisStreams

MAKERS: list[Callable[[str], Any]] = [
    Nats,
    lambda url: NatsConsumer(url, "s", "d"),
    lambda url: RedisStreams(url, "s"),
    lambda url: RedisConsumer(url, "s", "g"),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("url", ["", "host:1", "amqp://me:secret@host", "nats://me:se/cret@host", "redis:secret"])
def test_a_url_of_another_kind_is_rejected_and_not_quoted(make: Callable[[str], Any], url: str) -> None:
    with pytest.raises(ConfigurationError, match="the URL: expected") as caught:
        make(url)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "made",
    [
        Nats("nats://me:secret@one:4222,nats://token-secret@two"),
        NatsConsumer("tls://me:secret@one?x=secret", "s", "d"),
        RedisStreams("rediss://me:secret@one:6379/3?password=secret", "shop.{type}"),
        RedisConsumer("redis://:secret@one", ["a", "b"], "books"),
    ],
)
def test_no_password_is_shown(made: Transport | Consumer) -> None:
    assert "one" in made.shown
    assert "secret" not in made.shown


def test_what_is_shown() -> None:
    assert Nats("nats://me:x@bus:4222", "shop.{type}").shown == "nats://bus:4222 shop.{type}"
    assert NatsConsumer("nats://bus", "SHOP", "books").shown == "nats://bus SHOP/books"
    assert RedisStreams("redis://bus/1", "shop").shown == "redis://bus/1 shop"
    assert RedisConsumer("redis://bus", ["a", "b"], "books").shown == "redis://bus a,b/books"
    assert hide_secrets("redis://a@b@c?password=d") == "redis://c"


def test_they_are_what_they_say() -> None:
    assert isinstance(Nats("nats://bus"), Transport)
    assert isinstance(RedisStreams("redis://bus", "shop"), Transport)
    assert isinstance(NatsConsumer("nats://bus", "s", "d"), Consumer)
    assert isinstance(RedisConsumer("redis://bus", "s", "g"), Consumer)


@pytest.mark.parametrize("text", ["", "shop.{kind}", "shop.{}", "shop.{type", "shop.type}", "{data}", "{type!r}"])
def test_a_template_that_means_nothing_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="the fields are type, source, key, tenant"):
        Nats("nats://bus", subject=text)


def test_templates() -> None:
    one = message(1, tenant="acme")
    assert Template("{tenant}.{source}-{type}.{key}", "subject").of(one) == "acme.shop-order.paid.order:1"
    assert Template("shop", "subject").of(one) == "shop"
    with pytest.raises(ValueError, match="needs a key, and the event has none"):
        Template("{key}", "subject").of(message(1, key=None))


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a*"])
def test_names_of_nats(name: str) -> None:
    with pytest.raises(ConfigurationError):
        NatsConsumer("nats://bus", name, "books")
    with pytest.raises(ConfigurationError):
        NatsConsumer("nats://bus", "SHOP", name)


def test_names_of_redis() -> None:
    for streams, group, name in (([], "g", "n"), ("s", "", "n"), ("s", "g", "")):
        with pytest.raises(ConfigurationError):
            RedisConsumer("redis://bus", streams, group, name=name)


@pytest.mark.parametrize(
    ("made", "module", "extra"),
    [
        (Nats("nats://bus"), "nats", "nats"),
        (NatsConsumer("nats://bus", "s", "d"), "nats", "nats"),
        (RedisStreams("redis://bus", "s"), "redis", "redis"),
        (RedisConsumer("redis://bus", "s", "g"), "redis", "redis"),
    ],
)
async def test_a_missing_library_is_named(
    made: Transport | Consumer, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'holdfast\[{extra}\]'"):
        await made.open()


def test_a_login_in_the_url_of_nats() -> None:
    assert _login("nats://me:a%40b%2F@one:4222") == ("nats://one:4222", {"user": "me", "password": "a@b/"})
    assert _login("tls://a%40b@one") == ("tls://one", {"token": "a@b"})
    assert _login("nats://one") == ("nats://one", {})


def test_a_broker_that_is_not_installed_is_named() -> None:
    with pytest.raises(pytest.skip.Exception, match=r"left out what needs it \(Debian: apt install it\)"):
        program("no-such-server", "Debian: apt install it")


def test_importing_a_transport_imports_no_library() -> None:
    code = (
        "import sys; import holdfast.transports.nats, holdfast.transports.redis; "
        "assert not {'nats', 'redis'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
