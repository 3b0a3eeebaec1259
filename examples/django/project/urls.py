"""Addresses of the shop."""

from django.urls import path
from shop import views

urlpatterns = [path("orders", views.order), path("orders/<int:number>", views.state)]
