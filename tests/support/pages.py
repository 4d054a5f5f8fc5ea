"""The pages that users read, and the code on them.

What runs, in the order of the page: fenced blocks of Python and SQL, and the same between `<!-- python` or `<!-- sql`
and `-->`, which readers do not see (preparations and checks). A block after `<!-- not run: reason -->` is left out.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n+)?"
    r"(?:```(?P<language>\w*)\n(?P<shown>.*?)^```$|<!-- (?P<hidden>python|sql)\n(?P<unseen>.*?)^-->$)",
    re.M | re.S,
)


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    """Of its first line of code."""
    language: str
    text: str
    reason: str | None = None
    """Why it is not run."""

    @property
    def placed(self) -> str:
        """The code with as many empty lines before it as the page has, so that errors name the page's line."""
        return "\n" * (self.line - 1) + self.text


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        group = "shown" if match["shown"] is not None else "unseen"
        line = text.count("\n", 0, match.start(group)) + 1
        found.append(Block(page, line, match["language"] or match["hidden"] or "", match[group], match["reason"]))
    return found
