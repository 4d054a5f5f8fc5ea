"""The dashboard beside the demo: served by this process, because its buttons are about this process's children."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from socket import socket

from holdfast.errors import ConfigurationError

from .buttons import Buttons

PORT = 8321
TRIED = 50
MISSING = "not installed; for one: pip install 'holdfast[dashboard]'"


def installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("starlette", "uvicorn"))


def interactive() -> bool:
    """Does somebody sit in front of this?"""
    return sys.stdin.isatty() and sys.stdout.isatty()


@asynccontextmanager
async def front(buttons: Buttons) -> AsyncIterator[str]:
    """Serve it, on this machine only; yields the address of its page."""
    from holdfast.dashboard.application import Dashboard
    from holdfast.dashboard.serving import beside
    from holdfast.dashboard.settings import settings
    from holdfast.db.acting import own_name

    token = os.environ.get("HOLDFAST_DASHBOARD_TOKEN", "").strip() or None
    dashboard = Dashboard(buttons.app, settings(token=token, user=own_name()), buttons)
    with ExitStack() as stack:
        taken = _listening(stack)
        async with beside(dashboard, taken):
            yield f"http://127.0.0.1:{taken.getsockname()[1]}/#/demo"


def _listening(stack: ExitStack) -> socket:
    """The usual port, or the next that is free."""
    from holdfast.dashboard.serving import listening

    for port in range(PORT, PORT + TRIED):
        try:
            taken = stack.enter_context(listening("127.0.0.1", port))
            taken.listen(100)  # two may be bound to a port, but only one can listen
        except (ConfigurationError, OSError):
            continue
        return taken
    return stack.enter_context(listening("127.0.0.1", 0))


def show(address: str) -> None:
    """Open it in a browser with a window, if this session has windows."""
    if os.environ.get("SSH_CONNECTION") or not (
        sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return
    threading.Thread(target=_open, args=[address], name="browser", daemon=True).start()


def _open(address: str) -> None:
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is not webbrowser.GenericBrowser:  # such a one would take the terminal
        browser.open(address)
