"""The app with all functions of the project, for worker processes: `manage.py tokimori worker`."""

import django
from django.conf import settings
from django.utils.module_loading import autodiscover_modules, import_string

from tokimori.django.jobs import app

__all__ = ["app"]


def _set_up() -> None:
    django.setup()
    autodiscover_modules("tasks")
    backends = {import_string(each["BACKEND"]).__module__ for each in getattr(settings, "TASKS", {}).values()}
    if app.tasks or "tokimori.django.backends" in backends:
        from tokimori.django.backends import declare_tasks  # noqa: PLC0415  it needs a library for tasks

        app.on_start(declare_tasks)


_set_up()
