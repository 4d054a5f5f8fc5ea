"""Webhooks: events as signed HTTP requests (Standard Webhooks) to endpoints that are rows of a table.

An event that matches the route `webhooks` has one delivery, which the relay turns into one for each endpoint
(`fanning.py`). These are claimed from one queue for all endpoints and sent by `transport.py`, through `sender.py`,
which guards our network (`addresses.py`). `operating.py` is what people do with endpoints.
"""

from .addresses import Policy
from .transport import Webhooks

__all__ = ["Policy", "Webhooks"]
