"""`holdfast worker` of a Django project: the setup comes first, and errors say what is wrong."""

from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.cli.test_worker import working
from tests.support.waiting import wait_until

APP = """
from holdfast.contrib.django import DjangoHoldfast

hf = DjangoHoldfast(imports=["project.tasks"])
"""
TASKS = """
from django.contrib.contenttypes.models import ContentType  # needs the setup

from project.hf import hf

@hf.task
def count() -> int:
    return ContentType.objects.count()
"""
SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["django.contrib.contenttypes"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop", "HOST": "127.0.0.1", "PORT": "1",
                         "USER": "me", "PASSWORD": "c4nary"}}
LOGGING = {"version": 1}
"""


@pytest.fixture
def project(tmp_path: Path) -> Shell:
    (tmp_path / "project").mkdir()
    for name, text in {"__init__": "", "hf": APP, "tasks": TASKS, "settings": SETTINGS}.items():
        (tmp_path / "project" / f"{name}.py").write_text(text)
    return Shell("postgresql://not-used@127.0.0.1:2/none", tmp_path, {"DJANGO_SETTINGS_MODULE": "project.settings"})


def refused(project: Shell, **variables: str) -> str:
    answer = project("worker", "project.hf:hf", **variables)
    assert answer.code == 78
    assert "c4nary" not in answer.err
    return answer.err


def test_the_setup_comes_before_the_tasks_and_the_log_stays(project: Shell) -> None:
    """LOGGING without disable_existing_loggers turns off loggers that are there; ours say what happens."""
    with working(project, app="project.hf:hf") as (process, log):
        wait_until(lambda: "cannot reach the server" in log.read_text() or process.poll() is not None)
        assert process.poll() is None
    assert "postgresql://me:***@127.0.0.1:1/shop" in log.read_text()
    assert "c4nary" not in log.read_text()
    assert "Traceback" not in log.read_text()


def test_without_settings(project: Shell) -> None:
    said = refused(project, DJANGO_SETTINGS_MODULE="")
    assert said.startswith("holdfast: Django could not be set up: Requested setting")
    assert "Set DJANGO_SETTINGS_MODULE, such as project.settings" in said
    assert "Traceback" not in said


def test_with_settings_that_are_not_there(project: Shell) -> None:
    said = refused(project, DJANGO_SETTINGS_MODULE="project.setings")
    assert "No module named 'project.setings'" in said


def test_with_an_error_in_a_module_of_the_project(project: Shell) -> None:
    (project.folder / "project" / "models.py").write_text("1 / 0\n")
    file = project.folder / "project" / "settings.py"
    file.write_text(SETTINGS.replace('["django', '["project", "django'))
    said = refused(project)
    assert said.startswith("holdfast: app: could not be prepared:\nTraceback")
    assert "ZeroDivisionError" in said


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("backends.postgresql", "backends.sqlite3", "DATABASES['default']: expected PostgreSQL, got sqlite"),
        (
            '"default": {',
            '"default": {}, "other": {',
            "DATABASES['default']: expected PostgreSQL, got unknown",
        ),
        ('"USER"', '"OPTIONS": {"require_auth": "md5"}, "USER"', "Holdfast cannot apply 'require_auth'"),
    ],
)
def test_with_a_database_that_does_not_fit(project: Shell, was: str, now: str, said: str) -> None:
    (project.folder / "project" / "settings.py").write_text(SETTINGS.replace(was, now))
    assert said in refused(project)


def test_with_an_alias_that_is_not_there(project: Shell) -> None:
    (project.folder / "project" / "hf.py").write_text(APP.replace("(imports", '(alias="replica", imports'))
    assert "the Django settings: The connection 'replica' doesn't exist" in refused(project)
