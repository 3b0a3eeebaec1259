"""The app of Django in INSTALLED_APPS."""

from django.apps import AppConfig


class TokimoriConfig(AppConfig):  # type: ignore[misc]  # Django says no types
    """Tokimori among the apps of a project: it has no models, as the tables of a store are the store's own."""

    name = "tokimori.django"
    label = "tokimori"
    verbose_name = "Tokimori"
