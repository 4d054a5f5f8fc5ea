"""Holdfast in a Django project: its database, its setup, and connections that survive an outage.

    # project/hf.py
    hf = DjangoHoldfast(imports=["shop.tasks"])

A worker, `holdfast worker project.hf:hf`, calls django.setup() before it imports the modules with the tasks. Around
every attempt, connections of Django's are handled as Django handles them around a request:

    sync handler     in its thread: old and broken connections are closed before and after it
    async handler    the attempt has its own thread for the ORM, as a request under ASGI; its connections are closed
                     when it ends. In one thread for all attempts, they would share one connection
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import django
from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections
from django.http import HttpRequest
from django.utils.connection import ConnectionDoesNotExist

from ..app import Holdfast
from ..context import Context
from ..db.urls import APPLIED, IGNORED, resolve_url
from ..errors import ConfigurationError
from ..middleware import CallNext, CallNextSync, Layer
from ..model.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from starlette.requests import Request

_OF_DJANGO = {"pool", "isolation_level", "server_side_binding", "cursor_factory", "context", "prepare_threshold"}
"""Options about Django's own connections; the server and the login are the same without them."""


class DjangoHoldfast(Holdfast):
    """A Holdfast on a database of your Django settings: `DATABASES[alias]`.

    The settings are read when the database is first used, so importing the module that has this object needs no
    settings. HOLDFAST_DATABASE_URL is not used. All other options are those of `Holdfast`.

    ```python
    from holdfast.contrib.django import DjangoHoldfast

    in_django = DjangoHoldfast(imports=["shop.tasks"])
    ```
    """

    def __init__(
        self,
        *,
        alias: str = "default",
        schema: str | None = None,
        pooler: bool | None = None,
        limits: Limits = DEFAULT_LIMITS,
        lifespan: Callable[[Holdfast], AbstractAsyncContextManager[Any]] | None = None,
        lifespan_sync: Callable[[Holdfast], AbstractContextManager[Any]] | None = None,
        imports: Iterable[str] = (),
        strict_events: bool = False,
    ) -> None:
        super().__init__(
            schema=schema, pooler=pooler, limits=limits, lifespan=lifespan, lifespan_sync=lifespan_sync,
            imports=imports, strict_events=strict_events,
        )  # fmt: skip
        self._alias = alias
        self._middleware += [
            Layer(fresh_connections, "async", only=True, ours=True),
            Layer(fresh_connections_sync, "sync", only=True, ours=True),
        ]

    def _resolve_url(self) -> str | None:
        try:
            connection = connections[self._alias]
            vendor, database = connection.vendor, connection.settings_dict
        except (ImproperlyConfigured, ConnectionDoesNotExist) as error:
            raise ConfigurationError(f"the Django settings: {error}") from None
        if vendor != "postgresql":
            raise ConfigurationError(
                f"DATABASES[{self._alias!r}]: expected PostgreSQL, got {vendor}; name another one: alias='…'"
            )
        return resolve_url(url_of(database, self._alias))

    def _prepare(self) -> None:
        """Set up Django, unless it is."""
        if apps.ready:
            return
        try:
            django.setup()
        except ImproperlyConfigured as error:
            raise ConfigurationError(
                f"Django could not be set up: {error} Set DJANGO_SETTINGS_MODULE, such as project.settings, in the "
                "worker's environment, or in the module of this application before it makes DjangoHoldfast"
            ) from None
        # LOGGING without "disable_existing_loggers": False turns off the loggers that are there, which are ours.
        for name, logger in logging.root.manager.loggerDict.items():
            if name.partition(".")[0] == "holdfast" and isinstance(logger, logging.Logger):
                logger.disabled = False


def url_of(database: Mapping[str, Any], alias: str = "default") -> str:
    """Return the URL of one of the DATABASES. Raises if it has an option that Holdfast cannot apply."""
    named = f"DATABASES[{alias!r}]"
    options = {name: value for name, value in (database.get("OPTIONS") or {}).items() if name not in _OF_DJANGO}
    if role := options.pop("assume_role", None):
        escaped = str(role).replace("\\", "\\\\").replace(" ", "\\ ")
        options["options"] = f"{options.get('options') or ''} -c role={escaped}".strip()
    for name, value in options.items():
        if name not in APPLIED | IGNORED:
            raise ConfigurationError(
                f"{named}['OPTIONS']: Holdfast cannot apply {name!r}. Leave it out, or use Holdfast(url) with a URL of "
                "the same database"
            )
        if not isinstance(value, (str, int)):
            raise ConfigurationError(f"{named}['OPTIONS'][{name!r}]: expected text, got {type(value).__name__}")
    name = database.get("NAME")
    if name is None:
        name = "postgres"  # as Django does
        options.pop("service", None)
    if name == "" and not options.get("service"):
        raise ConfigurationError(f"{named}: has no NAME")
    place = {
        "user": database.get("USER"), "password": database.get("PASSWORD"), "host": database.get("HOST"),
        "port": database.get("PORT"), "dbname": name,
    }  # fmt: skip
    given = {key: str(value) for key, value in place.items() if value}
    chosen = {key: str(value) for key, value in options.items()}
    if "dbname" in chosen:  # as in Django, OPTIONS win over NAME, and over nothing else
        given.pop("dbname", None)
    return _url({**chosen, **given})


def _url(parameters: dict[str, str]) -> str:
    """As much as possible goes before the `?`, because only that is shown in messages, without the password."""
    login = quote(parameters.pop("user", ""), safe="")
    if "password" in parameters:
        login += f":{quote(parameters.pop('password'), safe='')}"
    hosts, ports = parameters.get("host", "").split(","), parameters.get("port", "").split(",")
    place = ""
    if not any(host.startswith(("/", "@")) for host in hosts) and all(hosts) and len(ports) in (1, len(hosts)):
        ports *= len(hosts) // len(ports)
        named = [f"[{host}]" if ":" in host else quote(host, safe="") for host in hosts]
        place = ",".join(f"{host}:{port}" if port else host for host, port in zip(named, ports, strict=True))
        parameters.pop("host", None)
        parameters.pop("port", None)
    path = quote(parameters.pop("dbname", ""), safe="")
    query = urlencode(parameters, quote_via=quote)
    return f"postgresql://{login}{'@' if login else ''}{place}/{path}{'?' if query else ''}{query}"


async def fresh_connections(ctx: Context, call_next: CallNext) -> None:
    """Give an async attempt its own thread for the ORM, and close its connections when it ends."""
    async with ThreadSensitiveContext() as context:
        try:
            await call_next()
        finally:
            if context in SyncToAsync.context_to_thread_executor:  # it has used the ORM
                await sync_to_async(connections.close_all)()


def fresh_connections_sync(ctx: Context, call_next: CallNextSync) -> None:
    """Close old and broken connections before and after an attempt, and check those that stay before they are used."""
    _check_connections()
    try:
        call_next()
    finally:
        close_old_connections()


def _check_connections() -> None:
    for connection in connections.all(initialized_only=True):
        connection.health_check_enabled = True  # as with CONN_HEALTH_CHECKS: a restart costs an idle thread no attempt
    close_old_connections()


async def staff(request: Request) -> str | None:
    """The name of the user who is logged in to your Django project, if that is an active one of the staff.

    For the dashboard beside Django's own application. It reads Django's session, as `django.contrib.auth` does.

    ```python
    from holdfast.contrib.django import staff

    dashboard = hf.dashboard(auth=staff, allowed_hosts=["ops.example"])
    ```
    """
    key = request.cookies.get(settings.SESSION_COOKIE_NAME)
    if not key:
        return None
    async with ThreadSensitiveContext():  # Django does not know of this request: nothing else closes its connections
        found: str | None = await sync_to_async(_staff)(key)
        return found


def _staff(key: str) -> str | None:
    from django.contrib.auth import get_user  # it needs the setup

    asked = HttpRequest()
    asked.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    try:
        user = get_user(asked)
        return str(user.get_username()) if user.is_active and getattr(user, "is_staff", False) else None
    finally:
        connections.close_all()


__all__ = ["DjangoHoldfast", "staff"]
