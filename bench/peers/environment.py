"""An environment for each peer, under build/peers, made when it is first used and again when its pins change.

A Python peer has a virtual environment of the interpreter that runs the benchmark, or of a newer one that can be found
if that is too old for it. A Node peer has a node_modules; if the Node on PATH is too old for it, the npm package `node`
brings a newer one, whose version stands among the pins.
"""

from __future__ import annotations

import asyncio
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from pathlib import Path

from .peer import LeftOut, Peer

ROOT = Path(__file__).parents[2] / "build" / "peers"
PATIENCE = 600.0


async def command(peer: Peer) -> list[str]:
    """How the peer's driver is started; its environment stands when this returns. Raises LeftOut."""
    try:
        return await (_node(peer) if peer.node else _python(peer))
    except TimeoutError:
        raise LeftOut(f"{peer.package} could not be installed within {PATIENCE:.0f} s.") from None
    except OSError as problem:
        raise LeftOut(f"{peer.package} could not be installed: {problem}.") from problem


async def _python(peer: Peer) -> list[str]:
    interpreter = await _interpreter(peer.python)
    if interpreter is None:
        oldest = ".".join(map(str, peer.python))
        raise LeftOut(f"{peer.package} needs Python {oldest} or newer, and none was found on PATH or under pyenv.")
    place = ROOT / peer.name
    within = str(place / "bin" / "python")
    mark = _mark(peer, interpreter)
    if not _stands(place, mark):
        _clear(place)
        await _run(peer, interpreter, "-m", "venv", str(place))
        pip = (within, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        await _run(peer, *pip, "-r", str(peer.pins))
        (place / ".stands").write_text(mark)
    return [within, str(peer.driver)]


async def _interpreter(oldest: tuple[int, int]) -> str | None:
    names = [f"python3.{minor}" for minor in range(oldest[1], 20)]
    pyenv = glob.escape(os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv"))
    # Not Path.glob, which raises when the folder may not be read.
    installed = [path for name in names for path in sorted(glob.glob(f"{pyenv}/versions/*/bin/{name}"))]  # noqa: PTH207
    for candidate in (sys.executable, *names, *installed):
        # A name on PATH may be a shim without a Python behind it; only running it tells.
        code, _ = await _output(candidate, "-c", f"import sys, venv; sys.exit(sys.version_info < {oldest})")
        if code == 0:
            return candidate
    return None


async def _node(peer: Peer) -> list[str]:
    pins = json.loads(peer.pins.read_text())
    npm, system = shutil.which("npm"), shutil.which("node")
    if npm is None or system is None:
        raise LeftOut(f"{peer.package} needs Node and npm, and they are not on PATH.")
    oldest = int(re.sub(r"\D", "", pins["engines"]["node"]))
    place = ROOT / peer.name
    own = place / "node_modules" / "node" / "bin" / "node"
    fresh = await _major(system) >= oldest
    mark = _mark(peer, system if fresh else "own")
    if not _stands(place, mark):
        _clear(place)
        place.mkdir(parents=True)
        shutil.copy(peer.pins, place / "package.json")
        install = (npm, "install", "--prefix", str(place), "--no-audit", "--no-fund", "--no-package-lock", "--no-save")
        await _run(peer, *install, *([] if fresh else [f"node@{pins['config']['node']}"]))
        if not fresh and await _major(str(own)) < oldest:
            raise LeftOut(f"{peer.package} needs Node {oldest} or newer, and the npm package `node` brought none.")
        (place / ".stands").write_text(mark)
    return [system if fresh else str(own), str(peer.driver)]


async def _major(node: str) -> int:
    code, words = await _output(node, "--version")
    found = re.match(r"v(\d+)", words)
    return int(found[1]) if code == 0 and found else 0


def _mark(peer: Peer, runtime: str) -> str:
    """What an environment was made from."""
    return hashlib.sha256(f"{runtime} {platform.python_version()} {peer.pins.read_text()}".encode()).hexdigest()


def _stands(place: Path, mark: str) -> bool:
    written = place / ".stands"
    return written.exists() and written.read_text() == mark


def _clear(place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)


async def _run(peer: Peer, *words: str) -> None:
    print(f"    {peer.name}: {' '.join(Path(word).name for word in words[:4])} …", flush=True)
    code, said = await _output(*words)
    if code:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        blame = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else f"exit code {code}")
        # The words go into the figures, and those say nothing about addresses.
        raise LeftOut(f"{peer.package} could not be installed: {re.sub(r'[a-z+]+://[^ ]+', '…', blame)[:200]}")


async def _output(*words: str) -> tuple[int, str]:
    """Exit code and all that was said; 127 if there is no such program. Ends the process if we are stopped."""
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    except OSError as problem:
        return 127, str(problem)
    try:
        said, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        return process.returncode or 0, said.decode(errors="replace")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
