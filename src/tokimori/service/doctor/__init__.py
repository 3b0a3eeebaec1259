"""Findings about a store and its nodes: the same at all doors (docs/reference/operations.md)."""
