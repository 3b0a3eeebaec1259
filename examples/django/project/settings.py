"""A project whose database is the store as well, so that requests are a part of its transactions."""

import os
from pathlib import Path

import django

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ.get("SECRET_KEY", "for the example only")
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
USE_TZ = True
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["shop", "tokimori.django"]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")  # which are Django's own since version 6
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ.get("PGDATABASE", "shop"),
        "HOST": os.environ.get("PGHOST", ""),
        "PORT": os.environ.get("PGPORT", ""),
        "USER": os.environ.get("PGUSER", ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }
}
TOKIMORI = {"prune": "pause", "app": {"processes": 2}, "node.stop_grace": 30}
TASKS = {
    "default": {
        "BACKEND": "tokimori.django.backends.TokimoriBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"attempts": 2, "retry_delay": "1s"},
    }
}
