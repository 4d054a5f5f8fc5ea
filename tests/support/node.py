"""The simulations' modules in Node."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HARNESS = Path(__file__).resolve().parents[1] / "simulations" / "harness.mjs"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not on PATH; .ci/run installs it")


def ask(what: str, **more: Any) -> Any:
    """Ask the harness; its answer."""
    done = subprocess.run(
        ["node", str(HARNESS)], input=json.dumps({"what": what, **more}), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
