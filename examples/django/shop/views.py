"""An order and its delivery are asked for in one transaction: both exist, or neither does."""

from django.db import transaction
from django.http import Http404, JsonResponse
from shop.models import Order
from shop.tasks import deliver


def order(request):
    """Take an order."""
    with transaction.atomic():
        made = Order.objects.create()
        handle = deliver.enqueue(made.pk)
        if "fails" in request.GET:
            raise Http404("nothing of it is kept")
    return JsonResponse({"order": made.pk, "run": handle.id})


def state(request, number):
    """Tell how far an order is."""
    found = Order.objects.filter(pk=number).values("state", "deliveries").first()
    return JsonResponse(found or {}, status=200 if found else 404)
