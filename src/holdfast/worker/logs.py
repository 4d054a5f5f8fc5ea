"""The log format of our processes."""

from __future__ import annotations

import logging

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


def log_to_stderr(level: str | int) -> None:
    logging.basicConfig(level=level, format=LOG_FORMAT)
