"""A child: a program in its own process group, which ends with this process. It writes to our terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from ..demo.children import PARENT_DEATH


class Child:
    def __init__(self, words: Sequence[str], environment: Mapping[str, str], quiet: bool = False) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(PARENT_DEATH), str(os.getpid()), sys.executable, "-m", "holdfast.cli",
             *words],
            env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if quiet else None,
            process_group=0,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def ask_to_end(self) -> None:
        if self.exit_code is None:
            self._process.terminate()

    def wait(self, seconds: float) -> bool:
        """Return whether it has ended within `seconds`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.exit_code is not None

    def kill(self) -> None:
        """With all that it has started: they are of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(10)
