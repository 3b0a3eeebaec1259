"""Writes every page that is made from the code: `make docs`."""

from docs.made.pages import PAGES

for path, page in PAGES.items():
    path.write_text(page())
