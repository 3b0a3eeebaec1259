"""Addresses of the shop."""

from django.urls import path
from shop import views

urlpatterns = [path("orders/<int:number>", views.order), path("runs/<run>", views.run)]
