"""A process that receives webhooks: `python -m tests.receiving.hooked DATABASE_URL`, in base64. It prints its port."""

import asyncio
import base64
import sys

from tests.support.hooks import SECRET, serving

from holdfast import Holdfast


async def main(url: str) -> None:
    async with serving(Holdfast(url).receiver(source="shop", secrets=[SECRET])) as address:
        print(address.rpartition(":")[2], flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(base64.b64decode(sys.argv[1]).decode()))
