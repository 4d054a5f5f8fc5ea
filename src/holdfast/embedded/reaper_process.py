"""The program of the reaper process: a script for a bare interpreter, which imports nothing of Holdfast.

It starts the processes that its owner asks for, one at a time. When the owner has ended, it cleans up and ends.

Arguments: the owner's pid, the folder to remove, the uid and gid of the processes to start (empty: our own), and
whether to keep the folder (empty: no).
Standard input: one JSON array, an argument list, per line. When it closes, the owner has ended.
Standard output: lines ``{"pid": …}`` after a start, ``{"exit": …}`` after the end, ``{"error": …}`` if it failed.
Standard error: the log file, which the started processes inherit.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

GRACE = 10.0  # seconds for each step of the clean-up


class ReaperProcess:
    def __init__(self, owner: int, folder: Path, uid: int | None, gid: int | None, keep: bool) -> None:
        self.owner = owner
        self.keep = keep
        self.folder = folder
        self.uid = uid
        self.gid = gid
        self.argv: list[str] = []
        self.child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        for line in self.requests():
            self.argv = json.loads(line)
            try:
                self.child = self.spawn()
            except OSError as error:
                self.tell({"error": str(error)})
                continue
            self.tell({"pid": self.child.pid})
            threading.Thread(target=self.report_end, args=[self.child], daemon=True).start()
        self.clean_up()

    def requests(self) -> Iterator[bytes]:
        """Yield lines until the owner ends: the pipe closes or, if a fork of the owner holds it, our parent changes."""
        pending = b""
        while os.getppid() == self.owner:
            if not select.select([0], [], [], 0.5)[0]:
                continue
            received = os.read(0, 65536)
            if not received:
                return
            *lines, pending = (pending + received).split(b"\n")
            yield from lines

    def spawn(self) -> subprocess.Popen[bytes]:
        options = {
            "cwd": self.folder,
            "stdin": subprocess.DEVNULL,
            "stdout": 2,
            "start_new_session": True,
            "umask": 0o077,
        }
        if self.uid is not None:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return subprocess.Popen(self.argv, **options)  # type: ignore[call-overload,no-any-return]

    def report_end(self, child: subprocess.Popen[bytes]) -> None:
        self.tell({"exit": child.wait()})

    def tell(self, message: dict[str, object]) -> None:
        with contextlib.suppress(OSError):  # the owner has ended; standard input will close, too
            os.write(1, json.dumps(message).encode() + b"\n")

    def clean_up(self) -> None:
        if self.keep:
            if self.child is not None:
                self.end(self.child, signal.SIGINT)
            return
        if self.child is not None:
            self.end(self.child)
            self.free_shared_memory()
        deadline = time.monotonic() + GRACE
        while self.folder.exists() and time.monotonic() < deadline:
            shutil.rmtree(self.folder, ignore_errors=True)  # retried, because a process that is ending may still write
            if self.folder.exists():
                time.sleep(0.02)

    def end(self, child: subprocess.Popen[bytes], *first: signal.Signals) -> None:
        """Shut down immediately, because the data are not needed any more; or first try to do so in order."""
        if child.poll() is not None:
            return
        for number in (*first, signal.SIGQUIT):
            child.send_signal(number)
            child.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE)
                return
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def free_shared_memory(self) -> None:
        """After a crash, shared memory segments remain. Only a new start on the same data finds and removes them."""
        notes = self.folder / "data" / "postmaster.pid"
        if not notes.exists():
            return
        child = self.spawn()
        try:
            deadline = time.monotonic() + GRACE
            while child.poll() is None and time.monotonic() < deadline:
                lines: list[str] = []
                with contextlib.suppress(FileNotFoundError):  # it removes the old file, then writes its own
                    lines = notes.read_text().splitlines()
                if len(lines) >= 7 and lines[0] == str(child.pid):  # the seventh line names the new segment
                    break
                time.sleep(0.005)
        finally:
            self.end(child)


def main() -> None:
    # Handlers, not SIG_IGN, because started processes would inherit SIG_IGN.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    owner, folder, uid, gid, keep = sys.argv[1:]
    ReaperProcess(int(owner), Path(folder), int(uid) if uid else None, int(gid) if gid else None, bool(keep)).run()


if __name__ == "__main__":
    main()
