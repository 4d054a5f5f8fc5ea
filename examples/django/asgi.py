"""The project with the dashboard beside it: `uvicorn examples.django.asgi:application`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.core.asgi import get_asgi_application
from starlette.applications import Starlette
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route

from examples.django.hf import hf
from holdfast.contrib.django import staff

project = get_asgi_application()  # sets up Django
dashboard = hf.dashboard(auth=staff, allowed_hosts=["ops.example"])


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    yield
    await dashboard.close()
    await hf.close()


application = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/holdfast", RedirectResponse("/holdfast/")),  # or Django would answer 404
        Mount("/holdfast", dashboard),
        Mount("/", project),
    ],
)
