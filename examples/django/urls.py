from django.http import HttpRequest, HttpResponse
from django.urls import path

from examples.django.shop.models import Order


def orders(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{Order.objects.count()} orders, {request.user}, {request.path}")


urlpatterns = [path("orders/", orders)]
