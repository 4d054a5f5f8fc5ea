"""An application that takes its time in a handler's own process: each notes its pid, and the first ones misbehave.

HOLDFAST_TEST_START names a folder. A process waits as long as there is a file `wait` in it; where there is a file
`memory`, it is out of memory.
"""

import os
import sys
import time
from pathlib import Path

from holdfast import Holdfast

VARIABLE = "HOLDFAST_TEST_START"
hf = Holdfast()


@hf.task(process=True)
def compute() -> int:
    return 42


if (
    sys.modules["__main__"].__spec__ is not None
    and sys.modules["__main__"].__spec__.name == "holdfast.processes.handler_process"
):
    folder = Path(os.environ[VARIABLE])
    (folder / f"pid-{os.getpid()}").touch()
    while (folder / "wait").exists():
        time.sleep(0.01)
    if (folder / "memory").exists():
        raise MemoryError
