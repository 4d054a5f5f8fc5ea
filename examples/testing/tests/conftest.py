from collections.abc import Callable, Iterator

import psycopg
import pytest
import shop

pytest_plugins = ["holdfast.testing.pytest"]


@pytest.fixture(scope="session")
def holdfast_prepare() -> Callable[[str], None]:
    """The application's own tables; real ones would call Alembic or `manage.py migrate` here."""

    def prepare(url: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute("create table ledger (order_id int primary key, cents int not null)")

    return prepare


@pytest.fixture(autouse=True)
def clean(holdfast_clean: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", holdfast_clean)
    with psycopg.connect(holdfast_clean) as connection:
        connection.execute("delete from ledger")
    shop.sent.clear()
    yield
