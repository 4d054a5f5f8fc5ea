"""What goes wrong is a message that says what to do, never a traceback, and never a secret."""

import secrets
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from tests.cli.conftest import Answer, Shell

from holdfast.embedded import EmbeddedPostgres

READS = [["job", "list"], ["dead", "list"], ["queue", "list"], ["workers", "list"], ["stats"]]
WRITES = [
    ["enqueue", "greet"],
    ["queue", "pause", "mail", "--yes"],
    ["queue", "resume", "mail"],
    ["dead", "revive", "--all"],
]
CANARY = "c4nary-S3cret"


def is_message(answer: Answer) -> bool:
    return "Traceback" not in answer.all and answer.err.startswith("holdfast: ") and len(answer.err.splitlines()) <= 4


@pytest.mark.parametrize("words", READS + WRITES, ids=" ".join)
def test_no_schema(bare: Shell, words: list[str]) -> None:
    answer = bare(*words)
    assert answer.code == 1
    assert is_message(answer), answer.all
    assert "holdfast migrate" in answer.err


@pytest.mark.parametrize("words", [["stats"], ["enqueue", "greet"], ["migrate"], ["worker", "app:hf"]], ids=" ".join)
def test_a_wrong_scheme(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "app.py").write_text("from holdfast import Holdfast\nhf = Holdfast()\n")
    answer = Shell(f"mysql://me:{CANARY}@host/shop", tmp_path)(*words)
    assert answer.code == (78 if words[0] == "worker" else 1)
    assert is_message(answer), answer.all
    assert "postgresql://user@host/name" in answer.err
    assert CANARY not in answer.all


@pytest.mark.parametrize("words", [*READS, *WRITES, ["migrate"], ["migrate", "--check"]], ids=" ".join)
def test_an_unreachable_server(tmp_path: Path, words: list[str]) -> None:
    answer = Shell(f"postgresql://me:{CANARY}@127.0.0.1:1/shop", tmp_path)(*words)
    assert answer.code == 1
    assert is_message(answer), answer.all
    assert "cannot reach the server at postgresql://me:***@127.0.0.1:1/shop" in answer.err
    assert CANARY not in answer.all


@pytest.mark.parametrize("words", [["stats"], ["migrate"], ["health"]], ids=" ".join)
def test_a_forgotten_address(tmp_path: Path, words: list[str]) -> None:
    answer = Shell(None, tmp_path)(*words, PGPORT="1", DATABASE_URL="")
    assert answer.code == 1
    assert "cannot reach the server at PGPORT=1" in answer.all
    assert "set HOLDFAST_DATABASE_URL" in answer.all


def test_an_unknown_host(tmp_path: Path) -> None:
    answer = Shell(f"postgresql://me:{CANARY}@no-such-host.invalid/shop", tmp_path)("stats")
    assert answer.code == 1
    assert is_message(answer), answer.all
    assert CANARY not in answer.all


def test_a_wrong_password(tmp_path: Path) -> None:
    with EmbeddedPostgres() as server:  # one that asks for passwords, whatever the one under test does
        parts = urlsplit(server.url)
        place = parts.netloc.rpartition("@")[2]
        shell = Shell(urlunsplit(parts._replace(netloc=f"{parts.username}:{CANARY}@{place}")), tmp_path)
        for words in (["stats"], ["migrate"], ["health"]):
            answer = shell(*words)
            assert answer.code == 1
            assert "Traceback" not in answer.all
            assert "authentication failed" in answer.all
            assert CANARY not in answer.all


def test_a_database_that_does_not_exist(shell: Shell) -> None:
    assert shell.url is not None
    shell.url = urlunsplit(urlsplit(shell.url)._replace(path="/nowhere"))
    for words in (["stats"], ["migrate"]):
        answer = shell(*words)
        assert answer.code == 1
        assert is_message(answer), answer.all
        assert "nowhere" in answer.err


def test_a_role_without_rights(shell: Shell) -> None:
    assert shell.url is not None
    role, owner = f"stranger_{secrets.token_hex(4)}", shell.url
    shell.sql(f"create role {role} login password '{CANARY}'")
    try:
        place = urlsplit(owner).netloc.rpartition("@")[2]
        shell.url = urlunsplit(urlsplit(owner)._replace(netloc=f"{role}:{CANARY}@{place}"))
        for words, said in (
            (["stats"], "docs/sql.md#roles"),
            (["enqueue", "greet"], "docs/sql.md#roles"),
            (["migrate"], "a role that owns the schema 'holdfast'"),
            (["migrate", "--schema", "other"], "grant create on database"),
        ):
            answer = shell(*words)
            assert answer.code == 1
            assert is_message(answer), answer.all
            assert answer.err.startswith("holdfast: permission denied")
            assert said in answer.err
            assert CANARY not in answer.all
    finally:
        shell.url = owner
        shell.sql(f"drop role {role}")


def test_the_command_to_migrate_names_the_schema(bare: Shell) -> None:
    for words in (["stats"], ["health"], ["enqueue", "greet"]):
        assert "Run: holdfast migrate --schema work_b" in bare(*words, "--schema", "work_b").all


def test_a_hint_of_the_server_is_said_once(shell: Shell) -> None:
    shell("enqueue", "greet", '{"n": 1}', "--idempotency-key", "once")
    answer = shell("enqueue", "greet", '{"n": 2}', "--idempotency-key", "once")
    assert answer.err.count("Use a new key") == 1
    assert is_message(answer), answer.all


def test_a_server_without_ssl(tmp_path: Path) -> None:
    with EmbeddedPostgres() as server:  # one that has none, whatever the one under test does
        for words in (["stats"], ["migrate"], ["health"]):
            answer = Shell(f"{server.url}?sslmode=require", tmp_path)(*words)
            assert answer.code == 1
            assert "the server has no SSL, but sslmode requires it" in answer.all
            assert "cannot reach" not in answer.all


@pytest.mark.parametrize("words", [["show"], ["replay", "--route", "bus", "--event"]], ids=" ".join)
def test_a_bad_id_of_an_event(shell: Shell, words: list[str]) -> None:
    answer = shell("outbox", *words, "nope")
    assert answer.code == 2
    assert "expected an event id (a UUID), got 'nope'; see holdfast outbox list" in answer.err


@pytest.mark.parametrize("words", [["job", "show"], ["job", "cancel", "--yes"], ["dead", "revive"]], ids=" ".join)
def test_a_bad_id(shell: Shell, words: list[str]) -> None:
    answer = shell(*words, "not-a-uuid")
    assert answer.code == 2
    assert "expected a job id (a UUID), got 'not-a-uuid'" in answer.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{order_id: 1}", "arguments: are not JSON"),
        ("hello", """write an object, such as '{"name": "Ada"}'"""),
        ("[1]", """arguments: expected a JSON object, such as '{"name": "Ada"}'; got list"""),
        ('{"a": NaN}', "arguments: are not JSON"),
        ('{"a": "\\u0000"}', "NUL"),
        ('{"type": "x"}', "type: cannot be the name of an argument"),
    ],
)
def test_bad_json(shell: Shell, arguments: str, said: str) -> None:
    answer = shell("enqueue", "greet", arguments)
    assert answer.code == 1
    assert is_message(answer), answer.all
    assert said in answer.err
    assert shell.sql("select count(*) as n from holdfast.inbox") == [{"n": 0}]


@pytest.mark.parametrize("schema", ["Robert'); drop", "UPPER", "a-b", ""])
def test_a_bad_schema(shell: Shell, schema: str) -> None:
    answer = shell("stats", "--schema", schema)
    assert answer.code == 1
    assert is_message(answer), answer.all
    assert "schema: expected a lower-case name" in answer.err


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("nothing", "expected module:attribute"),
        ("missing_module:hf", "there is no module 'missing_module'"),
        ("app:nothing", "but app has no 'nothing'. It has app:hf"),
        ("app:number", "got a int. It has app:hf"),
        ("bare:hf", "but bare has no 'hf'. There is none in bare; make one: hf = Holdfast()"),
        ("app.py:hf", "expected a module, such as app:hf, not a file"),
        ("./app.py:hf", "expected a module, such as app:hf, not a file"),
        ("shop/jobs.py:hf", "expected a module, such as shop.jobs:hf, not a file"),
        ("..:hf", "expected a module, such as shop.jobs:hf"),
    ],
)
def test_an_app_that_is_not_there(tmp_path: Path, app: str, said: str) -> None:
    (tmp_path / "app.py").write_text("from holdfast import Holdfast\nhf = Holdfast()\nnumber = 1\n")
    (tmp_path / "bare.py").write_text("")
    answer = Shell(None, tmp_path)("worker", app)
    assert answer.code == 78
    assert is_message(answer), answer.all
    assert said in answer.err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("def f(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("from holdfast import Holdfast\nhf = Holdfast()\nhf.task('greet')", "write @hf.task(name='greet')"),
    ],
)
def test_an_app_that_cannot_be_imported(tmp_path: Path, code: str, said: str) -> None:
    (tmp_path / "app.py").write_text(code)
    answer = Shell(None, tmp_path)("worker", "app:hf")
    assert answer.code == 78
    assert answer.err.startswith("holdfast: app: app could not be imported:\n")
    assert said in answer.err
    assert answer.err.count("  File ") == 1, "only theirs"
    assert 'app.py", line' in answer.err


def test_a_worker_without_tasks(shell: Shell) -> None:
    (shell.folder / "app.py").write_text("from holdfast import Holdfast\nhf = Holdfast()\n")
    answer = shell("worker", "app:hf")
    assert answer.code == 78
    assert "has no tasks" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--lease", "soon"], "expected a duration"),
        (["--lease", "10ms"], "lease: expected at least 0.3 s"),
        (["-c", "0"], "concurrency: expected more than zero"),
        (["-c", "5000"], "expected at most 1000 per process"),
        (["--processes", "0"], "expected at least 1, got 0"),
    ],
)
def test_bad_settings_of_a_worker(shell: Shell, flags: list[str], said: str) -> None:
    (shell.folder / "app.py").write_text("from holdfast import Holdfast\nhf = Holdfast()\n")
    answer = shell("worker", "app:hf", *flags)
    assert answer.code in (2, 78)
    assert said in answer.err
    assert "Traceback" not in answer.err
