"""The commands that look at or set up queues and workers, as the pages show them, run."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from tests.support.pages import PAGES, blocks, name

NAMES_A_WORKER = re.compile(r"workers drain (?!--)")
SHOWN = sorted(
    {
        (name(page), line.split("  #")[0].strip())
        for page in PAGES
        for block in blocks(page)
        if block.language == "sh" and block.reason is None
        for line in block.text.splitlines()
        if re.match(r"holdfast (queue|workers|schedule (list|add)) ", line) and not NAMES_A_WORKER.search(line)
    }
)


def test_there_are_some() -> None:
    assert {("docs/fleet.md", "holdfast queue set mail --ordered --on-failure block")} <= set(SHOWN)


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_a_command_of_a_page_runs(page: str, line: str, migrated_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", *shlex.split(line)[1:]],
        env={**os.environ, "HOLDFAST_DATABASE_URL": migrated_url}, input="", capture_output=True, text=True, timeout=99,
    )  # fmt: skip
    assert done.returncode == 0, f"{page}: {line}\n{done.stdout}{done.stderr}"
