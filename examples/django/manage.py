"""`python manage.py migrate`, `python manage.py runserver` and, beside it, `python manage.py tokimori worker`."""

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
execute_from_command_line(sys.argv)
