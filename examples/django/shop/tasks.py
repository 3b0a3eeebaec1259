"""What workers do: jobs of Tokimori, and Django's own tasks, which Tokimori runs as well."""

import time

from django.db.models import F
from shop.models import Order

from tokimori.django import app

try:
    from django.tasks import task
except ImportError:  # before Django 6
    from django_tasks import task


@app.job("@daily")
def clean_up() -> int:
    """Delete what is old."""
    return Order.objects.filter(state="old").delete()[0]


@app.job(attempts=3, retry_delay="1s")
def deliver(order: int, seconds: float = 0.0) -> str:
    """Deliver an order, in so many seconds."""
    time.sleep(seconds)
    Order.objects.filter(pk=order).update(state="delivered", deliveries=F("deliveries") + 1)
    return f"order {order} is delivered"


@task
def add(a, b):
    """A task of Django's: `add.enqueue(1, b=2)`."""
    return a + b


@task(queue_name="mail")
async def write(to):
    """A task that awaits, in a queue of its own."""
    return f"written to {to}"
