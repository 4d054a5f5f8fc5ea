"""Import a module when something of it is used: producers and workers start without what only operators need."""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """Stands for a module until one of its names is used.

    A type checker is shown the import itself: `if TYPE_CHECKING: … else: name = LazyModule("holdfast.…")`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found
