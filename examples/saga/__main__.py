"""Place orders, some of which cannot be paid, and kill workers of both services in the middle."""

import asyncio

from examples.databases import two_databases

if __name__ == "__main__":
    with two_databases("ORDERS_DATABASE_URL", "PAYMENTS_DATABASE_URL"):
        from examples.saga.demo import main  # the services read the addresses when they are imported

        asyncio.run(main())
