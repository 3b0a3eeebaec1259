"""The browser in which tests look at the page: Debian's Chromium, driven by Playwright."""

import shutil

PACKAGES = "chromium"


def program() -> str | None:
    """Where it is."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
