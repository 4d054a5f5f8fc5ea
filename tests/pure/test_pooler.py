"""How an application says that there is a pooler in between."""

import pytest

from holdfast import ConfigurationError, Holdfast

URL = "postgresql://nowhere/shop"


@pytest.mark.parametrize(("word", "meant"), [("1", True), ("true", True), ("On", True), ("0", False), ("", False)])
def test_the_variable(monkeypatch: pytest.MonkeyPatch, word: str, meant: bool) -> None:
    monkeypatch.setenv("HOLDFAST_POOLER", word)
    assert Holdfast(URL)._database.pooler is meant


def test_what_the_application_says_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("0", "1"):
        monkeypatch.setenv("HOLDFAST_POOLER", word)
        assert Holdfast(URL, pooler=True)._database.pooler
        assert not Holdfast(URL, pooler=False)._database.pooler
    monkeypatch.delenv("HOLDFAST_POOLER")
    assert not Holdfast(URL)._database.pooler


def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_POOLER", "perhaps")
    with pytest.raises(ConfigurationError, match="HOLDFAST_POOLER: expected 1 or 0, got 'perhaps'"):
        _ = Holdfast(URL)._database
