"""What a producer and a consumer share: how they are made, and the prefix of attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

PREFIX = "ce_"
SILENT = {"log_level": 2}
"""librdkafka writes a line to standard error for each attempt to connect, twenty a second. Its errors reach us, too."""


def made(kind: Callable[[dict[str, Any]], Any], settings: dict[str, Any], failed: Callable[[KafkaError], None]) -> Any:
    from confluent_kafka import KafkaException

    try:
        return kind({**settings, "error_cb": failed})
    except KafkaException as error:  # before any connection: a setting is wrong
        raise ConfigurationError(f"config: {error.args[0].str()}") from None


def reach(client: Producer | Consumer, timeout: float) -> str | None:
    """Return None as soon as the cluster answers: librdkafka connects only when it must. Otherwise, return why not."""
    from confluent_kafka import KafkaException

    try:
        client.list_topics(timeout=timeout)
    except KafkaException as error:
        client.poll(0)  # calls error_cb, which knows more
        return str(error.args[0].str())
    return None


def checked_servers(servers: str | Sequence[str]) -> str:
    text = servers if isinstance(servers, str) else ",".join(servers)
    if not text or "@" in text or "/" in text:
        raise ConfigurationError("servers: expected host:port, got something else; a password belongs in config")
    return text


def checked_config(config: Mapping[str, Any] | None, ours: set[str]) -> dict[str, Any]:
    given = dict(config or {})
    if taken := sorted(ours & given.keys()):
        raise ConfigurationError(f"config: {', '.join(taken)}: set by Holdfast; leave it out")
    return given
