"""An order and its delivery are asked for in one transaction: both exist, or neither does."""

from django.db import transaction
from django.http import HttpResponseBadRequest, JsonResponse
from shop.models import Order
from shop.tasks import deliver

from tokimori.django import app


class Unpaid(Exception):
    """The order is not paid."""


def order(request, number):
    """Take an order (POST), the same one twice is one run; or tell how far it is."""
    if request.method == "GET":
        found = Order.objects.filter(pk=number).values("state", "deliveries").first()
        return JsonResponse(found or {}, status=200 if found else 404)
    try:
        with transaction.atomic():
            Order.objects.get_or_create(pk=number)
            handle = deliver.asked(key=f"order-{number}").enqueue(number, float(request.GET.get("seconds", 0)))
            if "unpaid" in request.GET:
                raise Unpaid
    except Unpaid:
        return HttpResponseBadRequest("nothing of it is kept")
    return JsonResponse({"run": handle.id})


def run(_request, run):
    """Wait for the end of a run."""
    return JsonResponse({"result": app.handle(run).result(timeout=60)})
