"""Which release of the time zone rules this process uses. Hosts with different ones may disagree about slots."""

from __future__ import annotations

import zoneinfo
from pathlib import Path


def release() -> str:
    """Such as "2026a, from /usr/share/zoneinfo". As `zoneinfo` does, the rules of the host come before those of the
    package tzdata."""
    for folder in map(Path, zoneinfo.TZPATH):
        if (folder / "UTC").is_file():
            return f"{_of_folder(folder) or 'unknown'}, from {folder}"
    from importlib import metadata  # it takes longer than the rest of this package to import

    try:
        return f"{metadata.version('tzdata')}, from the package tzdata"
    except metadata.PackageNotFoundError:
        return "none"


def _of_folder(folder: Path) -> str | None:
    """Debian and others keep the rules beside their compiled form; their first line names the release."""
    for name, prefix in (("tzdata.zi", "# version "), ("+VERSION", "")):
        try:
            with (folder / name).open(encoding="utf-8") as file:
                line = file.readline(100).strip()
        except (OSError, UnicodeDecodeError):
            continue
        if line.startswith(prefix):
            return line.removeprefix(prefix)
    return None
