"""Orders."""

from django.db import models


class Order(models.Model):
    """An order; `state` is new, delivered or old."""

    state = models.CharField(max_length=20, default="new")
    deliveries = models.IntegerField(default=0)
