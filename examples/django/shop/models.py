from django.db import connection, models, transaction

from holdfast import Job


class Order(models.Model):
    email = models.EmailField()
    paid = models.BooleanField(default=False)
    receipts = models.IntegerField(default=0)

    def pay(self) -> Job:
        """Commit the order together with the job that sends its receipt."""
        from examples.django.shop.tasks import send_receipt

        with transaction.atomic():
            self.paid = True
            self.save()
            job: Job = send_receipt.on(connection, key=f"order:{self.pk}").enqueue(self.pk)
            return job
