"""The dashboard: a web page that shows an installation and acts on it.

    browser ──▶ gate ──▶ pages/*.py ──▶ reading ──▶ a pool of 4, read-only, 2 s a statement
                 │            └───────▶ acting  ──▶ the verbs of `Holdfast`, as a named actor
                 └────▶ live: one poller for all viewers, 1 a second, asleep without

- Nothing here computes a number or changes a row by itself: pages ask `views/` and the operating functions of the
  rooms, actions are the verbs that applications and commands have.
- The gate is in front of everything but the files of the page itself, which hold no data: the host is one that is
  listed, the session is signed, a write comes from our own page.
- What came from outside (payloads, errors, names) leaves as JSON, masked here, and is shown as text.
- No request counts rows: lists are read by key, 50 at a time; numbers are stored gauges.

It needs `holdfast[dashboard]`. Nothing else imports this package, so a worker runs without it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .application import Dashboard

__all__ = ["Dashboard"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "Dashboard":  # imported when it is used: `settings` of this package need no web framework
            from .application import Dashboard

            return Dashboard
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
