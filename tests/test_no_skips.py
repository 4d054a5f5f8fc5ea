"""The setting under which a test that does not run fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = {
    "skip": "def test(): pytest.skip('x')",
    "mark": "@pytest.mark.skip(reason='x')\ndef test(): pass",
    "xfail": "@pytest.mark.xfail(reason='x')\ndef test(): assert False",
    "module": "pytest.skip('x', allow_module_level=True)",
    "fixture": "@pytest.fixture\ndef f(): pytest.skip('x')\ndef test(f): pass",
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("setting", ["0", "1"])
def test_skips_fail_only_under_the_setting(case: str, setting: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(f"import pytest\n{CASES[case]}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plugin = ["-p", "tests.support.no_skips", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, str(tmp_path)],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "HOLDFAST_NO_SKIPS": setting},
        capture_output=True,
        text=True,
    )
    failed = result.returncode not in (0, 5)
    assert failed == (setting == "1"), result.stdout
    assert ("HOLDFAST_NO_SKIPS=1 allows no skips" in result.stdout) == (setting == "1")
