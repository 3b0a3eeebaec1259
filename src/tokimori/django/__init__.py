"""Tokimori in a Django project: `"tokimori.django"` in INSTALLED_APPS, and this app for functions in `tasks.py`.

from tokimori.django import app

@app.job("@daily")
def clean_up() -> None: ...
"""

from tokimori.django.jobs import app

__all__ = ["app"]
