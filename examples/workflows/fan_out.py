"""An album of many pages: each page is a job, which any worker runs. The album goes on when all are done."""

from holdfast import Flow, Holdfast

hf = Holdfast()


@hf.task
async def render(page: int) -> int:
    """The size of the page in bytes."""
    return 1000 + page


@hf.workflow
async def album(flow: Flow, pages: int) -> str:
    sizes = await flow.map("render", render, [{"page": page} for page in range(pages)])
    return await flow.step("bind", bind, sizes)


async def bind(sizes: list[int]) -> str:
    return f"{len(sizes)} pages, {sum(sizes)} bytes"
