"""Run the projection, deliver everything twice, make it again from the log, and compare."""

import asyncio

from examples.databases import two_databases

if __name__ == "__main__":
    with two_databases("SHOP_DATABASE_URL", "REPORTS_DATABASE_URL"):
        from examples.projection.demo import main  # the services read the addresses when they are imported

        asyncio.run(main())
