"""`holdfast contracts export` and `check`: what they write, say, and exit with. They need no database."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Shell

APP = """
import msgspec
from holdfast import Holdfast

hf = Holdfast()
empty = Holdfast()

@hf.event("order.paid", version=2)
class OrderPaid(msgspec.Struct):
    order_id: int
    total: str
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "shop.py").write_text(APP)
    return Shell(None, tmp_path)


def change(shell: Shell, old: str, new: str) -> None:
    file = shell.folder / "shop.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_export_to_a_file_and_to_standard_output(shell: Shell) -> None:
    printed = shell("contracts", "export", "shop:hf")
    assert (printed.code, printed.err) == (0, "")
    written = shell("contracts", "export", "shop:hf", "--out", "events.json")
    assert (written.code, written.out) == (0, "")
    assert written.err == "events.json: 1 contracts\n"
    assert (shell.folder / "events.json").read_text() == printed.out
    assert json.loads(printed.out)["info"]["title"] == "shop"
    assert [file.name for file in shell.folder.glob("*.new")] == []
    assert json.loads(shell("contracts", "export", "shop:empty").out)["channels"] == {}


def test_no_change(shell: Shell) -> None:
    shell("contracts", "export", "shop:hf", "--out", "events.json")
    answer = shell("contracts", "check", "shop:hf", "--against", "events.json")
    assert (answer.code, answer.out) == (0, "no changes since events.json\n")
    assert shell("contracts", "check", "shop:hf", "--against", "events.json", "--json").json == {
        "is_compatible": True, "breaking": [], "compatible": [], "advice": []
    }  # fmt: skip


def test_a_compatible_change(shell: Shell) -> None:
    shell("contracts", "export", "shop:hf", "--out", "events.json")
    change(shell, "    total: str", "    total: str\n    currency: str = 'EUR'")
    answer = shell("contracts", "check", "shop:hf", "--against", "events.json")
    assert answer.code == 0
    assert "compatible: published order.paid version 2: data.currency was added" in answer.out.splitlines()
    assert "All changes are compatible. Export them: holdfast contracts export" in answer.out


def test_an_incompatible_change(shell: Shell) -> None:
    shell("contracts", "export", "shop:hf", "--out", "events.json")
    change(shell, "    total: str", "    sum: str")
    answer = shell("contracts", "check", "shop:hf", "--against", "events.json")
    assert answer.code == 1
    assert answer.out == (
        "incompatible: published order.paid version 2: data.total was removed\n"
        "compatible: published order.paid version 2: data.sum is new and required\n"
        "\n"
        "What to do:\n"
        "  order.paid: leave version 2 as it was, and declare the change as a new version: "
        '@hf.event("order.paid", version=3)\n'
    )
    found = shell("contracts", "check", "shop:hf", "--against", "events.json", HOLDFAST_JSON="1")
    assert found.code == 1
    told = json.loads(found.out)
    assert told["is_compatible"] is False
    assert told["breaking"] == [{
        "role": "published", "source": None, "type": "order.paid", "version": 2, "path": "data.total",
        "rule": "property-removed", "message": "was removed",
    }]  # fmt: skip
    assert len(told["advice"]) == 1


def test_types_in_other_modules(shell: Shell) -> None:
    (shell.folder / "more.py").write_text("from shop import hf\nhf.event('raw', schema={'type': 'object'})\n")
    shell("contracts", "export", "shop:hf", "--import", "more", "--out", "events.json")
    gone = shell("contracts", "check", "shop:hf", "--against", "events.json")
    assert gone.code == 1
    assert "incompatible: published raw version 1: was removed" in gone.out
    assert shell("contracts", "check", "shop:hf", "--against", "events.json", "--import", "more").code == 0
    again = shell("contracts", "check", "shop:hf", HOLDFAST_CONTRACTS_CHECK_AGAINST="events.json",
                  HOLDFAST_CONTRACTS_CHECK_IMPORTS="more")  # fmt: skip
    assert again.code == 0, again.all


def test_an_export_that_is_missing_or_unreadable(shell: Shell) -> None:
    missing = shell("contracts", "check", "shop:hf", "--against", "events.json")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err == (
        "holdfast: events.json: there is no such file. Make one: "
        "holdfast contracts export shop:hf --out events.json\n"
    )  # fmt: skip
    (shell.folder / "events.json").write_text("{}")
    other = shell("contracts", "check", "shop:hf", "--against", "events.json")
    assert other.code == 2
    assert "events.json: expected an export, but it is not an AsyncAPI 3 document. Make one: " in other.err
    folder = shell("contracts", "check", "shop:hf", "--against", ".")
    assert folder.code == 2
    assert "could not be read" in folder.err


def test_an_application_that_cannot_be_loaded(shell: Shell) -> None:
    shell("contracts", "export", "shop:hf", "--out", "events.json")
    assert shell("contracts", "check", "shopp:hf", "--against", "events.json").code == 2
    assert shell("contracts", "export", "shopp:hf").code == 1
    assert shell("contracts", "check", "shop:hf").code == 2, "--against is needed"
    change(shell, "total: str", "total: object()")
    broken = shell("contracts", "check", "shop:hf", "--against", "events.json")
    assert broken.code == 2
    assert "shop could not be imported" in broken.err
