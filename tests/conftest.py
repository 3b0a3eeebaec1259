"""Settings of all tests."""

from hypothesis import settings

settings.register_profile("tokimori", deadline=None, print_blob=True)
settings.load_profile("tokimori")
