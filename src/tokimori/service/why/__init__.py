"""Reasons why something does not start: the same at all doors, from one reading of the store (docs/how-to/why.md)."""
