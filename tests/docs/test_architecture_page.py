"""What the pages for contributors point to is there: files, folders, tests."""

import re
from pathlib import Path

import pytest
from tests.support.pages import ROOT, name

PAGES = [ROOT / "docs" / "architecture.md", ROOT / "docs" / "internals.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = ("src", "tests", "docs", "ops", "tools", "bench", ".ci")
MADE = ("build/", ".venv/")
"""What commands make."""


@pytest.fixture(scope="module")
def there() -> set[str]:
    """All files and folders, with a slash before their path."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")] + list(ROOT.iterdir())
    return {f"/{path.relative_to(ROOT)}" for path in found}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_the_page_names_is_there(page: Path, there: set[str]) -> None:
    """A path may be written without its beginning, such as `inbox/claim.sql`; words in capitals stand for others."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    words = {word for word in re.findall(r"`([\w./]+?)/?`", text) if not re.search("[A-Z]{4}", word)}
    paths = {word for word in words if re.search(r"\w/|\w\.(py|sql|js|json|md|txt|toml)$", word)}
    assert len(paths) > 5
    gone = {path for path in paths if not any(file.endswith(f"/{path}") for file in there)}
    assert [path for path in sorted(gone) if not path.startswith(MADE)] == [], f"{name(page)} names what is not there"
    tests = "".join(
        (ROOT / file[1:]).read_text(encoding="utf-8") for file in there if re.search(r"/test_\w+\.py$", file)
    )
    assert [word for word in words if re.fullmatch(r"test_\w+", word) and f"def {word}(" not in tests] == []
