"""docs/api.md is what `make reference` writes, and every entry says what it does, with an example."""

import re

from tools import api_reference

import holdfast


def test_the_page_is_up_to_date() -> None:
    assert api_reference.PAGE.read_text(encoding="utf-8") == api_reference.page(), "run `make reference`"


def test_everything_that_is_exported_is_on_it() -> None:
    page = api_reference.page()
    for name in holdfast.__all__:
        if name != "__version__":
            assert f"### {name}\n" in page or f"| `{name}` |" in page, name


def test_every_entry_has_a_text_and_an_example() -> None:
    entries = re.split(r"^###+ ", api_reference.page(), flags=re.M)[1:]
    assert len(entries) > 60
    for entry in entries:
        name, _, rest = entry.partition("\n")
        shown = re.sub(r"<!-- not run: a signature -->\n```python\n.*?```\n", "", rest, flags=re.S)
        text = shown.partition("```")[0].strip()
        assert len(text) > 10, f"{name} has no docstring"
        # Starting and stopping by hand is what `async with hf.worker()` does.
        assert "```python" in shown or name in ("worker.start", "worker.stop"), f"{name} has no example"


def test_every_attribute_has_a_meaning() -> None:
    rows = [row for row in api_reference.page().splitlines() if row.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if not row.split(" | ")[-1].strip(" |")] == []
