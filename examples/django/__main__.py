"""Pay two orders, roll one back, run a worker, and count."""

import asyncio
import os
from contextlib import suppress
from urllib.parse import urlsplit

import django
from django.core.management import call_command
from django.db import connections, transaction

from holdfast.embedded import EmbeddedPostgres


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django.settings")
    django.setup()
    from examples.django.hf import hf
    from examples.django.shop.models import Order

    call_command("migrate", run_syncdb=True, verbosity=0)
    hf.migrate_sync()
    orders = [Order.objects.create(email=f"{name}@example.org") for name in ("ada", "bob", "eve")]
    jobs = [order.pay() for order in orders[:2]]
    with suppress(RuntimeError), transaction.atomic():
        orders[2].pay()
        raise RuntimeError("the card was refused")

    async def work() -> None:
        async with hf.worker(poll=0.05):
            for job in jobs:
                await job.result()
        await hf.close()

    asyncio.run(work())
    for order in Order.objects.order_by("pk"):
        print(f"{order.email:<16} paid={order.paid!s:<6} receipts={order.receipts}")
    connections.close_all()


def variables(url: str) -> dict[str, str]:
    """The URL as libpq's variables, from which the settings take it."""
    parts = urlsplit(url)
    return {
        "PGHOST": parts.hostname or "", "PGPORT": str(parts.port or ""), "PGUSER": parts.username or "",
        "PGPASSWORD": parts.password or "", "PGDATABASE": parts.path.lstrip("/"),
    }  # fmt: skip


if __name__ == "__main__":
    if url := os.environ.get("HOLDFAST_DATABASE_URL"):
        os.environ.update(variables(url))
        main()
    else:
        with EmbeddedPostgres() as server:
            os.environ.update(variables(server.url))
            main()
