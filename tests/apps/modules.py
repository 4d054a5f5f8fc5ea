"""Says which modules its worker has imported."""

import sys

from holdfast import Holdfast

hf = Holdfast()


@hf.task
async def modules() -> list[str]:
    return sorted(sys.modules)
