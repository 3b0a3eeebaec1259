"""Numbered migrations of the Redis store."""
