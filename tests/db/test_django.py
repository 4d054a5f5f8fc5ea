"""DATABASES of Django on a real server: Holdfast gets the same database, role and settings as Django."""

import secrets
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
import pytest
from tests.support.pooler import direct

from holdfast.contrib.django import url_of
from holdfast.db.database import Database
from holdfast.db.urls import resolve_url


@pytest.mark.direct
async def test_role_and_settings(migrated_url: str) -> None:
    role = f"the owner {secrets.token_hex(4)}"
    parts = urlsplit(direct(migrated_url))
    database: dict[str, Any] = {
        "NAME": parts.path.lstrip("/"), "USER": unquote(parts.username or ""), "HOST": parts.hostname or "",
        "PASSWORD": unquote(parts.password or ""), "PORT": parts.port,
        "OPTIONS": {"assume_role": role, "options": "-c extra_float_digits=2", "application_name": "the shop"},
    }  # fmt: skip
    with psycopg.connect(direct(migrated_url), autocommit=True) as admin:
        admin.execute(f'create role "{role}"'.encode())
        try:
            connection = await Database(resolve_url(url_of(database)), "holdfast", False).connect("test")
            row = await connection.fetchrow(
                "select current_user, current_setting('extra_float_digits'), current_database()"
            )
            await connection.close()
        finally:
            admin.execute(f'drop role "{role}"'.encode())
    assert row is not None
    assert tuple(row) == (role, "2", database["NAME"])
