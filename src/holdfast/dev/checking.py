"""Can this application be imported? The program for that: `python -m holdfast.dev.checking app:hf`.

Its last line on standard output is a JSON object: the tasks, and the names of their arguments. If the
import fails, it says why, and exits with 78.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..demo.children import PARENT_DEATH

PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Checked:
    """What an import gave: the tasks with the names of their arguments, or the problem, in words."""

    tasks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    problem: str | None = None


def check(app: str, environment: Mapping[str, str], stop: Callable[[], bool]) -> Checked:
    """Import the application in a process of its own, because modules cannot be imported a second time in this one."""
    command = [
        sys.executable, "-I", "-S", str(PARENT_DEATH), str(os.getpid()),
        sys.executable, "-m", "holdfast.dev.checking", app,
    ]  # fmt: skip
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0
        )
        ended = _wait(process, stop)
        said, complained = (_text(file.fileno()) for file in (out, err))
    if not ended:
        return Checked(problem=f"{app} was not imported within {PATIENCE:.0f} s. Does it do work when it is imported?")
    if process.returncode == 0 and said:
        return Checked(tasks=json.loads(said.splitlines()[-1]))
    return Checked(problem=complained or said or f"importing {app} ended its process, with code {process.returncode}")


def _wait(process: subprocess.Popen[bytes], stop: Callable[[], bool]) -> bool:
    """Return whether it ended by itself; otherwise it is killed."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        if stop() or time.monotonic() > deadline:
            process.kill()
            process.wait()
            return False
        time.sleep(0.02)
    return True


def _text(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace").strip()


def main() -> None:
    from ..errors import ConfigurationError
    from ..loading import load_app
    from ..worker.exit_codes import CONFIGURATION

    try:
        app = load_app(sys.argv[1])
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(CONFIGURATION)
    tasks = {name: task._definition.arguments.names for name, task in sorted(app.tasks.items())}
    sys.stdout.write("\n" + json.dumps(tasks) + "\n")
    sys.stdout.flush()
    os._exit(0)  # threads that the module has started must not keep this process


if __name__ == "__main__":
    main()
