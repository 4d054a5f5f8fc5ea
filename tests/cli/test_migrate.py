import secrets
import subprocess
import sys
from urllib.parse import urlsplit, urlunsplit

import psycopg
from tests.cli.conftest import Shell
from tests.support.pooler import direct


def test_migrating_twice_applies_once(bare: Shell) -> None:
    first, second = bare("migrate"), bare("migrate")
    assert first.code == second.code == 0, first.all + second.all
    assert first.out.splitlines()[0] == "applied foundation"
    assert "applied" not in second.out
    assert first.out.splitlines()[-1] == second.out.splitlines()[-1]


def test_two_at_once_are_safe(bare: Shell) -> None:
    command = [sys.executable, "-m", "holdfast.cli", "migrate"]
    both = [
        subprocess.Popen(command, env=bare.variables(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert "".join(said).count("applied foundation") == 1


def test_check_says_what_is_missing(bare: Shell) -> None:
    before = bare("migrate", "--check")
    assert before.code == 1
    assert before.out.splitlines()[0] == "missing: 0001 foundation"
    bare("migrate")
    after = bare("migrate", "--check")
    assert after.code == 0
    assert "as this release needs" in after.out
    assert bare.sql("select count(*) as n from holdfast.inbox") == [{"n": 0}]


def test_the_script_builds_what_migrate_builds(bare: Shell) -> None:
    script = Shell(None, bare.folder)("migrate", "--sql")
    assert script.code == 0, script.err
    assert bare.url is not None
    with psycopg.connect(direct(bare.url), autocommit=True) as connection:
        connection.execute(script.out)
    assert bare("migrate", "--check").code == 0
    assert "applied" not in bare("migrate").out


def test_a_newer_schema_is_refused(shell: Shell) -> None:
    shell.sql("insert into holdfast.migrations (version, name) values (9999, 'from_the_future')")
    for words in (["migrate"], ["migrate", "--check"], ["health", "--no-workers"]):
        answer = shell(*words)
        assert answer.code == 1
        assert "version 9999" in answer.all
        assert "Install a newer holdfast" in answer.all
        assert "Traceback" not in answer.all


def test_another_schema_of_its_own(bare: Shell) -> None:
    assert bare("migrate", "--schema", "work_b").code == 0
    assert bare("migrate", "--check", HOLDFAST_SCHEMA="work_b").code == 0
    assert bare("migrate", "--check").code == 1
    assert len(bare("enqueue", "greet", HOLDFAST_SCHEMA="work_b").out.strip()) == 36
    assert bare.sql("select kind from work_b.inbox") == [{"kind": "greet"}]


def test_another_encoding_is_refused(bare: Shell) -> None:
    assert bare.url is not None
    name = f"latin_{secrets.token_hex(4)}"
    bare.sql(f"create database {name} encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0")
    try:
        answer = Shell(urlunsplit(urlsplit(bare.url)._replace(path=f"/{name}")), bare.folder)("migrate")
        assert answer.code == 1
        assert "encoded in LATIN1; expected UTF8" in answer.err
        assert "createdb -E UTF8 -T template0" in answer.err
    finally:
        bare.sql(f"drop database {name} with (force)")
