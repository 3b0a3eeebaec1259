"""Numbered migrations of the PostgreSQL store."""
