"""Make a real stale writer, and see it rejected."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.fence import store
from examples.fence.publisher import hf, publish
from holdfast.embedded import EmbeddedPostgres


async def until(fact: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not fact():
            await asyncio.sleep(0.05)


async def main(folder: Path) -> None:
    file, refused = folder / "documents.sqlite", folder / "refused"
    store.create(file)
    await hf.migrate()
    with worker() as sleeper:
        (folder / "stop old").touch()
        await publish.enqueue(str(file), "terms", "old")
        await until((folder / "stopped old").exists)
        print("a worker claimed the job and was stopped before it wrote")

        with worker():
            await until(lambda: store.read(file, "terms"))
            print(f"its lease expired; another worker wrote {store.read(file, 'terms')}")
            await publish.enqueue(str(file), "terms", "new")
            await until(lambda: (store.read(file, "terms") or ("",))[0] == "new")
            print(f"a later job wrote {store.read(file, 'terms')}")

        wake_children_of(sleeper)
        await until(lambda: refused.exists() and refused.read_text())
        print(f"the first worker continued: {refused.read_text().strip()}")
        print(f"the document is {store.read(file, 'terms')}")
    await hf.close()


@contextmanager
def worker() -> Iterator["subprocess.Popen[bytes]"]:
    flags = ["--lease", "2s", "--drain", "2s", "--housekeeping", "500ms", "--poll", "100ms", "--log-level", "WARNING"]
    process = subprocess.Popen([sys.executable, "-m", "holdfast.cli", "worker", "examples.fence.publisher:hf", *flags])
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()


def wake_children_of(process: "subprocess.Popen[bytes]") -> None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    for pid in children.split():
        os.kill(int(pid), signal.SIGCONT)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if os.environ.get("HOLDFAST_DATABASE_URL") or os.environ.get("DATABASE_URL"):
            asyncio.run(main(Path(folder)))
        else:
            with EmbeddedPostgres() as server:
                os.environ["HOLDFAST_DATABASE_URL"] = server.url
                asyncio.run(main(Path(folder)))
