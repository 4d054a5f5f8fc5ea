"""The doctor behind a pooler."""

import pytest

from holdfast import Holdfast


@pytest.mark.pooled
async def test_a_pooler_in_between(migrated_url: str) -> None:
    hf = Holdfast(migrated_url)
    try:
        found = {finding.name: finding for finding in await hf.doctor()}
    finally:
        await hf.close()
    assert (found["notify"].level, found["pooler"].level, found["plan"].level) == ("warn", "ok", "ok")
    assert "and pooler=True is set" in found["pooler"].sentence
