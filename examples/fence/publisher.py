"""Jobs that write one document each; several may write the same one."""

import os
import signal
import time
from pathlib import Path

from examples.fence import store
from holdfast import Context, Holdfast, LeaseLost

hf = Holdfast()


@hf.task(max_attempts=5)
def publish(ctx: Context, file: str, name: str, body: str) -> None:
    _sleep_here_for_the_demonstration(Path(file).parent / f"stop {body}")
    try:
        store.write(Path(file), name, body, ctx.fence)
    except LeaseLost as refused:
        with (Path(file).parent / "refused").open("a") as log:
            log.write(f"{body}: {refused}\n")
        raise


def _sleep_here_for_the_demonstration(asked: Path) -> None:
    """Stop this process once, as a suspended machine would, if a file asks for it."""
    if asked.exists():
        asked.rename(asked.with_name(asked.name.replace("stop", "stopped")))
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.5)  # the signal stops all threads, but this one may continue for a moment
