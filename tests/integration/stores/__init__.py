"""Stores and their servers, as they fail."""
