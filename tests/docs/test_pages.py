"""Every Python and SQL block of the README and the docs runs; every link leads somewhere."""

import ast
import asyncio
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.docs.conftest import run_jobs, run_python, run_sql
from tests.support.pages import PAGES, ROOT, blocks, name
from tests.support.pooler import direct

from holdfast import Holdfast

RUN = ("python", "sql")
OTHERS = ("", "sh", "text", "json", "toml", "console")


@pytest.mark.parametrize("page", PAGES, ids=name)
async def test_the_code_of_a_page_runs(
    page: Path, migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", migrated_url)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": f"page_{page.stem}", "run_jobs": run_jobs, "url": direct(migrated_url)}
    opened: set[Holdfast] = set()
    for block in blocks(page):
        if block.reason is not None:
            continue
        if block.language == "python":
            await run_python(block, names)
            opened |= {value for value in names.values() if isinstance(value, Holdfast)}
        elif block.language == "sql":
            await asyncio.to_thread(run_sql, block, migrated_url)
    for app in opened:
        await app.close()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_marked_with_their_language(page: Path) -> None:
    for block in blocks(page):
        known = block.language in RUN or block.language in OTHERS
        assert known or block.reason, f"{name(page)}:{block.line}: a block of {block.language!r} that nothing runs"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for label, target in re.findall(r"\[([^\]]+)\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{name(page)}: [{label}] leads to {target}, which is not there"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.M)
            assert anchor in {_anchor(heading) for heading in headings}, f"{name(page)}: no heading {target}"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


def test_every_page_is_in_the_index() -> None:
    docs = ROOT / "docs"
    index, runbook = ((docs / name).read_text(encoding="utf-8") for name in ("README.md", "runbook.md"))
    for page in docs.rglob("*.md"):
        if page.name != "README.md":
            where = runbook if page.parent.name == "runbook" else index
            assert f"({page.relative_to(docs)})" in where, name(page)


@pytest.mark.timeout(300)
def test_the_code_of_the_pages_type_checks(tmp_path: Path) -> None:
    """Each page's Python in one file, awaits moved into a function, under mypy --strict."""
    checked: list[str] = []
    for page in PAGES:
        shown = [block.text for block in blocks(page) if block.language == "python" and block.reason is None]
        if shown:
            file = tmp_path / f"page_{len(checked)}.py"
            file.write_text("from typing import Any\nrun_jobs: Any = None\nurl = ''\n" + _checkable("\n".join(shown)))
            checked.append(str(file))
    arguments = ["--strict", "--no-incremental", "--disable-error-code=no-redef", "--disable-error-code=empty-body"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments, "--disable-error-code=top-level-await", *checked],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(ROOT / "src")}, timeout=290,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def _checkable(code: str) -> str:
    """The code; if `async with` is at its top level, which mypy rejects, all but the imports is in a function."""
    body = ast.parse(code).body
    if not any(isinstance(node, ast.AsyncWith | ast.AsyncFor) for node in body):
        return code
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    inside = "\n".join(ast.unparse(node) for node in body if node not in imports)
    outside = "\n".join(ast.unparse(node) for node in imports)
    return f"{outside}\n\n\nasync def page() -> None:\n{textwrap.indent(inside, '    ')}\n"
