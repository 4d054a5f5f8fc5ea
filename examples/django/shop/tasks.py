"""Handlers use the ORM as views do. Sync ones run in threads."""

import asyncio
import time

from django.db import transaction
from django.db.models import F

from examples.django.hf import hf
from examples.django.shop.models import Order


@hf.task(queue="mail")
def send_receipt(order_id: int, takes: float = 0.0) -> None:
    order = Order.objects.get(pk=order_id)
    assert order.paid
    time.sleep(takes)  # here it would be sent
    with transaction.atomic():
        Order.objects.filter(pk=order_id).update(receipts=F("receipts") + 1)


@hf.task(queue="mail")
async def send_reminder(order_id: int, takes: float = 0.0) -> str:
    order = await Order.objects.aget(pk=order_id)
    await asyncio.sleep(takes)
    await Order.objects.filter(pk=order_id).aupdate(receipts=F("receipts") + 1)
    return order.email
