"""Enqueueing from SQLAlchemy and Django: the same call, awaited if the connection is async."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from holdfast import Holdfast, Job

hf = Holdfast()


@hf.task(queue="mail")
async def send_receipt(order_id: int) -> None: ...


def pay(session: Session, order_id: int) -> Job:
    """Enqueue in the session's transaction; the caller commits it."""
    session.execute(text("insert into orders values (:id)"), {"id": order_id})
    return send_receipt.on(session, key=f"order:{order_id}").enqueue(order_id)


async def pay_async(session: AsyncSession, order_id: int) -> Job:
    await session.execute(text("insert into orders values (:id)"), {"id": order_id})
    return await send_receipt.on(session, key=f"order:{order_id}").enqueue(order_id)


def pay_django(order: Any) -> Job:
    """`order` is an instance of a model; the job commits with its row."""
    from django.db import connection, transaction

    with transaction.atomic():
        order.save()
        job: Job = send_receipt.on(connection, key=f"order:{order.pk}").enqueue(order.pk)
        return job
