"""An application with a schedule: a job every second."""

from holdfast import Context, Holdfast

hf = Holdfast()


@hf.every("1s", missed="all")
@hf.task
async def tick(ctx: Context) -> str:
    return ctx.headers["slot"]
