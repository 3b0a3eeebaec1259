"""Readers of foreign formats, one file each; the rest of the package knows none of them."""
