"""Find an application by its address, `module:attribute`, what it serves, and a fast event loop if there is one."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..app import Holdfast
    from .settings import WorkerSettings


def load_app(address: str) -> Holdfast:
    """Import the module, from the current folder too, and return its Holdfast."""
    from ..app import Holdfast

    module_name, colon, attribute = address.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigurationError(f"app: expected module:attribute, such as shop.jobs:hf, got {address!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigurationError(f"app: there is no module {error.name!r} in {here} or on the path") from None
        raise
    app = getattr(module, attribute, None)
    if not isinstance(app, Holdfast):
        raise ConfigurationError(f"app: expected {address} to be a Holdfast, got {type(app).__name__}")
    return app


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop when it is installed (the extra `speed`), else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def served_queues(app: Holdfast, settings: WorkerSettings) -> list[str]:
    """The queues named, else those of the application's tasks."""
    return list(settings.queues) or sorted({task.definition.queue for task in app.tasks.values()})
